"""ApproxNDCG: NDCG with places made smooth."""

import math

import numpy as np

from ..jit import jit
from .gains import gains, ideal
from .pairs import Floats


@jit
def approxndcg(s: Floats, y: Floats, c: Floats, mode: int, temperature: float, ds: Floats) -> float:
    """Minus NDCG, the place of row i being r_i = 1 + sum_{j != i} sigmoid((s_j - s_i)/temperature).

    l = -(1/Z) sum_i c_i a_i/log2(1 + r_i), a the gains, Z the ideal DCG without the weights. A low
    temperature is nearer to NDCG and has slopes only where scores are near each other.

    >>> ds = np.empty(2)
    >>> value = approxndcg(np.zeros(2), np.array([1.0, 0.0]), np.ones(2), 0, 0.1, ds)
    >>> round(value, 6) == round(-1 / math.log2(2.5), 6), bool(ds[0] < 0 < ds[1])
    (True, True)
    """
    m = len(s)
    ds[:] = 0.0
    gain, weighted, below = np.empty(m), np.empty(m), np.empty(m)
    if gains(y, c, mode, gain, weighted) <= 0.0:
        return 0.0
    best, value = ideal(gain), 0.0
    for i in range(m):
        if weighted[i] > 0.0:
            rank = 1.0
            for j in range(m):
                if j != i:
                    # an exponent beyond 60 changes neither the place nor, to 1e-26, the slope
                    below[j] = 1.0 / (1.0 + math.exp(min(max((s[i] - s[j]) / temperature, -60.0), 60.0)))
                    rank += below[j]
            log = math.log(1.0 + rank)
            value -= weighted[i] * math.log(2.0) / (best * log)
            pull = weighted[i] * math.log(2.0) / (best * log * log * (1.0 + rank) * temperature)
            for j in range(m):
                if j != i:
                    slope = pull * below[j] * (1.0 - below[j])
                    ds[j] += slope
                    ds[i] -= slope
    return value
