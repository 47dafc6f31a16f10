"""Clicks into factors: one step a click against B sampled items, for RoBiRank's loss or BPR's.

f_xy = b_y + <T_x, V_y>, T_x = U_x + sum_l a^l W_(the item that x clicked l clicks before the last): what x
likes, and what x is at just now. With B uniform negatives z, |Y| items, s the weight of the click and
sigma(t) = log2(1 + 2^-t),
    S = ((|Y|-1)/B) sum_z sigma(f_xy - f_xz)                                        (1)
    RoBiRank: loss s log2(1 + S), slope of f_xz: s (|Y|-1)/(B ln2 (1 + S)) /(1 + 2^(f_xy - f_xz))      (2)
    BPR: loss (s/B) sum_z log(1 + e^-(f_xy - f_xz)), slope of f_xz: (s/B)/(1 + e^(f_xy - f_xz))        (3)
(2) is the linearised loss at xi = 1/(1 + S), tight there. The same negatives give xi and the slope: the ratio
is bounded by s log2(e) max_z e_z/sigma_z whatever was drawn.
"""

import math
from typing import NamedTuple

import numpy as np

from .factors import CLICKS, LAST, RECENT, Factors, Ints, lift, sampled_rank, score, scores_at, taste_at
from .jit import pjit
from .splitmix import Floats, Words, below
from .traits import BLOCK_BITS, Bytes, Step, learn_item_traits, learn_user_traits, mark_traits

ROBIRANK, BPR = 0, 1
FAR = 60.0  # beyond it an exponent is as good as infinite
AT_ONCE = 16  # factors of at most 1 + 2^60 whose product is still a float64
ROUNDS = 1.5 * 2.0**52  # added and taken away again it leaves the nearest whole number
LN2 = math.log(2.0)
TRIES = 1000  # draws for one negative, before a click of a nearly empty block is passed over


class Stratum(NamedTuple):
    """The items that may be drawn: rows whose number, less the last `shift` bits, is `block` mod `blocks`."""

    block: int
    blocks: int
    shift: int


@pjit
def powers_of_two(x: Floats) -> None:
    """2^x in place, for |x| <= 1000, to the last bit or two: 2^whole times a series of the rest.

    Several at a time, as no loop calls out; and the same bits on every machine, as `math.exp` is not.

    >>> x = np.array([3.0, -0.5, 60.0])
    >>> powers_of_two(x)
    >>> print(x[0], abs(x[1] / math.sqrt(0.5) - 1) < 4e-16, x[2] == 2.0**60)
    8.0 True True
    """
    bits = np.empty(len(x), np.int64)
    for k in range(len(x)):
        whole = (x[k] + ROUNDS) - ROUNDS
        r = (x[k] - whole) * LN2
        p = 1.0 / 479001600.0
        p = p * r + 1.0 / 39916800.0
        p = p * r + 1.0 / 3628800.0
        p = p * r + 1.0 / 362880.0
        p = p * r + 1.0 / 40320.0
        p = p * r + 1.0 / 5040.0
        p = p * r + 1.0 / 720.0
        p = p * r + 1.0 / 120.0
        p = p * r + 1.0 / 24.0
        p = p * r + 1.0 / 6.0
        p = p * r + 0.5
        p = p * r + 1.0
        x[k] = p * r + 1.0
        bits[k] = (np.int64(whole) + 1023) << 52
    powers = bits.view(np.float64)
    for k in range(len(x)):
        x[k] *= powers[k]


@pjit
def slopes(
    f_y: float, f: Floats, n: int, s: float, loss: int, beta: float, mean_s: float, e: Floats
) -> float:
    """Slope of the loss by each negative's score into `e`; returns the new moving average of S.

    The slope by f_y is minus their sum. With beta = 1 the sample alone gives S.

    >>> e = np.empty(2)
    >>> slopes(0.0, np.zeros(2), 3, 1.0, ROBIRANK, 1.0, 0.0, e), e.round(4)
    (2.0, array([0.2404, 0.2404]))
    """
    B = len(f)
    unit = math.log2(math.e) if loss == BPR else 1.0
    for k in range(B):
        e[k] = min(max(unit * (f[k] - f_y), -FAR), FAR)
    powers_of_two(e)
    if loss == BPR:
        for k in range(B):
            e[k] = s / B * (e[k] / (1.0 + e[k]))
        return mean_s
    total = 0.0
    for first in range(0, B, AT_ONCE):
        product = 1.0  # a sum of logarithms by the logarithm of a product: a sixteenth of them
        for k in range(first, min(first + AT_ONCE, B)):
            product *= 1.0 + e[k]
            total += max(f[k] - f_y - FAR, 0.0)
        total += math.log2(product)
    S = (n - 1) / B * total
    if mean_s > 0.0:
        S = (1.0 - beta) * mean_s + beta * S
    weight = s * (n - 1) / (B * math.log(2.0) * (1.0 + S))
    for k in range(B):
        e[k] = weight * (e[k] / (1.0 + e[k]))
    return S


