"""RoBiRank: robust binary classification applied to places."""

import math

import numpy as np
import numpy.typing as npt

from ..jit import jit
from ..splitmix import Words, draw
from .gains import gains, ideal
from .pairs import Floats

Places = npt.NDArray[np.int64]
LN2 = math.log(2.0)


@jit
def beside(i: int, m: int, sample: int, generator: Words, rows: Places) -> int:
    """Fill in the rows that row i of m is set against, and say how many: all others, or a sample of them.

    Drawn with replacement, each as likely; 0, or more than there are, means all. `generator` moves on with
    each draw.

    >>> rows = np.empty(3, np.int64)
    >>> beside(1, 4, 0, np.zeros(1, np.uint64), rows), rows
    (3, array([0, 2, 3]))
    """
    if 0 < sample < m - 1:
        for k in range(sample):
            row = np.int64((draw(generator) >> np.uint64(33)) % np.uint64(m - 1))
            rows[k] = row + (row >= i)
        return sample
    for k in range(m - 1):
        rows[k] = k + (k >= i)
    return m - 1


@jit
def robirank(
    s: Floats, y: Floats, c: Floats, mode: int, bounded: bool, sample: int, generator: Words, ds: Floats
) -> float:
    """(1/Z) sum_i c_i a_i rho(S_i), S_i = sum_{j != i} log2(1 + 2^(s_j - s_i)): at least the rows before i.

    a are the gains, Z the ideal DCG without the weights. Type I: rho(S) = log2(1 + S), which grows ever more
    slowly; type II (`bounded`): rho(S) = 1 - 1/log2(2 + S), which ends at 1, so a row far down is given up.
    Of a sample of n rows j, S is (m - 1)/n times their sum, and the same rows give the slope.

    >>> ds, generator = np.empty(2), np.zeros(1, np.uint64)
    >>> robirank(np.zeros(2), np.array([1.0, 0.0]), np.ones(2), 0, False, 0, generator, ds), ds.round(4)
    (1.0, array([-0.3607,  0.3607]))
    """
    m = len(s)
    ds[:] = 0.0
    gain, weighted, pull, rows = np.empty(m), np.empty(m), np.empty(m), np.empty(m, np.int64)
    if m < 2 or gains(y, c, mode, gain, weighted) <= 0.0:
        return 0.0
    best, value = ideal(gain), 0.0
    for i in range(m):
        if weighted[i] > 0.0:
            n, total = beside(i, m, sample, generator, rows), 0.0
            for k in range(n):
                above = (s[rows[k]] - s[i]) * LN2
                # beyond 50 the logarithm is its argument, and no exponent overflows
                odds = math.exp(min(max(above, -60.0), 60.0))
                total += (math.log1p(odds) if above < 50.0 else above) / LN2
                pull[k] = odds / (1.0 + odds)
            total *= (m - 1) / n
            weight = weighted[i] / best
            if bounded:
                log = math.log2(2.0 + total)
                value += weight * (1.0 - 1.0 / log)
                weight /= LN2 * (2.0 + total) * log * log
            else:
                value += weight * math.log2(1.0 + total)
                weight /= LN2 * (1.0 + total)
            weight *= (m - 1) / n
            for k in range(n):
                ds[rows[k]] += weight * pull[k]
                ds[i] -= weight * pull[k]
    return value
