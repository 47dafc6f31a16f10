"""NeuralNDCG: NDCG with sorting made smooth."""

import math

import numpy as np

from ..jit import jit
from .gains import gains, ideal
from .pairs import Floats


@jit
def neuralndcg(s: Floats, y: Floats, c: Floats, mode: int, temperature: float, ds: Floats) -> float:
    """Minus NDCG of the list sorted by NeuralSort's relaxed permutation.

    Row k of P, softmax over i of ((m + 1 - 2k) s_i - sum_j |s_i - s_j|)/temperature, says who stands at place
    k = 1..m; l = -(1/Z) sum_k (1/log2(k + 1)) sum_i P_ki c_i a_i, a the gains, Z the ideal DCG without the
    weights. P's columns are not scaled to sums of 1 (Sinkhorn), so far from a low temperature a row can stand
    at more than one place.

    >>> ds = np.empty(2)
    >>> value = neuralndcg(np.array([9.0, 0.0]), np.array([1.0, 0.0]), np.ones(2), 0, 1.0, ds)
    >>> bool(-1 < value < -0.99), bool(ds[0] < 0 < ds[1])
    (True, True)
    """
    m = len(s)
    ds[:] = 0.0
    gain, weighted, apart = np.empty(m), np.empty(m), np.zeros(m)
    if gains(y, c, mode, gain, weighted) <= 0.0:
        return 0.0
    best, value = ideal(gain), 0.0
    chance, push = np.empty(m), np.zeros(m)
    for i in range(m):
        for j in range(m):
            apart[i] += abs(s[i] - s[j])
    for k in range(m):
        steep = m - 1.0 - 2.0 * k
        top, partition, mean = -math.inf, 0.0, 0.0
        for i in range(m):
            chance[i] = (steep * s[i] - apart[i]) / temperature
            top = max(top, chance[i])
        for i in range(m):
            chance[i] = math.exp(chance[i] - top)
            partition += chance[i]
        for i in range(m):
            chance[i] /= partition
            mean += chance[i] * weighted[i]
        discount = 1.0 / (best * math.log2(k + 2.0))
        value -= discount * mean
        for i in range(m):
            slope = -discount * chance[i] * (weighted[i] - mean) / temperature
            ds[i] += steep * slope
            push[i] -= slope
    for i in range(m):
        for j in range(m):
            if s[i] != s[j]:
                sign = 1.0 if s[i] > s[j] else -1.0
                ds[i] += sign * push[i]
                ds[j] -= sign * push[i]
    return value
