"""Rows of factors of users and items, and the scores they give."""

import math
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from .jit import pjit
from .splitmix import Floats, Words, below, fill_noise, mixed

Ints = npt.NDArray[np.int64]

LAST, CLICKS, RECENT = 0, 1, 2  # columns of the marks


class Factors(NamedTuple):
    """Rows of users and items, what a step touches together side by side.

    users: U (d), its G, the moving average of (1) or 0 before the first. items: V (d), bias, their G, and,
    where recent clicks count, W (d), its G. G are sums of squared gradients, from 1. Marks: the number of the
    last click that touched the row, -1 for a row not in use; its clicks; and of a user the rows of the items
    clicked last, the newest first, -1 for none. Traits of users and items: rows of `traits`, -1 for none.
    traits: A (d), bias, their G, and room to sum a slope in, 0 between clicks. The shelf holds the traits of
    items that nobody has clicked yet, and the number of the click that came next when they were described.
    """

    users: Floats
    items: Floats
    user_marks: Ints
    item_marks: Ints
    user_traits: Ints
    item_traits: Ints
    traits: Floats
    trait_marks: Ints
    shelf_traits: Ints
    shelf_marks: Ints


@pjit
def begin_rows(
    table: Floats, marks: Ints, rows: Ints, words: Words, d: int, ones: Ints, spread: float
) -> None:
    """Factors of noise by `words`, 1 in the columns `ones`, 0 in the others; no clicks, none recent."""
    for k in range(len(rows)):
        row = rows[k]
        table[row] = 0.0
        fill_noise(table[row, :d], words[k], spread)
        for column in ones:
            table[row, column] = 1.0
        marks[row, CLICKS] = 0
        marks[row, RECENT:] = -1


@pjit
def taste_of(factors: Factors, x: int, decay: float, T: Floats) -> None:
    """What scores items for user row x: T_x, into `T`. Of who has not clicked yet, what the traits say."""
    taste_at(
        factors.users, factors.items, factors.user_marks, factors.user_traits, factors.traits, x, decay, T
    )


@pjit
def taste_at(
    users: Floats, items: Floats, marks: Ints, of: Ints, traits: Floats, x: int, decay: float, T: Floats
) -> None:  # fmt: skip
    """`taste_of`: of arrays by themselves, since references to all of a tuple are counted at a cost."""
    d, clicked, a = len(T), marks[x, LAST] >= 0, 1.0
    for j in range(d):
        T[j] = users[x, j] if clicked else 0.0
    for k in range(RECENT, marks.shape[1]):
        row = marks[x, k]
        for j in range(d if row >= 0 else 0):
            T[j] += a * items[row, d + 2 + j]
        a *= decay
    share = share_of(of, x) if of.shape[1] else 0.0
    for k in range(of.shape[1]):
        trait = of[x, k]
        for j in range(d if trait >= 0 else 0):
            T[j] += share * traits[trait, j]


@pjit
def share_of(traits: Ints, row: int) -> float:
    """By how much each trait of a row counts: 1/sqrt(how many there are)."""
    n = 0
    for trait in traits[row]:
        n += trait >= 0
    return 1.0 / math.sqrt(max(n, 1))


@pjit
def score(T: Floats, items: Floats, row: int) -> float:
    """b + <T, V> of an item's row, summed in order."""
    d = len(T)
    f: float = items[row, d]
    for j in range(d):
        f += T[j] * items[row, j]
    return f


@pjit
def scores_at(T: Floats, items: Floats, rows: Ints, f: Floats) -> None:
    """`score` of each of these rows into `f`, to the same bits: four sums side by side wait for nobody."""
    d, fours = len(T), len(rows) // 4 * 4
    for k in range(0, fours, 4):
        z0, z1, z2, z3 = rows[k], rows[k + 1], rows[k + 2], rows[k + 3]
        f0, f1, f2, f3 = items[z0, d], items[z1, d], items[z2, d], items[z3, d]
        for j in range(d):
            t = T[j]
            f0 += t * items[z0, j]
            f1 += t * items[z1, j]
            f2 += t * items[z2, j]
            f3 += t * items[z3, j]
        f[k], f[k + 1], f[k + 2], f[k + 3] = f0, f1, f2, f3
    for k in range(fours, len(rows)):
        f[k] = score(T, items, rows[k])


@pjit
def lift(traits: Floats, of: Ints, row: int, T: Floats) -> float:
    """What its traits add to the score of an item; `of` names them by row."""
    total = 0.0
    for trait in of[row]:
        if trait >= 0:
            total += score(T, traits, trait)
    return total * share_of(of, row) if total != 0.0 else 0.0


@pjit
def scores_of(factors: Factors, T: Floats, n_rows: int) -> Floats:
    """Of each row of items by T; minus infinity of one that is not in use."""
    found = np.empty(n_rows)
    scores_at(T, factors.items, np.arange(n_rows), found)
    for row in range(n_rows):
        if factors.item_marks[row, LAST] < 0:
            found[row] = -np.inf
        elif factors.item_traits.shape[1]:
            found[row] += lift(factors.traits, factors.item_traits, row, T)
    return found


@pjit
def shelf_scores(factors: Factors, T: Floats, n_rows: int, typical: float) -> Floats:
    """Of each row of the shelf in use by T, of an item that would score `typical` without traits."""
    found = np.empty(n_rows)
    for row in range(n_rows):
        gone = factors.shelf_marks[row, 0] < 0
        found[row] = -np.inf if gone else typical + lift(factors.traits, factors.shelf_traits, row, T)
    return found


@pjit
def rank_of(factors: Factors, T: Floats, y: int, seen: Ints, n_rows: int) -> int:
    """Of item y among all in use but `seen`, by T, from 0; half of the ties are above."""
    marks = factors.item_marks
    out = np.zeros(n_rows, np.uint8)
    for row in seen:
        out[row] = 1
    out[y] = 1
    f_y = score(T, factors.items, y) + lift(factors.traits, factors.item_traits, y, T)
    above, ties = 0, 0
    for row in range(n_rows):
        if not out[row] and marks[row, LAST] >= 0:
            f = score(T, factors.items, row) + lift(factors.traits, factors.item_traits, row, T)
            above += f > f_y
            ties += f == f_y
    return above + ties // 2


@pjit
def sampled_rank(factors: Factors, T: Floats, x: int, y: int, number: int, n_rows: int, among: int) -> int:
    """As `rank_of`, among all but the items just clicked, or `among` draws that `number` decides."""
    marks, recent = factors.item_marks, factors.user_marks[x, RECENT:]
    generator = np.empty(1, np.uint64)
    generator[0] = mixed(np.uint64(number))
    f_y = score(T, factors.items, y) + lift(factors.traits, factors.item_traits, y, T)
    above, ties = 0, 0
    for k in range(min(n_rows, among)):
        row = k if n_rows <= among else below(generator, n_rows)
        out = row == y or marks[row, LAST] < 0
        for just in recent:
            out = out or just == row
        if not out:
            f = score(T, factors.items, row) + lift(factors.traits, factors.item_traits, row, T)
            above += f > f_y
            ties += f == f_y
    return above + ties // 2
