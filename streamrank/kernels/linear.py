"""A linear scorer on sparse rows: scores, running column scales, Adam with a running average, all lazily.

Only the columns that a list holds are touched, so a step costs what the list costs, whatever the number of
columns. Sums run in row order: the same lists give the same bits however they were cut into batches.
"""

import math
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from .jit import jit
from .losses import has_preference, ranknet_slope

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]
Columns = npt.NDArray[np.int32]
Flags = npt.NDArray[np.uint8]
Counts = npt.NDArray[np.int32]

BETA1, BETA2, EPSILON = 0.9, 0.999, 1e-8
LARGEST = 1.7e308  # a score beyond is cut, so that a ranking always has an order
STEEPEST = 1e20  # a value or slope beyond is refused: above any clock in nanoseconds, below FLT_MAX as "none"
NOISE = 1e-12  # a sum this small beside its terms is rounding error: the column says nothing of the list
BLOCK_BITS = 12  # 4096 columns a block: what a commit writes


class Weights(NamedTuple):
    """One entry a column."""

    w: Floats  # the last iterate
    m1: Floats  # Adam's moments
    m2: Floats
    average: Floats  # as of step `last`
    last: Ints  # the step that moved it last; 0 never
    seen: Ints  # how many values, and their sums about the first one, for the scale; where a list holds
    #             the column in some rows only, the others count as 0, which is how they are scored
    pivot: Floats
    total: Floats
    square: Floats


class Scratch(NamedTuple):
    """Nothing here is state: it follows from `Weights`, or is zero between lists."""

    inverse: Floats  # 1/scale of each column
    gradient: Floats
    bulk: Floats  # the sizes of the gradient's terms
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
    if count == 0:
        return 1.0
    mean = total / count  # about the pivot
    variance = square / count - mean * mean
    size = abs(pivot + mean)
    if variance > 1e-12 * size * size:
        return 1.0 / math.sqrt(variance)
    return 1.0 / size if size > 1e-300 else 1.0


@jit
def inverse_scales(weights: Weights) -> Floats:
    """`inverse_scale` of every column."""
    out = np.empty(len(weights.w))
    for j in range(len(out)):
        out[j] = inverse_scale(weights.seen[j], weights.pivot[j], weights.total[j], weights.square[j])
    return out


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
def score(
    indptr: Ints,
    indices: Columns,
    values: Floats,
    weights: Weights,
    inverse: Floats,
    step: int,
    horizon: int,
    out: Floats,
) -> None:
    """The served score of each row: the averaged weights as they stand at `step`, times the scaled values."""
    w, average, last = weights.w, weights.average, weights.last
    for r in range(len(indptr) - 1):
        total = 0.0
        for k in range(indptr[r], indptr[r + 1]):
            j = indices[k]
            if j < len(w):
                weight = average[j]
                if 0 < last[j] < step:
                    weight = w[j] + (weight - w[j]) * decay(last[j], step, horizon)
                total += weight * (values[k] * inverse[j])
        out[r] = 0.0 if math.isnan(total) else min(max(total, -LARGEST), LARGEST)


