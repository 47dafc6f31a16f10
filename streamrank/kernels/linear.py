"""A linear scorer on sparse rows: scores, then one step of Adam and of the running average, all lazily."""

import math

import numpy as np
import numpy.typing as npt

from .dense import bounded, gathered, same_columns, see_table, table_gradient, table_scores, turned
from .jit import jit
from .keyed import begin_anew
from .losses import SONG, Loss, has_preference, list_slopes
from .weights import (
    BETA1,
    BETA2,
    BLOCK_BITS,
    EPSILON,
    MEMORY,
    NOISE,
    STEEPEST,
    Columns,
    Floats,
    Ints,
    Scratch,
    Steps,
    Weights,
    as_score,
    decay,
    see_values,
    unbias,
)


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
        out[r] = as_score(total)


@jit
def served(weights: Weights, columns: Columns, step: int, horizon: int) -> Floats:
    """The averaged weights of some columns as they stand at `step`."""
    w, average, last = weights.w, weights.average, weights.last
    out = np.empty(len(columns))
    for k in range(len(columns)):
        j = columns[k]
        out[k] = average[j]
        if 0 < last[j] < step:
            out[k] = w[j] + (out[k] - w[j]) * decay(last[j], step, horizon)
    return out


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
    steps: Steps,
    loss: Loss,
    out: Floats,
) -> tuple[int, int]:
    """Score each list as served, then learn it; returns the steps made and the lists refused.

    Per list: (1) served scores into `out`; (2) the column scales see its values, outliers cut; (3) scores s
    under the last iterate w; (4) slopes ds of the loss of that number (`streamrank.kernels.losses`); (5)
    gradient g = X'ds over the touched columns; (6) Adam, or momentum alone, on those, and the average
    follows. A list without a preference changes nothing; one with an absurd value is refused whole; one with
    an absurd gradient moves no weight. A column that tells no row from another has g = 0 and rests. Adam
    counts the steps of each column by itself, so one that appears late starts as one that was there from the
    first. In (6) g^2 is at most the sum of squares that m2 remembers, so one wild weight cannot silence a
    column for the thousands of lists that m2 takes to forget.
    """
    w, m1, m2, average, last = weights.w, weights.m1, weights.m2, weights.average, weights.last
    touches = weights.touches
    inverse, gradient, bulk = scratch.inverse, scratch.gradient, scratch.bulk
    held, dirty = scratch.held, scratch.dirty
    rate, adam, horizon, scale = steps
    known, unbias1, unbias2 = 0, 1.0, 1.0
    table = np.empty(0)
    for q in range(len(lists) - 1):
        first, end = lists[q], lists[q + 1]
        begin, stop = indptr[first], indptr[end]
        dense = same_columns(indptr, indices, first, end)
        n = indptr[first + 1] - begin if dense else 0
        columns = indices[begin : begin + n]
        table = turned(values, begin, end - first, n, table)
        if dense:  # (1)
            by = gathered(inverse, columns)
            table_scores(table, served(weights, columns, step, horizon), by, out[first:end])
            for r in range(first, end):
                out[r] = as_score(out[r])
        else:
            score(indptr[first : end + 1], indices, values, weights, inverse, step, horizon, out[first:end])
        if loss.number == SONG:
            begin_anew(loss.chains, loss.visit, q, first, end)
        if not bounded(values, begin, stop, STEEPEST):
            refused += 1
            continue
        a, b = pairs[q], pairs[q + 1]
        if not has_preference(y[first:end], c[first:end], mode[q], pair_c[a:b]):
            continue
        # (2)
        if dense and (not scale or see_table(columns, values, begin, end - first, weights, scratch)):
            touched, n_touched = columns, n
        else:
            touched = np.empty(stop - begin, dtype=np.int32)
            part = slice(begin, stop)
            n_touched = see_values(indices[part], values[part], end - first, weights, scratch, scale, touched)
        s = np.zeros(end - first)
        by = gathered(inverse, columns)
        if dense:  # (3)
            table_scores(table, gathered(w, columns), by, s)
        else:
            for r in range(first, end):
                for k in range(indptr[r], indptr[r + 1]):
                    j = indices[k]
                    s[r - first] += w[j] * (values[k] * inverse[j])
        ds = np.empty(end - first)
        some = (better[a:b], worse[a:b], pair_c[a:b])
        list_slopes(loss, q, first, s, y[first:end], c[first:end], mode[q], *some, ds)  # (4)
        if dense:  # (5)
            table_gradient(values, begin, by, ds, columns, gradient, bulk)
        else:
            for r in range(first, end):
                slope = ds[r - first]
                if slope != 0.0:
                    for k in range(indptr[r], indptr[r + 1]):
                        j = indices[k]
                        term = slope * (values[k] * inverse[j])
                        gradient[j] += term
                        bulk[j] += abs(term)
        sound = True
        for k in range(n_touched):
            sound = sound and abs(gradient[touched[k]]) < STEEPEST
        if not sound:
            refused += 1
        else:  # (6)
            step += 1
            move = max(3.0 / (step + 2.0), 1.0 / horizon)
            for k in range(n_touched):
                j = touched[k]
                g = gradient[j]
                if abs(g) <= NOISE * bulk[j]:
                    continue
                remembered = m2[j] * MEMORY
                if 0.0 < remembered < g * g:
                    g = math.copysign(math.sqrt(remembered), g)
                dirty[j >> BLOCK_BITS] = 1
                if 0 < last[j] < step - 1:
                    average[j] = w[j] + (average[j] - w[j]) * decay(last[j], step - 1, horizon)
                touches[j] += 1
                if touches[j] != known:  # most columns of a list have the same count
                    known = touches[j]
                    unbias1, unbias2 = 1.0 / unbias(BETA1, known), 1.0 / unbias(BETA2, known)
                m1[j] += (1.0 - BETA1) * (g - m1[j])
                m2[j] += (1.0 - BETA2) * (g * g - m2[j])
                if adam:
                    w[j] -= rate * (m1[j] * unbias1) / (math.sqrt(m2[j] * unbias2) + EPSILON)
                else:
                    w[j] -= rate * m1[j]
                average[j] += move * (w[j] - average[j])
                last[j] = step
        for k in range(n_touched):
            held[touched[k]] = 0
    return step, refused
