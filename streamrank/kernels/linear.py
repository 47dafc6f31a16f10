"""A linear scorer on sparse rows: scores, then one step of Adam and of the running average, all lazily."""

import math
from typing import Any

import numpy as np
import numpy.typing as npt

from .dense import bounded, same_columns, see_table, table_gradient, table_scores
from .jit import jit
from .keyed import Chains, Visit, begin_anew
from .losses import SONG, Loss, has_preference, list_slopes
from .losses.song import SongSettings
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
                total += (weight * inverse[j]) * values[k]
        out[r] = as_score(total)


@jit
def served(weights: Weights, inverse: Floats, columns: Columns, step: int, horizon: int) -> Floats:
    """The averaged weights of some columns on raw values, as they stand at `step`."""
    w, average, last = weights.w, weights.average, weights.last
    out = np.empty(len(columns))
    for k in range(len(columns)):
        j = columns[k]
        weight = average[j]
        if 0 < last[j] < step:
            weight = w[j] + (weight - w[j]) * decay(last[j], step, horizon)
        out[k] = weight * inverse[j]
    return out


@jit
def on_raw(w: Floats, inverse: Floats, columns: Columns) -> Floats:
    """The last weights of some columns, on raw values."""
    out = np.empty(len(columns))
    for k in range(len(columns)):
        out[k] = w[columns[k]] * inverse[columns[k]]
    return out


@jit
def step_columns(
    columns: Columns, gradient: Floats, bulk: Floats, weights: Weights, step: int, steps: Steps
) -> None:
    """Step number `step` of some columns: Adam, or momentum alone, and the running average.

    A column that tells no row from another has g = 0, but for rounding, and rests. What moves is gathered, so
    that loops run over several columns at a time; there are several loops, as a compiler gives up on one that
    writes many arrays.
    """
    rate, adam, horizon, _ = steps
    w, m1, m2, average, last = weights.w, weights.m1, weights.m2, weights.average, weights.last
    touches = weights.touches
    n, known, unbias1, unbias2 = 0, 0, 1.0, 1.0
    g, by1, by2, a, v, first, second, mean = np.empty((8, len(columns)))
    moving = np.empty(len(columns), np.int32)
    for k in range(len(columns)):
        j = columns[k]
        if abs(gradient[j]) > NOISE * bulk[j]:
            touches[j] += 1
            if touches[j] != known:  # most columns of a list have the same count
                known = touches[j]
                unbias1, unbias2 = 1.0 / unbias(BETA1, known), 1.0 / unbias(BETA2, known)
            remembered = m2[j] * MEMORY
            slope = gradient[j]
            if 0.0 < remembered < slope * slope:
                slope = math.copysign(math.sqrt(remembered), slope)
            moving[n], g[n], by1[n], by2[n] = j, slope, unbias1, unbias2
            v[n], first[n], second[n], mean[n] = w[j], m1[j], m2[j], average[j]
            if 0 < last[j] < step - 1:
                mean[n] = v[n] + (mean[n] - v[n]) * decay(last[j], step - 1, horizon)
            last[j] = step
            n += 1
    for k in range(n):
        first[k] += (1.0 - BETA1) * (g[k] - first[k])
    for k in range(n):
        second[k] += (1.0 - BETA2) * (g[k] * g[k] - second[k])
    if adam:
        for k in range(n):
            a[k] = (first[k] * by1[k]) / (math.sqrt(second[k] * by2[k]) + EPSILON)
    else:
        a[:n] = first[:n]
    move = max(3.0 / (step + 2.0), 1.0 / horizon)
    for k in range(n):
        v[k] -= rate * a[k]
    for k in range(n):
        mean[k] += move * (v[k] - mean[k])
    for k in range(n):
        j = moving[k]
        w[j], m1[j], m2[j], average[j] = v[k], first[k], second[k], mean[k]


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
    w, inverse, gradient, bulk = weights.w, scratch.inverse, scratch.gradient, scratch.bulk
    held, dirty = scratch.held, scratch.dirty
    scale, horizon = steps.scale, steps.horizon
    for q in range(len(lists) - 1):
        first, end = lists[q], lists[q + 1]
        begin, stop = indptr[first], indptr[end]
        sound = bounded(values[begin:stop], STEEPEST)  # first: in order, so that memory is fetched ahead
        dense = same_columns(indptr, indices, first, end)
        n = indptr[first + 1] - begin if dense else 0
        columns, table = indices[begin : begin + n], values[begin:stop]
        if dense:  # (1)
            table_scores(table, served(weights, inverse, columns, step, horizon), out[first:end])
            for r in range(first, end):
                out[r] = as_score(out[r])
        else:
            score(indptr[first : end + 1], indices, values, weights, inverse, step, horizon, out[first:end])
        if loss.number == SONG:
            begin_anew(loss.chains, loss.visit, q, first, end)
        if not sound:
            refused += 1
            continue
        a, b = pairs[q], pairs[q + 1]
        if not has_preference(y[first:end], c[first:end], mode[q], pair_c[a:b]):
            continue
        # (2)
        if dense and (not scale or see_table(columns, table, end - first, weights, scratch)):
            touched = columns
        else:
            touched = np.empty(stop - begin, dtype=np.int32)
            names, n_rows = indices[begin:stop], end - first
            n_touched = see_values(names, table, n_rows, weights, scratch, scale, touched)
            touched = touched[:n_touched]
            for k in range(n_touched):
                held[touched[k]] = 0
        s, ds = np.zeros(end - first), np.empty(end - first)
        if dense:  # (3)
            table_scores(table, on_raw(w, inverse, columns), s)
        else:
            for r in range(first, end):
                for k in range(indptr[r], indptr[r + 1]):
                    j = indices[k]
                    s[r - first] += (w[j] * inverse[j]) * values[k]
        some = (better[a:b], worse[a:b], pair_c[a:b])
        list_slopes(loss, q, first, s, y[first:end], c[first:end], mode[q], *some, ds)  # (4)
        if dense:  # (5)
            table_gradient(table, ds, columns, gradient, bulk)
        else:
            for r in range(first, end):
                slope = ds[r - first]
                if slope != 0.0:
                    for k in range(indptr[r], indptr[r + 1]):
                        term = slope * values[k]
                        gradient[indices[k]] += term
                        bulk[indices[k]] += abs(term)
        n_sound = 0
        for k in range(len(touched)):
            j = touched[k]
            gradient[j] *= inverse[j]
            bulk[j] *= inverse[j]
            dirty[j >> BLOCK_BITS] = 1
            n_sound += abs(gradient[j]) < STEEPEST
        if n_sound < len(touched):
            refused += 1
        else:  # (6)
            step += 1
            step_columns(touched, gradient, bulk, weights, step, steps)
    return step, refused


