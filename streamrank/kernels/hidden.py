"""A scorer with one hidden layer on sparse rows: scores, their slopes, one step a list, all lazily.

    z_h = b_h + sum_j W[j,h] x_j,    s = sum_h v_h a(z_h),    a(z) = z/(1 + |z|)

W starts at 0 and b, v at fixed numbers that differ from unit to unit (`first_units`): no chance is needed,
and a column begins alike whatever its number, so that shards which met the columns in another order merge.
"""

import math
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from .jit import jit
from .keyed import enter, recall, remember
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


class Units(NamedTuple):
    """Two rows each, one entry a unit: its threshold b and its weight v."""

    w: Floats
    m1: Floats
    m2: Floats
    average: Floats


def first_units(n: int) -> Units:
    """Thresholds from -1 to 1, weights of either sign in turn: the score of all is 0.

    >>> first_units(4).w.round(3)
    array([[-0.5, -0.5,  0.5,  0.5],
           [ 0.5, -0.5,  0.5, -0.5]])
    """
    pair = np.arange(n) // 2
    w = np.stack([(4.0 * pair + 2.0) / n - 1.0, (-1.0) ** np.arange(n) / math.sqrt(n)])
    if n % 2:
        w[0, -1] = 0.0  # it has no partner; with no weight instead it would never move
    return Units(w, np.zeros((2, n)), np.zeros((2, n)), w.copy())


@jit
def finish(v: Floats, z: Floats, r: int) -> float:
    """Put a(z) in the place of z[r]; returns v'a, cut to what a score may be."""
    total = 0.0
    for h in range(z.shape[1]):
        z[r, h] /= 1.0 + abs(z[r, h])
    for h in range(z.shape[1]):
        total += v[1, h] * z[r, h]
    return as_score(total)


@jit
def score_hidden(
    indptr: Ints,
    indices: Columns,
    values: Floats,
    weights: Weights,
    units: Units,
    inverse: Floats,
    step: int,
    horizon: int,
    without: int,
    out: Floats,
) -> None:
    """The served score of each row, stored value number `without` left out (-1: none)."""
    w, average, last = weights.w, weights.average, weights.last
    n = w.shape[1]
    z = np.empty((1, n))
    for r in range(len(indptr) - 1):
        z[0] = units.average[0]
        for k in range(indptr[r], indptr[r + 1]):
            j = indices[k]
            if j >= len(inverse) or k == without:
                continue
            x = values[k] * inverse[j]
            if 0 < last[j] < step:
                left = decay(last[j], step, horizon)
                for h in range(n):
                    z[0, h] += (w[j, h] + (average[j, h] - w[j, h]) * left) * x
            else:
                for h in range(n):
                    z[0, h] += average[j, h] * x
        out[r] = finish(units.average, z, 0)


@jit
def shares_hidden(
    indptr: Ints,
    indices: Columns,
    values: Floats,
    weights: Weights,
    units: Units,
    inverse: Floats,
    step: int,
    horizon: int,
    out: Floats,
) -> None:
    """What the served score of its row would lose without each value."""
    whole, less = np.empty(1), np.empty(1)
    for r in range(len(indptr) - 1):
        row = indptr[r : r + 2]
        score_hidden(row, indices, values, weights, units, inverse, step, horizon, -1, whole)
        for k in range(indptr[r], indptr[r + 1]):
            score_hidden(row, indices, values, weights, units, inverse, step, horizon, k, less)
            out[k] = whole[0] - less[0]


@jit
def step_row(
    gradient: Floats,
    j: int,
    noise: Floats,
    size: float,
    w: Floats,
    m1: Floats,
    m2: Floats,
    average: Floats,
    touches: int,
    left: float,
    move: float,
    rate: float,
    adam: bool,
) -> None:
    """One step of row j of weights, as in `streamrank.kernels.linear.learn_lists` (6), and of its average.

    A slope no larger than `noise` times `size` is rounding error, and 0. `left` is how much the average has
    kept of what it was apart from w while the row rested.
    """
    by = 1.0 / unbias(BETA1, touches) if adam else 1.0
    root = 1.0 / unbias(BETA2, touches)
    for h in range(w.shape[1]):
        g, old = gradient[j, h], m2[j, h]
        g = 0.0 if abs(g) <= noise[h] * size else g
        limit = math.sqrt(old * MEMORY) if old > 0.0 else math.inf
        g = limit if g > limit else g
        g = -limit if g < -limit else g
        m1[j, h] += (1.0 - BETA1) * (g - m1[j, h])
        m2[j, h] += (1.0 - BETA2) * (g * g - old)
        over = math.sqrt(m2[j, h] * root) + EPSILON if adam else 1.0
        before = w[j, h]
        after = before - rate * (m1[j, h] * by) / over
        kept = before + (average[j, h] - before) * left
        w[j, h] = after
        average[j, h] = kept + move * (after - kept)


