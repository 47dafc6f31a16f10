"""Weights that go on shrinking while nothing touches them, at no cost: each is worked out when it is needed.

A ridge pulls at every weight at every step, but a step should cost what its rows cost, whatever the number of
columns. Between two touches a weight obeys w(t) = w exp(-rest (t - mark)) on a clock t of the learner's own.
"""

import math
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from .jit import jit

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]
Columns = npt.NDArray[np.int32]

LARGEST = 1.7e308  # a score beyond is cut, so that a ranking always has an order


class Weights(NamedTuple):
    """One entry a column."""

    w: Floats  # as of `mark`
    rest: Floats  # how fast it shrinks
    mark: Floats  # the clock when it was last touched
    memory: Floats  # AdaGrad: the sum of squared slopes; the plain step: the power vector
    square: Floats  # its centred squares, in the lists it tells apart
    held: Floats  # and how many values they had


@jit
def now(w: float, rest: float, mark: float, clock: float) -> float:
    """A weight, its rest taken into account."""
    return w * math.exp(-rest * (clock - mark)) if mark < clock and w != 0.0 else w


@jit
def weights_now(weights: Weights, clock: float) -> Floats:
    """The weight of every column."""
    out = weights.w.copy()
    for j in range(len(out)):
        out[j] = now(out[j], weights.rest[j], weights.mark[j], clock)
    return out


@jit
def score(
    indptr: Ints, indices: Columns, values: Floats, weights: Weights, clock: float, out: Floats
) -> None:
    """The score w'x of each row; columns that w does not have count nothing."""
    w, rest, mark = (
        weights.w,
        weights.rest,
        weights.mark,
    )  # a tuple in the inner loop costs twenty times as much
    for r in range(len(indptr) - 1):
        total = 0.0
        for k in range(indptr[r], indptr[r + 1]):
            j = indices[k]
            if j < len(w):
                total += now(w[j], rest[j], mark[j], clock) * values[k]
        out[r] = 0.0 if math.isnan(total) else min(max(total, -LARGEST), LARGEST)