# Where the arguments of `learn_flat` begin: eleven arrays of a batch, then the fields of each tuple.
WEIGHTS = 11
SCRATCH = WEIGHTS + len(Weights._fields)
COUNTS = SCRATCH + len(Scratch._fields)
STEPS = COUNTS + 2
LOSS = STEPS + len(Steps._fields)
SETTINGS = LOSS + 2
CHAINS = SETTINGS + len(SongSettings._fields)
VISIT = CHAINS + len(Chains._fields)
SAMPLE = VISIT + len(Visit._fields)


@jit
def learn_flat(*flat: Any) -> tuple[int, int]:
    """`learn_lists` with each field of its tuples as an argument of its own, in order.

    To look through tuples costs a call from Python 8 us, as much as a list of ten rows takes to learn.
    """
    weights, scratch = Weights(*flat[WEIGHTS:SCRATCH]), Scratch(*flat[SCRATCH:COUNTS])
    step, refused = flat[COUNTS:STEPS]
    steps, (number, knob) = Steps(*flat[STEPS:LOSS]), flat[LOSS:SETTINGS]
    song, chains = SongSettings(*flat[SETTINGS:CHAINS]), Chains(*flat[CHAINS:VISIT])
    visit, (sample, generator, out) = Visit(*flat[VISIT:SAMPLE]), flat[SAMPLE:]
    loss = Loss(number, knob, song, chains, visit, sample, generator)
    return learn_lists(*flat[:WEIGHTS], weights, scratch, step, refused, steps, loss, out)  # type: ignore[call-arg]