@jit
def learn_lists(
    indptr: Ints,
    indices: Columns,
    values: Floats,
    lists: Ints,
    y: Floats,
    c: Floats,
    mode: npt.NDArray[np.int8],
    pairs: Ints,
    better: Columns,
    worse: Columns,
    pair_c: Floats,
    weights: Weights,
    scratch: Scratch,
    step: int,
    refused: int,
    rate: float,
    horizon: int,
    scale: bool,
    out: Floats,
) -> tuple[int, int]:
    """Score each list as served, then learn it; returns the steps made and the lists refused.

    Per list: (1) served scores into `out`; (2) the column scales see its values; (3) scores s under the last
    iterate w; (4) slopes ds of the loss; (5) gradient g = X'ds over the touched columns; (6) Adam on those,
    and the average follows. A list without a preference changes nothing; one with an absurd value is refused
    whole; one with an absurd gradient moves no weight. A column that tells no row from another has g = 0 and
    rests. In (6) g^2 is at most the sum of squares that m2 remembers, so one wild weight cannot silence a
    column for the thousands of lists that m2 takes to forget.
    """
    w, m1, m2, average, last = weights.w, weights.m1, weights.m2, weights.average, weights.last
    inverse, gradient, bulk = scratch.inverse, scratch.gradient, scratch.bulk
    held, dirty = scratch.held, scratch.dirty
    for q in range(len(lists) - 1):
        first, end = lists[q], lists[q + 1]
        begin, stop = indptr[first], indptr[end]
        score(
            indptr[first : end + 1], indices, values, weights, inverse, step, horizon, out[first:end]
        )  # (1)
        sound = True
        for k in range(begin, stop):
            sound = sound and abs(values[k]) < STEEPEST
        if not sound:
            refused += 1
            continue
        a, b = pairs[q], pairs[q + 1]
        if not has_preference(y[first:end], c[first:end], mode[q], pair_c[a:b]):
            continue
        touched = np.empty(stop - begin, dtype=np.int32)
        n_touched = 0
        for k in range(begin, stop):
            j = indices[k]
            if held[j] == 0:
                gradient[j] = bulk[j] = 0.0
                touched[n_touched] = j
                n_touched += 1
            held[j] += 1
            if scale:  # (2)
                if weights.seen[j] == 0:
                    weights.pivot[j] = values[k]
                d = values[k] - weights.pivot[j]
                weights.seen[j] += 1
                weights.total[j] += d
                weights.square[j] += d * d
        if scale:
            for k in range(n_touched):
                j = touched[k]
                dirty[j >> BLOCK_BITS] = 1
                if held[j] < end - first:
                    zeros = end - first - held[j]
                    weights.seen[j] += zeros
                    weights.total[j] -= zeros * weights.pivot[j]
                    weights.square[j] += zeros * weights.pivot[j] * weights.pivot[j]
                inverse[j] = inverse_scale(
                    weights.seen[j], weights.pivot[j], weights.total[j], weights.square[j]
                )
        s = np.zeros(end - first)
        for r in range(first, end):  # (3)
            for k in range(indptr[r], indptr[r + 1]):
                j = indices[k]
                s[r - first] += w[j] * (values[k] * inverse[j])
        ds = np.empty(end - first)
        ranknet_slope(s, y[first:end], c[first:end], mode[q], better[a:b], worse[a:b], pair_c[a:b], ds)  # (4)
        for r in range(first, end):  # (5)
            slope = ds[r - first]
            if slope != 0.0:
                for k in range(indptr[r], indptr[r + 1]):
                    j = indices[k]
                    term = slope * (values[k] * inverse[j])
                    gradient[j] += term
                    bulk[j] += abs(term)
        for k in range(n_touched):
            sound = sound and abs(gradient[touched[k]]) < STEEPEST
        if not sound:
            refused += 1
        else:  # (6)
            step += 1
            unbias1, unbias2 = 1.0 - BETA1**step, 1.0 - BETA2**step
            move = max(3.0 / (step + 2.0), 1.0 / horizon)
            for k in range(n_touched):
                j = touched[k]
                g = gradient[j]
                if abs(g) <= NOISE * bulk[j]:
                    continue
                remembered = m2[j] / (1.0 - BETA2)
                if 0.0 < remembered < g * g:
                    g = math.copysign(math.sqrt(remembered), g)
                dirty[j >> BLOCK_BITS] = 1
                if 0 < last[j] < step - 1:
                    average[j] = w[j] + (average[j] - w[j]) * decay(last[j], step - 1, horizon)
                m1[j] += (1.0 - BETA1) * (g - m1[j])
                m2[j] += (1.0 - BETA2) * (g * g - m2[j])
                w[j] -= rate * (m1[j] / unbias1) / (math.sqrt(m2[j] / unbias2) + EPSILON)
                average[j] += move * (w[j] - average[j])
                last[j] = step
        for k in range(n_touched):
            held[touched[k]] = 0
    return step, refused
