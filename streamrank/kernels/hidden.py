"""A scorer with one hidden layer on sparse rows: scores, their slopes, one step a list, all lazily.

    z_h = b_h + sum_j W[j,h] x_j,    s = sum_h v_h a(z_h),    a(z) = z/(1 + |z|)

W starts at 0 and b, v at fixed numbers that differ from unit to unit (`first_units`): no chance is needed,
and a column begins alike whatever its number, so that shards which met the columns in another order merge.
"""

import math
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from .columns import FLOATS, INTS, MOVED, SEEN, TAKEN, put, take
from .dense import same_columns, see_table
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
    UINT,
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
def add_rows(
    indices: Columns, values: Floats, begin: int, end: int, w: Floats, inverse: Floats, z: Floats, r: int
) -> None:  # fmt: skip
    """Add w_j x_j of a row's columns to z[r], in order; z is read and written once for four of them."""
    n, row = UINT(z.shape[1]), UINT(r)
    fours = end - (end - begin) % 4
    for k in range(begin, fours, 4):
        j0, j1, j2, j3 = UINT(indices[k]), UINT(indices[k + 1]), UINT(indices[k + 2]), UINT(indices[k + 3])
        x0, x1 = values[k] * inverse[j0], values[k + 1] * inverse[j1]
        x2, x3 = values[k + 2] * inverse[j2], values[k + 3] * inverse[j3]
        for h in range(n):
            z[row, h] = (((z[row, h] + w[j0, h] * x0) + w[j1, h] * x1) + w[j2, h] * x2) + w[j3, h] * x3
    for k in range(fours, end):
        j = UINT(indices[k])
        x = values[k] * inverse[j]
        for h in range(n):
            z[row, h] += w[j, h] * x


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
    w, average, last, first = weights.w, weights.average, weights.last, units.average
    n = w.shape[1]
    z = np.empty((1, n))
    for r in range(len(indptr) - 1):
        begin, end = indptr[r], indptr[r + 1]
        for h in range(n):
            z[0, h] = first[0, h]
        plain = not begin <= without < end
        for k in range(begin, end):
            j = indices[k]
            plain = plain and j < len(inverse) and not 0 < last[j] < step
        if plain:
            add_rows(indices, values, begin, end, average, inverse, z, 0)
        for k in range(end if plain else begin, end):
            j = indices[k]
            if j < len(inverse) and k != without:
                x = values[k] * inverse[j]
                left = decay(last[j], step, horizon) if 0 < last[j] < step else 1.0
                for h in range(n):
                    rest = average[j, h] - w[j, h]
                    z[0, h] += (w[j, h] + rest * left if left < 1.0 else average[j, h]) * x
        out[r] = finish(first, z, 0)


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
def step_rows(
    gradient: Floats, rows: Columns, n_rows: int, noise: Floats, bulk: Floats,
    w: Floats, m1: Floats, m2: Floats, average: Floats, last: Ints, touches: Ints,
    step: int, horizon: int, rate: float, adam: bool,
) -> None:  # fmt: skip
    """Step number `step` of some rows of weights, as in `columns.step_columns`, and of their averages.

    A slope no larger than `noise` times `bulk` of its row is rounding error, and 0. All rows in one call: to
    call counts references to arrays, up and down.
    """
    n, move = UINT(w.shape[1]), max(3.0 / (step + 2.0), 1.0 / horizon)
    known, unbias1, unbias2 = 0, 1.0, 1.0
    for k in range(n_rows):
        j, wild = UINT(rows[k]), 0
        for h in range(n):
            g = gradient[j, h]
            g = 0.0 if abs(g) <= noise[h] * bulk[j] else g
            gradient[j, h] = g
            wild += (m2[j, h] > 0.0) & (g * g > m2[j, h] * MEMORY)
        for h in range(n if wild else UINT(0)):
            remembered = m2[j, h] * MEMORY
            if 0.0 < remembered < gradient[j, h] * gradient[j, h]:
                gradient[j, h] = math.copysign(math.sqrt(remembered), gradient[j, h])
        for h in range(n):
            g = gradient[j, h]
            m1[j, h] += (1.0 - BETA1) * (g - m1[j, h])
            m2[j, h] += (1.0 - BETA2) * (g * g - m2[j, h])
        touches[j] += 1
        if touches[j] != known:  # most columns of a list have the same count
            known = touches[j]
            unbias1, unbias2 = 1.0 / unbias(BETA1, known), 1.0 / unbias(BETA2, known)
        by, root = unbias1 if adam else 1.0, unbias2
        left = decay(last[j], step - 1, horizon) if 0 < last[j] < step - 1 else 1.0
        last[j] = step
        for h in range(n):
            over = math.sqrt(m2[j, h] * root) + EPSILON if adam else 1.0
            before = w[j, h]
            after = before - rate * (m1[j, h] * by) / over
            kept = before + (average[j, h] - before) * left
            w[j, h] = after
            average[j, h] = kept + move * (after - kept)