@pjit
def draw_items(generator: Words, stratum: Stratum, n_rows: int, marks: Ints, y: int, drawn: Ints) -> bool:
    """Rows in use of the stratum, other than y, into `drawn`; False where there seem to be none."""
    block, blocks, shift = stratum
    chunks = (n_rows + (1 << shift) - 1) >> shift
    n = ((chunks - block + blocks - 1) // blocks) << shift
    if n < 1:
        return False
    for k in range(len(drawn)):
        for tried in range(TRIES):
            place = below(generator, n)
            row = (((place >> shift) * blocks + block) << shift) + (place & ((1 << shift) - 1))
            if row < n_rows and row != y and marks[row, LAST] >= 0:
                drawn[k] = row
                break
            if tried == TRIES - 1:
                return False
    return True


@pjit
def learn_clicks(
    factors: Factors,
    rows: Ints,
    columns: Ints,
    weights: Floats,
    numbers: Ints,
    generator: Words,
    standing: Ints,
    stratum: Stratum,
    how: Step,
    streams: bool,
    among: int,
    ranked: Ints,
    dirty_users: Bytes,
    dirty_items: Bytes,
    dirty_traits: Bytes,
) -> None:
    """Learn each click in order, with negatives of the stratum.

    ``standing`` is [items in use, rows of items]; a first click of a row takes it in use. A new item starts
    as a seldom clicked one: the mean of the B drawn, each weighed by 1/clicks, plus the noise it was given.
    With `streams` the click becomes its user's newest, and W is learnt; else both stay. With `among` > 0
    each item that is not new is ranked by `sampled_rank` before it is learnt.
    """
    users, items, user_marks, marks, user_traits, item_traits, traits, trait_marks, _, _ = factors
    B, loss, rate, keep, ridge, beta, decay = how
    d, L, K = users.shape[1] - 2, user_marks.shape[1] - RECENT, item_traits.shape[1]
    of_drawn, of_factors = np.empty((2, B)), np.empty((2, d))
    f, e, T, step = of_drawn[0], of_drawn[1], of_factors[0], of_factors[1]
    z, touched = np.empty(B, np.int64), np.empty((B + 1) * K, np.int64)
    # a copy, and marks that are read before they are set: threads must not write to one cache line
    words = generator.copy()
    for t in range(len(rows)):
        x, y = rows[t], columns[t]
        new = marks[y, LAST] < 0
        if among and not new:
            taste_at(users, items, user_marks, user_traits, traits, x, decay, T)
            ranked[t] = sampled_rank(factors, T, x, y, numbers[t], standing[1], among)
        if new:
            standing[0] += 1
            standing[1] = max(standing[1], y + 1)
        user_marks[x, LAST] = marks[y, LAST] = numbers[t]
        taste_at(users, items, user_marks, user_traits, traits, x, decay, T)
        user_marks[x, CLICKS] += 1
        marks[y, CLICKS] += 1
        if not dirty_users[x >> BLOCK_BITS]:
            dirty_users[x >> BLOCK_BITS] = 1
        if not dirty_items[y >> BLOCK_BITS]:
            dirty_items[y >> BLOCK_BITS] = 1
        n = standing[0]
        if n > 1 and draw_items(words, stratum, standing[1], marks, y, z):
            if new:
                total = 0.0
                for k in range(B):
                    total += 1.0 / max(marks[z[k], CLICKS], 1)
                for k in range(B):
                    share = 1.0 / (max(marks[z[k], CLICKS], 1) * total)
                    for j in range(d + 1):
                        items[y, j] += share * items[z[k], j]
            f_y = score(T, items, y)
            scores_at(T, items, z, f)
            if K:
                f_y += lift(traits, item_traits, y, T)
                for k in range(B):
                    f[k] += lift(traits, item_traits, z[k], T)
            users[x, d + 1] = slopes(f_y, f, n, weights[t], loss, beta, users[x, d + 1], e)
            total, squared = 0.0, 1.0
            for j in range(d):
                step[j] = 0.0
                squared += T[j] * T[j]
            for k in range(B):
                row, e_z = z[k], e[k]
                total += e_z
                for j in range(d):
                    step[j] -= e_z * items[row, j]
            for k in range(B):
                row, e_z = z[k], e[k]
                g = 1.0 + keep * (items[row, d + 1] - 1.0) + e_z * e_z * squared
                items[row, d + 1] = g
                eta = rate / math.sqrt(g)
                down, shrink = eta * e_z, 1.0 - eta * ridge
                for j in range(d):
                    items[row, j] = shrink * items[row, j] - down * T[j]
                items[row, d] = shrink * items[row, d] - down
                if not dirty_items[row >> BLOCK_BITS]:
                    dirty_items[row >> BLOCK_BITS] = 1
            for j in range(d):
                step[j] += total * items[y, j]
            if K:
                learn_item_traits(factors, z, e, y, total, T, squared, how, step, touched, dirty_traits)
            g = 1.0 + keep * (items[y, d + 1] - 1.0) + total * total * squared
            items[y, d + 1] = g
            eta = rate / math.sqrt(g)
            up, shrink = eta * total, 1.0 - eta * ridge
            for j in range(d):
                items[y, j] = shrink * items[y, j] + up * T[j]
            items[y, d] = shrink * items[y, d] + up
            squared = 0.0
            for j in range(d):
                squared += step[j] * step[j]
            users[x, d] = 1.0 + keep * (users[x, d] - 1.0) + squared
            eta = rate / math.sqrt(users[x, d])
            for j in range(d):
                users[x, j] = (1.0 - eta * ridge) * users[x, j] + eta * step[j]
            if streams:
                a, g_at = 1.0, 2 * d + 2
                for k in range(L):
                    row = user_marks[x, RECENT + k]
                    if row >= 0:
                        items[row, g_at] = 1.0 + keep * (items[row, g_at] - 1.0) + a * a * squared
                        eta = rate / math.sqrt(items[row, g_at])
                        for j in range(d):
                            w = items[row, d + 2 + j]
                            items[row, d + 2 + j] = (1.0 - eta * ridge) * w + eta * a * step[j]
                        dirty_items[row >> BLOCK_BITS] = 1
                    a *= decay
            if K:
                learn_user_traits(factors, x, step, squared, how, dirty_traits)
        if streams and K:
            mark_traits(user_traits[x], trait_marks, numbers[t], dirty_traits)
            mark_traits(item_traits[y], trait_marks, numbers[t], dirty_traits)
        if streams and L and user_marks[x, RECENT] != y:  # a purchase after a click is no second item
            for k in range(RECENT + L - 1, RECENT, -1):
                user_marks[x, k] = user_marks[x, k - 1]
            user_marks[x, RECENT] = y
    generator[0] = words[0]


@pjit
def learn_single(
    users: Floats,
    items: Floats,
    user_marks: Ints,
    item_marks: Ints,
    x: int,
    y: int,
    weight: float,
    number: int,
    generator: Words,
    standing: Ints,
    how: Floats,
    dirty_users: Bytes,
    dirty_items: Bytes,
) -> None:
    """`learn_clicks` of one click of a stream without traits, to the same bits; `how` holds a `Step`.

    Called a hundred thousand times a second: what stands in tuples takes longer to hand over than to learn
    from, and room for no traits is made here in less time.
    """
    none, bare = np.empty((max(len(users), len(items)), 0), np.int64), np.empty((0, 0))
    factors = Factors(users, items, user_marks, item_marks, none, none, bare, none, none, none)
    step = Step(np.int64(how[0]), np.int64(how[1]), how[2], how[3], how[4], how[5], how[6])  # type: ignore[arg-type]
    click, weights = np.empty(3, np.int64), np.empty(1)
    click[0], click[1], click[2], weights[0] = x, y, number, weight
    learn_clicks(
        factors, click[:1], click[1:2], weights, click[2:], generator, standing, Stratum(0, 1, 0), step, True,
        0, click, dirty_users, dirty_items, dirty_items,
    )  # fmt: skip
