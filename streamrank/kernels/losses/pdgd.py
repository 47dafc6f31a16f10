"""PDGD: pairwise differentiable gradient descent, for lists in the order in which they were shown."""

import math

import numpy as np

from ..jit import jit
from .pairs import Columns, Floats, preference

FAINT = 1e-200  # odds this small beside the largest have lost digits, or all
FAR = 1e100  # odds beyond are as good as certain


@jit
def pdgd(
    s: Floats,
    y: Floats,
    c: Floats,
    mode: int,
    better: Columns,
    worse: Columns,
    pair_c: Floats,
    ds: Floats,
) -> float:
    """Minus the sum over pairs (i better than j, weight c) of c rho_ij sigmoid(s_i - s_j).

    The rows stand in the order R in which they were shown. With R* the order that has i and j exchanged and
    P the chance of an order under the Plackett-Luce model of s, rho_ij = P(R*)/(P(R) + P(R*)), [1] (7): what
    R showed by its bias weighs as little as it was likely, so that two rows of equal worth pull at each
    other with equal strength whichever is shown above. The slope takes rho as it is, [1] (6).

    >>> ds = np.empty(2)
    >>> none, of = np.empty(0, np.int32), np.empty(0)
    >>> pdgd(np.zeros(2), np.array([1.0, 0.0]), np.ones(2), 0, none, none, of, ds), ds
    (-0.25, array([-0.125,  0.125]))
    """
    m = len(s)
    ds[:] = 0.0
    if m < 2:
        return 0.0
    odds = np.exp(s - s.max())
    left = np.empty(m)  # the sum of odds of the rows from each place on
    total = 0.0
    for p in range(m - 1, -1, -1):
        total += odds[p]
        left[p] = total
    value = 0.0
    if mode == 2:
        for p in range(len(better)):
            if pair_c[p] > 0.0 and better[p] != worse[p]:
                value += _pull(s, odds, left, better[p], worse[p], pair_c[p], ds)
        return value
    for i in range(m):
        for j in range(m):
            if i != j:
                weight = preference(mode, y[i], c[i], y[j], c[j])
                if weight > 0.0:
                    value += _pull(s, odds, left, i, j, weight, ds)
    return value


@jit
def _pull(s: Floats, odds: Floats, left: Floats, i: int, j: int, weight: float, ds: Floats) -> float:
    chance = 1.0 / (1.0 + math.exp(min(max(s[j] - s[i], -60.0), 60.0)))
    if left[max(i, j)] < FAINT:  # some row is so far ahead that nothing is left of the odds below it
        weight *= debias_far(s, i, j)
    else:
        weight *= debias(odds, left, i, j)
    slope = weight * chance * (1.0 - chance)
    ds[i] -= slope
    ds[j] += slope
    return -weight * chance


@jit
def debias(odds: Floats, left: Floats, i: int, j: int) -> float:
    """P(R*)/(P(R) + P(R*)), R the rows as they stand, R* with rows i and j exchanged.

    An order has the chance prod_p odds_p/left_p, left_p being the sum of odds from place p on. Exchanging
    the rows at places a < b leaves the product of odds as it is and every left_p but those with a < p <= b,
    which change by odds_a - odds_b: P(R*)/P(R) = prod_p left_p/(left_p + odds_a - odds_b).

    >>> odds = np.array([1.0, 3.0])
    >>> debias(odds, np.array([4.0, 3.0]), 0, 1)  # shown the less likely way round: 3/4 against 1/4
    0.75
    """
    a, b = min(i, j), max(i, j)
    ratio, change = 1.0, odds[a] - odds[b]
    for p in range(a + 1, b + 1):
        # row a is among those left of R*: rounding may not say that there is less than it
        ratio *= left[p] / max(left[p] + change, odds[a], 1e-300)
        if not 1.0 / FAR < ratio < FAR:  # every factor lies on the same side of 1
            break
    return ratio / (1.0 + ratio)


@jit
def debias_far(s: Floats, i: int, j: int) -> float:
    """`debias` by logarithms, whatever lies between the scores; slower.

    >>> round(debias_far(np.array([0.0, math.log(3.0)]), 0, 1), 12)
    0.75
    >>> round(debias_far(np.array([0.0, 1e6, math.log(3.0)]), 0, 2), 12)  # one between them is no matter
    0.75
    """
    a, b = min(i, j), max(i, j)
    log_left, log_ratio = -math.inf, 0.0
    for p in range(len(s) - 1, a, -1):
        top = max(log_left, s[p])
        log_left = top + math.log(math.exp(log_left - top) + math.exp(s[p] - top))
        if p <= b:
            with_a = math.exp(min(s[a] - log_left, 700.0))
            log_ratio -= math.log(max(1.0 - math.exp(s[b] - log_left) + with_a, with_a, 1e-300))
    return 1.0 / (1.0 + math.exp(min(max(-log_ratio, -700.0), 700.0)))
