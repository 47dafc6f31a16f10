"""ListNet: the cross-entropy of the first place."""

import math

import numpy as np

from ..jit import jit
from .gains import gains
from .pairs import Floats


@jit
def listnet(s: Floats, y: Floats, c: Floats, mode: int, ds: Floats) -> float:
    """Cross-entropy between who should be first and who is, top-one probabilities.

    With gains a_i (weighted: c_i a_i) and p = softmax(s), l = sum_i t_i (-log p_i), t_i = c_i a_i/sum a, so
    ds_j = p_j sum t - t_j. Weights are not normalised away: a click of weight 10 pulls ten times as hard, as
    inverse propensities need; without weights t is a distribution.

    >>> ds = np.empty(2)
    >>> round(listnet(np.zeros(2), np.array([1.0, 0.0]), np.ones(2), 0, ds), 6), ds
    (0.693147, array([-0.5,  0.5]))
    """
    m = len(s)
    ds[:] = 0.0
    gain, target = np.empty(m), np.empty(m)
    if gains(y, c, mode, gain, target) <= 0.0:
        return 0.0
    target /= gain.sum()
    mass, top, partition, value = 0.0, s.max(), 0.0, 0.0
    for i in range(m):
        mass += target[i]
        ds[i] = math.exp(s[i] - top)
        partition += ds[i]
    for i in range(m):
        value += target[i] * (math.log(partition) + top - s[i])
        ds[i] = mass * ds[i] / partition - target[i]
    return value
