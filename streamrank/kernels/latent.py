"""Clicks into factors: one step a click against B sampled items, for RoBiRank's loss or BPR's.

f_xy = <U_x, V_y>; column 0 of U is fixed at 1 where there is a bias, so that V_y0 is the bias of item y. With
B uniform negatives z, |Y| items, s the weight of the click, sigma(t) = log2(1 + 2^-t),
    S = ((|Y|-1)/B) sum_z sigma(f_xy - f_xz)                                        (1)
    RoBiRank: loss s log2(1 + S), slope of f_xz: s (|Y|-1)/(B ln2 (1 + S)) /(1 + 2^(f_xy - f_xz))      (2)
    BPR: loss (s/B) sum_z log(1 + e^-(f_xy - f_xz)), slope of f_xz: (s/B)/(1 + e^(f_xy - f_xz))        (3)
(2) is the linearised loss at xi = 1/(1 + S), tight there. The same negatives give xi and the slope: the ratio
is bounded by s log2(e) max_z e_z/sigma_z whatever was drawn.
"""

import math
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from .jit import pjit

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]
Bytes = npt.NDArray[np.uint8]
Words = npt.NDArray[np.uint64]

BLOCK_BITS = 12
ROBIRANK, BPR = 0, 1
FAR = 60.0  # beyond it an exponent is as good as infinite


class Factors(NamedTuple):
    """Rows of users and items; `last` is the number of the last click that touched a row, -1: not in use."""

    U: Floats
    V: Floats
    user_g: Floats  # sums of squared gradients, from 1
    item_g: Floats
    user_last: Ints
    item_last: Ints
    mean_s: Floats  # moving average of (1) a user, 0 before the first
    user_clicks: Ints
    item_clicks: Ints


@pjit
def draw(generator: Words) -> Any:
    """The next word of splitmix64; `generator` holds its state.

    >>> generator = np.zeros(1, np.uint64)
    >>> hex(draw(generator)), hex(draw(generator))
    ('0xe220a8397b1dcdaf', '0x6e789e6aa1b965f4')
    """
    generator[0] += np.uint64(0x9E3779B97F4A7C15)
    z = generator[0]
    z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return z ^ (z >> np.uint64(31))


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
    if loss == BPR:
        for k in range(B):
            e[k] = s / (B * (1.0 + math.exp(min(f_y - f[k], FAR))))
        return mean_s
    total = 0.0
    for k in range(B):
        t = f_y - f[k]
        if t < -FAR:
            total -= t
            e[k] = 1.0
        else:
            power = 2.0 ** -min(t, FAR)
            total += math.log2(1.0 + power)
            e[k] = power / (1.0 + power)
    S = (n - 1) / B * total
    if mean_s > 0.0:
        S = (1.0 - beta) * mean_s + beta * S
    weight = s * (n - 1) / (B * math.log(2.0) * (1.0 + S))
    for k in range(B):
        e[k] *= weight
    return S


@pjit
def learn_clicks(
    factors: Factors,
    users: Ints,
    items: Ints,
    weights: Floats,
    numbers: Ints,
    generator: Words,
    standing: Ints,
    block: int,
    stride: int,
    B: int,
    loss: int,
    rate: float,
    keep: float,
    ridge: float,
    beta: float,
    fixed: int,
    dirty_users: Bytes,
    dirty_items: Bytes,
) -> None:
    """Learn each click in order; negatives are rows block, block + stride, … below ``standing[1]``.

    ``standing`` is [items in use, rows of items]; a first click of a row takes it in use. A new item starts
    as the typical one, the mean of B drawn ones, plus the noise it was given.
    """
    U, V, user_g, item_g, user_last, item_last, mean_s, user_clicks, item_clicks = factors
    d = U.shape[1]
    z, f, e, step = np.empty(B, np.int64), np.empty(B), np.empty(B), np.empty(d)
    for t in range(len(users)):
        x, y = users[t], items[t]
        new = item_last[y] < 0
        if new:
            standing[0] += 1
            standing[1] = max(standing[1], y + 1)
        user_last[x] = item_last[y] = numbers[t]
        user_clicks[x] += 1
        item_clicks[y] += 1
        dirty_users[x >> BLOCK_BITS] = 1
        dirty_items[y >> BLOCK_BITS] = 1
        n = standing[0]
        n_block = (standing[1] - block + stride - 1) // stride
        if n < 2 or n_block < 2:
            continue
        for k in range(B):
            while True:
                # the high 32 bits by a product: no division, and even to 1 in 2^32 / rows
                high = (draw(generator) >> np.uint64(32)) * np.uint64(n_block)
                row = block + stride * np.int64(high >> np.uint64(32))
                if row != y and item_last[row] >= 0:
                    break
            z[k] = row
        if new:
            for k in range(B):
                for j in range(d):
                    V[y, j] += V[z[k], j] / B
        f_y = 0.0
        for j in range(d):
            f_y += U[x, j] * V[y, j]
        for k in range(B):
            f[k] = 0.0
            for j in range(d):
                f[k] += U[x, j] * V[z[k], j]
        mean_s[x] = slopes(f_y, f, n, weights[t], loss, beta, mean_s[x], e)
        total, squared = 0.0, 0.0
        for j in range(d):
            step[j] = 0.0
            squared += U[x, j] * U[x, j]
        for k in range(B):
            total += e[k]
            for j in range(d):
                step[j] += e[k] * (V[y, j] - V[z[k], j])
        for k in range(B):
            row = z[k]
            item_g[row] = 1.0 + keep * (item_g[row] - 1.0) + e[k] * e[k] * squared
            eta = rate / math.sqrt(item_g[row])
            for j in range(d):
                V[row, j] -= eta * (e[k] * U[x, j] + ridge * V[row, j])
            dirty_items[row >> BLOCK_BITS] = 1
        item_g[y] = 1.0 + keep * (item_g[y] - 1.0) + total * total * squared
        eta = rate / math.sqrt(item_g[y])
        for j in range(d):
            V[y, j] += eta * (total * U[x, j] - ridge * V[y, j])
        squared = 0.0
        for j in range(fixed, d):
            squared += step[j] * step[j]
        user_g[x] = 1.0 + keep * (user_g[x] - 1.0) + squared
        eta = rate / math.sqrt(user_g[x])
        for j in range(fixed, d):
            U[x, j] += eta * (step[j] - ridge * U[x, j])


@pjit
def rank_of(V: Floats, item_last: Ints, taste: Floats, y: int, seen: Ints, n_rows: int) -> int:
    """Of item y among all in use but `seen` for whom `taste` scores, from 0; half of the ties are above.

    >>> V = np.array([[3.0], [2.0], [1.0], [1.0]])
    >>> rank_of(V, np.zeros(4, np.int64), np.ones(1), 2, np.array([0]), 4)
    1
    """
    d = V.shape[1]
    out = np.zeros(n_rows, np.uint8)
    for row in seen:
        out[row] = 1
    out[y] = 1
    f_y = 0.0
    for j in range(d):
        f_y += taste[j] * V[y, j]
    above, ties = 0, 0
    for row in range(n_rows):
        if not out[row] and item_last[row] >= 0:
            f = 0.0
            for j in range(d):
                f += taste[j] * V[row, j]
            above += f > f_y
            ties += f == f_y
    return above + ties // 2
