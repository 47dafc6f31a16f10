"""What the rows of a list are worth, and the best that an order of them can be."""

import math

from ..jit import jit
from .pairs import Floats

HIGHEST = 30.0  # a label beyond counts as this one


@jit
def gains(y: Floats, c: Floats, mode: int, gain: Floats, weighted: Floats) -> float:
    """Fill in the gain of each row and the gain times its weight; returns the largest gain.

    By label and every other: 2^y - 1 where y > 0, else 0; the weight is c (of a click over its propensity:
    the inverse), and a row whose weight is not above 0 is worth nothing to anybody. Scored: the label is y c,
    an estimate of a click that is right on average, and only a gain linear in it stays so: both are y c.

    >>> import numpy as np
    >>> gain, weighted = np.empty(3), np.empty(3)
    >>> gains(np.array([2.0, 0.0, 1.0]), np.array([2.0, 1.0, 0.0]), 0, gain, weighted), gain, weighted
    (3.0, array([3., 0., 0.]), array([6., 0., 0.]))
    """
    largest = 0.0
    for i in range(len(y)):
        gain[i] = weighted[i] = 0.0
        if y[i] > 0.0 and c[i] > 0.0:
            if mode == 3:
                gain[i] = weighted[i] = y[i] * c[i]
            else:
                gain[i] = 2.0 ** min(y[i], HIGHEST) - 1.0
                weighted[i] = c[i] * gain[i]
            largest = max(largest, gain[i])
    return largest


@jit
def place(values: Floats, i: int) -> int:
    """How many entries come before entry i when the largest come first; ties keep their order.

    >>> import numpy as np
    >>> [place(np.array([1.0, 3.0, 1.0]), i) for i in range(3)]
    [1, 0, 2]
    """
    before = 0
    for j in range(len(values)):
        before += values[j] > values[i] or (values[j] == values[i] and j < i)
    return before


@jit
def ideal(gain: Floats) -> float:
    """The largest DCG that an order of the rows has: sum over places k from 0 of gain/log2(k + 2).

    >>> import numpy as np
    >>> round(ideal(np.array([0.0, 1.0, 3.0])), 6)
    3.63093
    """
    total = 0.0
    for i in range(len(gain)):
        if gain[i] > 0.0:
            total += gain[i] / math.log2(place(gain, i) + 2.0)
    return total
