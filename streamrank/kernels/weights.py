"""What rankers that step once a list keep of each column: weights, Adam's moments, averages, running scales.

Only the columns that a list holds are touched, so a step costs what the list costs, whatever the number of
columns. Sums run in row order: the same lists give the same bits however they were cut into batches.
"""

import math
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from .jit import jit

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]
Columns = npt.NDArray[np.int32]
Flags = npt.NDArray[np.uint8]
Counts = npt.NDArray[np.int32]
UINT = np.uintp  # an index that has no sign

BETA1, BETA2, EPSILON = 0.9, 0.999, 1e-8
MEMORY = 1.0 / (1.0 - BETA2)  # steps that the second moment remembers
LARGEST = 1.7e308  # a score beyond is cut, so that a ranking always has an order
STEEPEST = 1e20  # a value or slope beyond is refused: above any clock in nanoseconds, below FLT_MAX as "none"
YOUNG, FEW = (
    32,
    8,
)  # values, and values that are not 0, from which on a column is trusted to say what is an outlier
REACH = 10.0  # scales from the mean: a value beyond counts as one that far
LONG = 20_000  # values after which the older ones count half, so that a scale can follow a change
UNBIASED = 20_000  # touches from which on Adam's moments need no correction
NOISE = 1e-12  # a sum this small beside its terms is rounding error: the column says nothing of the list
BLOCK_BITS = 12  # 4096 columns a block: what a commit writes


class Weights(NamedTuple):
    """One entry a column."""

    w: Floats  # the last iterate
    m1: Floats  # Adam's moments
    m2: Floats
    average: Floats  # as of step `last`
    last: Ints  # the step that moved it last; 0 never
    touches: Ints  # how many steps moved it: what Adam's moments rest on
    seen: Ints  # how many values, and their sums about the pivot, for the scale; where a list holds
    #             the column in some rows only, the others count as 0, which is how they are scored
    filled: Ints  # how many of them are not 0
    pivot: Floats  # the first value that is not 0; 0 while there is none
    total: Floats
    square: Floats


class Steps(NamedTuple):
    """How a list moves the weights."""

    rate: float
    adam: bool  # else momentum alone
    horizon: int  # steps over which the served weights are averaged
    scale: bool


class Scratch(NamedTuple):
    """Nothing here is state: it follows from `Weights`, or is zero between lists."""

    inverse: Floats  # 1/scale of each column
    gradient: Floats  # before it is summed, the lowest value that counts in full
    bulk: Floats  # the sizes of the gradient's terms; before, the highest value that counts in full
    held: Counts  # rows of the list at hand that hold the column
    dirty: Flags  # 1 for each block that changed since the last commit


@jit
def decay(s: int, t: int, horizon: int) -> float:
    """How much of an average of step s is left at step t while the weight rests.

    The average moves by a_k = max(3/(k+2), 1/horizon) at step k: its weights grow as k^2 at first, which is
    an average over about the last half of the stream, then fall off exponentially over `horizon` steps. The
    product of 1 - a_k has a closed form in either regime, so a column that rests costs nothing.

    >>> round(decay(4, 5, 1000), 9) == round(1 - 3 / 7, 9)
    True
    >>> round(decay(3000, 3010, 1000), 9) == round((1 - 1 / 1000) ** 10, 9)
    True
    """
    turn = 3 * horizon - 2  # from here on 3/(k+2) <= 1/horizon
    left = 1.0
    if s < turn:
        e = min(t, turn)
        left = (s / e) * ((s + 1.0) / (e + 1.0)) * ((s + 2.0) / (e + 2.0))
        s = e
    if t > s:
        left *= (1.0 - 1.0 / horizon) ** (t - s)
    return left


@jit
def inverse_scale(count: int, pivot: float, total: float, square: float) -> float:
    """One over the spread of a column's values; of a constant column one over its size; 1 if that is 0.

    >>> inverse_scale(2, 1.0, 4.0, 16.0), inverse_scale(3, 4.0, 0.0, 0.0), inverse_scale(3, 0.0, 0.0, 0.0)
    (0.5, 0.25, 1.0)
    """
    count = max(count, 1)
    mean = total / count  # about the pivot
    variance = square / count - mean * mean
    size = abs(pivot + mean)
    spread = math.sqrt(variance) if variance > 1e-12 * size * size else size
    return 1.0 / spread if spread > 1e-300 else 1.0


@jit
def inverse_scales(weights: Weights) -> Floats:
    """`inverse_scale` of every column."""
    out = np.empty(len(weights.w))
    for j in range(len(out)):
        out[j] = inverse_scale(weights.seen[j], weights.pivot[j], weights.total[j], weights.square[j])
    return out