@jit
def learn_hidden(
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
    units: Units,
    scratch: Scratch,
    gradient: Floats,
    step: int,
    refused: int,
    steps: Steps,
    loss: Loss,
    out: Floats,
) -> tuple[int, int]:
    """Score each list as served, then learn it; returns the steps made and the lists refused.

    The steps are those of `streamrank.kernels.linear.learn_lists`. With a = a(z) of row r, slopes in (5) are

        dv_h = sum_r ds_r a_rh,   dz_rh = ds_r v_h (1 - |a_rh|)^2,   db = sum_r dz_r,   dW_j = sum_r x_rj dz_r

    `gradient` is as large as W, and nothing is kept in it between lists.
    """
    rate, adam, horizon, scale = steps
    number, knob, settings, chains, visit, sample, generator = loss
    slot, known, query = -1, 0, np.empty(3)
    inverse, bulk, held, dirty = scratch.inverse, scratch.bulk, scratch.held, scratch.dirty
    w, m1, m2, average, last, touches = (
        weights.w,
        weights.m1,
        weights.m2,
        weights.average,
        weights.last,
        weights.touches,
    )
    n = units.w.shape[1]
    slopes, noise, dz = np.empty((2, n)), np.empty((2, n)), np.empty(n)
    for q in range(len(lists) - 1):
        first, end = lists[q], lists[q + 1]
        begin, stop = indptr[first], indptr[end]
        rows = indptr[first : end + 1]
        score_hidden(rows, indices, values, weights, units, inverse, step, horizon, -1, out[first:end])  # (1)
        entry, u = np.empty(end - first, np.int64), np.empty(end - first)
        if number == SONG:
            slot = enter(chains, visit, q, first, end, entry)
        sound = True
        for k in range(begin, stop):
            sound = sound and abs(values[k]) < STEEPEST
        if not sound:
            refused += 1
            continue
        i, t = pairs[q], pairs[q + 1]
        if not has_preference(y[first:end], c[first:end], mode[q], pair_c[i:t]):
            continue
        touched = np.empty(stop - begin, dtype=np.int32)
        n_touched = see_values(
            indices, values, begin, stop, end - first, weights, scratch, scale, touched
        )  # (2)
        a, s, ds = np.empty((end - first, n)), np.empty(end - first), np.empty(end - first)
        for r in range(end - first):  # (3)
            a[r] = units.w[0]
            for k in range(rows[r], rows[r + 1]):
                j = indices[k]
                x = values[k] * inverse[j]
                for h in range(n):
                    a[r, h] += w[j, h] * x
            s[r] = finish(units.w, a, r)
        if number == SONG:
            known = recall(chains.u, chains.query, chains.held, slot, entry, end - first, u, query)
        list_slopes(  # (4)
            number, knob, settings, sample, generator, known, u, query, s, y[first:end], c[first:end],
            mode[q], better[i:t], worse[i:t], pair_c[i:t], ds,
        )  # fmt: skip
        if number == SONG:
            remember(chains.u, chains.query, slot, entry, end - first, u, query)
        slopes[:] = noise[:] = 0.0
        for k in range(n_touched):
            gradient[touched[k]] = 0.0
        for r in range(end - first):  # (5)
            if ds[r] != 0.0:
                for h in range(n):
                    slopes[1, h] += ds[r] * a[r, h]
                    noise[1, h] += NOISE * abs(ds[r] * a[r, h])
                    dz[h] = ds[r] * units.w[1, h] * (1.0 - abs(a[r, h])) ** 2
                    slopes[0, h] += dz[h]
                    noise[0, h] += NOISE * abs(dz[h])
                for k in range(rows[r], rows[r + 1]):
                    j = indices[k]
                    x = values[k] * inverse[j]
                    bulk[j] += abs(x)
                    for h in range(n):
                        gradient[j, h] += dz[h] * x
        n_sound = 0
        for h in range(n):
            n_sound += abs(slopes[0, h]) < STEEPEST and abs(slopes[1, h]) < STEEPEST
        for k in range(n_touched):
            j = touched[k]
            for h in range(n):
                n_sound += abs(gradient[j, h]) < STEEPEST
        if n_sound == n * (n_touched + 1):  # (6)
            step += 1
            move = max(3.0 / (step + 2.0), 1.0 / horizon)
            for row in range(2):
                step_row(
                    slopes,
                    row,
                    noise[row],
                    1.0,
                    units.w,
                    units.m1,
                    units.m2,
                    units.average,
                    step,
                    1.0,
                    move,
                    rate,
                    adam,
                )
            for k in range(n_touched):
                j = touched[k]
                dirty[j >> BLOCK_BITS] = 1
                left = decay(last[j], step - 1, horizon) if 0 < last[j] < step - 1 else 1.0
                touches[j] += 1
                step_row(
                    gradient, j, noise[0], bulk[j], w, m1, m2, average, touches[j], left, move, rate, adam
                )
                last[j] = step
        else:
            refused += 1
        for k in range(n_touched):
            held[touched[k]] = 0
    return step, refused
