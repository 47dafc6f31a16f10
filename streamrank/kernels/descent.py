"""Linear regression by stochastic gradient descent, one step a row, with a running average."""

import math
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from .jit import jit
from .weights import BLOCK_BITS, decay

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]
Columns = npt.NDArray[np.int32]

LARGEST = 1.7e308  # a score beyond is cut, so that a ranking always has an order

# places in `numbers`: steps made; the intercept, last and averaged
STEPS, INTERCEPT, AVERAGE = range(3)


class Weights(NamedTuple):
    """One entry a column."""

    w: Floats  # the last iterate
    average: Floats  # as of step `last`
    last: Ints  # the step that moved it last; 0 never
    touches: Ints  # how many steps moved it


@jit
def averaged(w: float, average: float, last: int, step: int, horizon: int) -> float:
    """The averaged weight as it stands at `step`."""
    return w + (average - w) * decay(last, step, horizon) if 0 < last < step else average


@jit
def averages(weights: Weights, step: int, horizon: int) -> Floats:
    """The averaged weight of every column as it stands at `step`."""
    out = weights.average.copy()
    for j in range(len(out)):
        out[j] = averaged(weights.w[j], out[j], weights.last[j], step, horizon)
    return out


@jit
def score(
    indptr: Ints,
    indices: Columns,
    values: Floats,
    weights: Weights,
    numbers: Floats,
    horizon: int,
    out: Floats,
) -> None:
    """The served score of each row, by the averaged weights."""
    w, average, last = weights.w, weights.average, weights.last
    step = int(numbers[STEPS])
    for r in range(len(indptr) - 1):
        total = numbers[AVERAGE]
        for k in range(indptr[r], indptr[r + 1]):
            j = indices[k]
            if j < len(w):
                total += averaged(w[j], average[j], last[j], step, horizon) * values[k]
        out[r] = 0.0 if math.isnan(total) else min(max(total, -LARGEST), LARGEST)


@jit
def learn_lists(
    indptr: Ints,
    indices: Columns,
    values: Floats,
    lists: Ints,
    target: Floats,
    weight: Floats,
    weights: Weights,
    numbers: Floats,
    dirty: npt.NDArray[np.uint8],
    lam: float,
    rate: float,
    horizon: int,
    intercept: bool,
    out: Floats,
) -> None:
    """Score each list as served, then make one step a row, in order.

        e = y - w'x,  w += eta c (e x - lam w)/(1 + eta c (|x|^2 + lam))

    [001] (6)-(10), its ridge over the number of rows. The step looks ahead: it is over what e itself would
    lose by it, so that no rate and no outlier makes it diverge; where eta |x|^2 is small it is the plain one.
    The ridge pulls at the columns that the row holds, and never at the intercept.
    """
    w, average, last, touches = weights
    for q in range(len(lists) - 1):
        first, end = lists[q], lists[q + 1]
        score(indptr[first : end + 1], indices, values, weights, numbers, horizon, out[first:end])
        for r in range(first, end):
            if not weight[r] > 0.0:
                continue
            error = target[r] - numbers[INTERCEPT]
            length2 = 1.0 if intercept else 0.0
            for k in range(indptr[r], indptr[r + 1]):
                error -= w[indices[k]] * values[k]
                length2 += values[k] * values[k]
            step = int(numbers[STEPS]) + 1
            numbers[STEPS] = step
            eta = rate * weight[r]
            eta /= 1.0 + eta * (length2 + lam)
            move = max(3.0 / (step + 2.0), 1.0 / horizon)
            if intercept:
                numbers[INTERCEPT] += eta * error
                numbers[AVERAGE] += move * (numbers[INTERCEPT] - numbers[AVERAGE])
            for k in range(indptr[r], indptr[r + 1]):
                j = indices[k]
                average[j] = averaged(w[j], average[j], last[j], step - 1, horizon)
                w[j] += eta * (error * values[k] - lam * w[j])
                average[j] += move * (w[j] - average[j])
                last[j] = step
                touches[j] += 1
                dirty[j >> BLOCK_BITS] = 1