@jit
def add_slopes(
    values: Floats, indices: Columns, begin: int, n: int, inverse: Floats, dz: Floats, first: int, rows: int,
    gradient: Floats,
) -> None:  # fmt: skip
    """Add x_j dz of one row of n columns, or of four rows with the same, to the gradients of these."""
    width, r = UINT(dz.shape[1]), UINT(first)
    for k in range(n):
        j = UINT(indices[begin + k])
        x0 = values[begin + k] * inverse[j]
        if rows == 4:
            x1, x2 = values[begin + n + k] * inverse[j], values[begin + 2 * n + k] * inverse[j]
            x3 = values[begin + 3 * n + k] * inverse[j]
            for h in range(width):
                g = (gradient[j, h] + dz[r, h] * x0) + dz[r + UINT(1), h] * x1
                gradient[j, h] = (g + dz[r + UINT(2), h] * x2) + dz[r + UINT(3), h] * x3
        else:
            for h in range(width):
                gradient[j, h] += dz[r, h] * x0


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
    floats: Floats,
    counts: Ints,
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
    slot, n_items, query = -1, 0, np.empty(3)
    both, ones = np.arange(2, dtype=np.int32), np.ones(2)
    last_unit, touches_unit = np.empty(2, np.int64), np.empty(2, np.int64)
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
    slopes, noise, of_units = np.empty((2, n)), np.empty((2, n)), units.w
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
        p, t = pairs[q], pairs[q + 1]
        if not has_preference(y[first:end], c[first:end], mode[q], pair_c[p:t]):
            continue
        width = same_columns(indptr, indices, first, end)
        touched = np.empty(width if width > 0 else stop - begin, dtype=np.int32)
        if width > 0:  # (2)
            n_touched = width
            touched[:] = indices[begin : begin + width]
            beside = touched[width - 1] - touched[0] == width - 1
            for k in range(width):
                bulk[touched[k]] = 0.0
            if scale:
                f, i = np.empty((FLOATS, width)), np.empty((INTS, width), np.int64)
                take(floats, touched, beside, MOVED, TAKEN, f)
                take(counts, touched, beside, SEEN, INTS, i)
                see_table(values, begin, end - first, width, f, i)
                put(floats, touched, beside, MOVED, TAKEN, f)
                put(counts, touched, beside, SEEN, INTS, i)
                for k in range(width):
                    dirty[touched[k] >> BLOCK_BITS] = 1
        else:
            n_touched = see_values(
                indices, values, begin, stop, end - first, weights, scratch, scale, touched
            )
        a, s, ds = np.empty((end - first, n)), np.empty(end - first), np.empty(end - first)
        for r in range(end - first):  # (3)
            for h in range(n):
                a[r, h] = of_units[0, h]
            add_rows(indices, values, rows[r], rows[r + 1], w, inverse, a, r)
            s[r] = finish(of_units, a, r)
        if number == SONG:
            n_items = recall(chains.u, chains.query, chains.held, slot, entry, end - first, u, query)
        list_slopes(  # (4)
            number, knob, settings, sample, generator, n_items, u, query, s, y[first:end], c[first:end],
            mode[q], better[p:t], worse[p:t], pair_c[p:t], ds,
        )  # fmt: skip
        if number == SONG:
            remember(chains.u, chains.query, slot, entry, end - first, u, query)
        slopes[:] = noise[:] = 0.0
        for k in range(n_touched):
            gradient[touched[k]] = 0.0
        dz = np.empty((end - first, n))
        for r in range(end - first):  # (5)
            for h in range(n):
                slope = ds[r] * a[r, h]
                slopes[1, h] += slope
                noise[1, h] += NOISE * abs(slope)
                dz[r, h] = ds[r] * of_units[1, h] * (1.0 - abs(a[r, h])) ** 2
                slopes[0, h] += dz[r, h]
                noise[0, h] += NOISE * abs(dz[r, h])
            for k in range(rows[r] if ds[r] != 0.0 else rows[r + 1], rows[r + 1]):
                j = indices[k]
                bulk[j] += abs(values[k] * inverse[j])
        r = 0
        while r < end - first:
            at_once = 4 if width > 0 and r + 4 <= end - first else 1
            if at_once == 4 or ds[r] != 0.0:
                add_slopes(values, indices, rows[r], rows[r + 1] - rows[r], inverse, dz, r, at_once, gradient)
            r += at_once
        n_sound = 0
        for h in range(n):
            n_sound += abs(slopes[0, h]) < STEEPEST and abs(slopes[1, h]) < STEEPEST
        for k in range(n_touched):
            j = touched[k]
            for h in range(n):
                n_sound += abs(gradient[j, h]) < STEEPEST
        if n_sound == n * (n_touched + 1):  # (6)
            step += 1
            last_unit[:] = touches_unit[:] = step - 1
            for row in range(2):
                step_rows(
                    slopes, both[row:], 1, noise[row], ones, of_units, units.m1, units.m2, units.average,
                    last_unit, touches_unit, step, horizon, rate, adam,
                )  # fmt: skip
            step_rows(
                gradient, touched, n_touched, noise[0], bulk, w, m1, m2, average, last, touches, step,
                horizon, rate, adam,
            )  # fmt: skip
            for k in range(n_touched):
                dirty[touched[k] >> BLOCK_BITS] = 1
        else:
            refused += 1
        for k in range(n_touched):
            held[touched[k]] = 0
    return step, refused