@jit
def usual_range(
    count: int, filled: int, pivot: float, total: float, square: float, inverse: float
) -> tuple[float, float]:
    """The values that count in full in a column's sums: `REACH` scales about its mean; all while it is young.

    Of a column that is mostly 0, `REACH` times the usual size of its other values too: cut to what is usual
    among zeros, the rare values would let the scale, and with it the cut, shrink without end.

    >>> usual_range(100, 100, 3.0, -100.0, 400.0, 0.5), usual_range(31, 31, 3.0, 0.0, 1.0, 1.0)
    ((-18.0, 22.0), (-inf, inf))
    >>> usual_range(1000, 7, 1.0, -993.0, 993.0, 12.0), usual_range(1000, 8, 1.0, -992.0, 992.0, 11.0)
    ((-inf, inf), (-10.0, 10.0))
    """
    if count < YOUNG or filled < FEW:  # zeros say nothing of the values to come
        return -math.inf, math.inf
    mean, reach = pivot + total / count, REACH / inverse
    low, high = mean - reach, mean + reach
    if 2 * filled < count:
        about_0 = square + pivot * (2.0 * total + count * pivot)
        size = REACH * math.sqrt(max(about_0, 0.0) / filled)
        low, high = min(low, -size), max(high, size)
    return low, high


@jit
def aged(count: int, filled: int, total: float, square: float) -> tuple[int, int, float, float]:
    """A column's sums as they are kept: of very many values, the older ones count half.

    >>> aged(7, 7, 3.0, 5.0), aged(20_000, 30, 3.0, 5.0)
    ((7, 7, 3.0, 5.0), (10000, 15, 1.5, 2.5))
    """
    if count < LONG:
        return count, filled, total, square
    half = count // 2
    return half, filled // 2, total * (half / count), square * (half / count)


@jit
def unbias(beta: float, touches: int) -> float:
    """What a moment that began at 0 and was moved `touches` times is short of: 1 - beta^touches.

    >>> round(unbias(0.9, 1), 9), round(unbias(0.9, 2), 9), unbias(0.999, 10**9)
    (0.1, 0.19, 1.0)
    """
    return 1.0 if touches > UNBIASED else 1.0 - math.exp(touches * math.log(beta))


@jit
def averaged(weights: Weights, step: int, horizon: int) -> Floats:
    """The averaged weight of every column as it stands at `step`."""
    out = weights.average.copy()
    for j in range(len(out)):
        if 0 < weights.last[j] < step:
            w = weights.w[j]
            out[j] = w + (out[j] - w) * decay(weights.last[j], step, horizon)
    return out


@jit
def as_score(total: float) -> float:
    """A sum as a score, which always has its place in an order.

    >>> as_score(math.nan), as_score(-math.inf) == -LARGEST
    (0.0, True)
    """
    return 0.0 if math.isnan(total) else min(max(total, -LARGEST), LARGEST)


@jit
def see_values(
    indices: Columns,
    values: Floats,
    begin: int,
    stop: int,
    n_rows: int,
    weights: Weights,
    scratch: Scratch,
    scale: bool,
    touched: Columns,
) -> int:
    """Let the column scales see the values of a list, outliers cut; returns how many columns it touches.

    They are listed in `touched`, and `scratch.held` counts the rows that hold each: the caller puts it back
    to 0. Their `gradient` and `bulk` are left at 0.
    """
    seen, filled = weights.seen, weights.filled
    pivot, total, square = weights.pivot, weights.total, weights.square
    inverse, held, dirty = scratch.inverse, scratch.held, scratch.dirty
    low, high = scratch.gradient, scratch.bulk  # for now: memory is what a wide list costs
    n_touched = 0
    for k in range(begin, stop):
        j = indices[k]
        if held[j] == 0:
            touched[n_touched] = j
            n_touched += 1
            if scale:
                low[j], high[j] = usual_range(seen[j], filled[j], pivot[j], total[j], square[j], inverse[j])
        if scale:
            value = values[k]
            filled[j] += value != 0.0
            if pivot[j] == 0.0 and value != 0.0:  # all before it were 0
                zeros = seen[j] + held[j]
                pivot[j], total[j], square[j] = value, -zeros * value, zeros * value * value
            if value < low[j]:
                value = low[j]
            elif value > high[j]:
                value = high[j]
            d = value - pivot[j]
            total[j] += d
            square[j] += d * d
        held[j] += 1
    for k in range(n_touched):
        j = touched[k]
        low[j] = high[j] = 0.0
        if scale:
            dirty[j >> BLOCK_BITS] = 1
            if held[j] < n_rows:
                zeros = n_rows - held[j]
                total[j] -= zeros * pivot[j]
                square[j] += zeros * pivot[j] * pivot[j]
            count = seen[j] + max(held[j], n_rows)
            seen[j], filled[j], total[j], square[j] = aged(count, filled[j], total[j], square[j])
            inverse[j] = inverse_scale(seen[j], pivot[j], total[j], square[j])
    return n_touched
