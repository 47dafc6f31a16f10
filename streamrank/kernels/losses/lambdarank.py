"""LambdaRank: the pairwise logistic loss, each pair weighed by what swapping it would do to NDCG."""

import math

import numpy as np

from ..jit import jit
from .gains import gains, ideal, place
from .pairs import Floats, preference


@jit
def lambdarank(s: Floats, y: Floats, c: Floats, mode: int, ds: Floats) -> float:
    """Sum over pairs (i better than j, weight c) of c |dNDCG_ij| log(1 + exp(s_j - s_i)).

    With gains a, places r under the scores (ties keep their order) and Z the ideal DCG of the list,
    |dNDCG_ij| = |a_i - a_j| |1/log2(r_i + 1) - 1/log2(r_j + 1)|/Z. The slope takes the places as they are, so
    it is the slope of the sum wherever no two scores are tied.

    >>> ds = np.empty(2)
    >>> value = lambdarank(np.zeros(2), np.array([1.0, 0.0]), np.ones(2), 0, ds)
    >>> bool(np.isclose(ds[1], 0.5 * (1 - 1 / math.log2(3))))
    True
    """
    m = len(s)
    ds[:] = 0.0
    gain, discount = np.empty(m), np.empty(m)
    if gains(y, c, mode, gain, discount) <= 0.0:
        return 0.0
    best, value = ideal(gain), 0.0
    for i in range(m):
        discount[i] = 1.0 / math.log2(place(s, i) + 2.0)
    for i in range(m):
        for j in range(m):
            if gain[i] > gain[j]:
                weight = preference(mode, y[i], c[i], y[j], c[j])
                weight *= (gain[i] - gain[j]) * abs(discount[i] - discount[j]) / best
                odds = math.exp(min(s[i] - s[j], 60.0))
                slope = weight / (1.0 + odds)
                value += weight * math.log1p(1.0 / odds)
                ds[i] -= slope
                ds[j] += slope
    return value
