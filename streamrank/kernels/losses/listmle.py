"""ListMLE: the likelihood of the right order."""

import math

import numpy as np

from ..jit import jit
from .pairs import Floats, preference

FAINT = 1e-200  # a sum of odds this small has lost digits, or all


@jit
def listmle(s: Floats, y: Floats, c: Floats, mode: int, ds: Floats) -> float:
    """Plackett-Luce likelihood of the order of the labels, ties as in Breslow's.

    Each row i that beats any other is drawn from R_i, all rows but those that beat it (its ties are in):
    l = (1/m) sum_i c_i (log sum_{j in R_i} exp s_j - s_i). So the order of tied rows says nothing. Where
    every other row is beaten, R_i is the whole list; scored lists go by y c with weight 1.

    >>> ds = np.empty(3)
    >>> value = listmle(np.zeros(3), np.array([2.0, 1.0, 0.0]), np.ones(3), 0, ds)
    >>> round(value, 6) == round((math.log(3) + math.log(2)) / 3, 6), ds.round(4)
    (True, array([-0.2222, -0.0556,  0.2778]))
    """
    m = len(s)
    ds[:] = 0.0
    if m == 0:
        return 0.0
    highest = s.max()
    all_odds = np.exp(s - highest)
    value = 0.0
    for i in range(m):
        weight, partition, top, odds = 0.0, 0.0, highest, all_odds
        for j in range(m):
            if not _above(mode, y[j], c[j], y[i], c[i]):
                partition += odds[j]
            if j != i:
                weight = max(weight, preference(mode, y[i], c[i], y[j], c[j]))
        if weight > 0.0:
            if partition < FAINT:  # a row above is so far ahead that nothing is left of the others' odds
                top, partition = -np.inf, 0.0
                for j in range(m):
                    if not _above(mode, y[j], c[j], y[i], c[i]):
                        top = max(top, s[j])
                odds = np.exp(np.minimum(s - top, 0.0))
                for j in range(m):
                    if not _above(mode, y[j], c[j], y[i], c[i]):
                        partition += odds[j]
            for j in range(m):
                if not _above(mode, y[j], c[j], y[i], c[i]):
                    ds[j] += weight * odds[j] / partition
            ds[i] -= weight
            value += weight * (math.log(partition) + top - s[i])
    ds /= m
    return value / m


@jit
def _above(mode: int, y_j: float, c_j: float, y_i: float, c_i: float) -> bool:
    """Whether row j has its place before row i is drawn."""
    if mode == 1:
        return False
    if mode == 3:
        return y_j * c_j > y_i * c_i
    return y_j > y_i
