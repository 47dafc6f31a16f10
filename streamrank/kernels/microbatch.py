"""The lists of a micro-batch: how they are gathered, and what they say of the scores.

A micro-batch is the lists that came since the last step. It is full when it holds a given number of rows or
more: a list is never cut, so the border falls behind the one that reaches the count, however records arrived.
A list is centred by its own mean. Single examples are centred by the mean of those of their query that fell
into the same batch: of B rows of one query (B-1)/B of what they say is kept, with no memory of the query. One
that is alone there says nothing.
"""

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from .jit import jit
from .losses import preference
from .resting import Columns, Floats, Ints, Weights, score

Modes = npt.NDArray[np.int8]

STEEPEST = 1e20  # a list with a value or weight beyond is refused: its square would drown all others


class Open(NamedTuple):
    """The lists of the micro-batch that is not full yet, as in `streamrank.features.batch`, with room."""

    indptr: Ints
    indices: Columns
    values: Floats
    lists: Ints
    y: Floats
    c: Floats
    mode: Modes
    pairs: Ints
    better: Columns
    worse: Columns
    pair_c: Floats


@jit
def worth(y: Floats, c: Floats, mode: int, pair_c: Floats) -> float:
    """By how many weighted rows a list counts; 0 if it says nothing.

    >>> y, c, none = np.array([2.0, 0.0, 0.0]), np.full(3, 0.5), np.zeros(0)
    >>> worth(y, c, 0, none), worth(0 * y, c, 0, none), worth(y, c, 1, none)
    (1.5, 0.0, 2.0)
    """
    m = len(y)
    if mode == 4:
        return c[0] if m > 0 and c[0] > 0.0 else 0.0
    total = 0.0
    if mode == 2:
        for p in range(len(pair_c)):
            total += max(pair_c[p], 0.0)
        return 2.0 * total
    if m < 2:
        return 0.0
    if scored(c, mode):
        for r in range(1, m):
            if (y[r] * c[r] != y[0] * c[0]) if mode == 3 else (y[r] != y[0]):
                return m * (1.0 if mode == 3 else c[0])
        return 0.0
    for i in range(m):
        for j in range(m):
            if i != j:
                total += max(preference(mode, y[i], c[i], y[j], c[j]), 0.0)
    return 2.0 * total


@jit
def scored(c: Floats, mode: int) -> bool:
    """Whether a list is centred whole: its labels are scores, or all its weights are one."""
    if mode == 3:
        return True
    same = mode == 0 and c[0] > 0.0
    for r in range(1, len(c)):
        same = same and c[r] == c[0]
    return same


@jit
def take(
    indptr: Ints,
    indices: Columns,
    values: Floats,
    lists: Ints,
    y: Floats,
    c: Floats,
    mode: Modes,
    pairs: Ints,
    better: Columns,
    worse: Columns,
    pair_c: Floats,
    first_list: int,
    end_list: int,
    weights: Weights,
    clock: float,
    open: Open,
    n_open: int,
    kept: npt.NDArray[np.bool_],
    out: Floats,
) -> int:
    """Score some lists, append those that say anything to the open batch; returns how many were refused."""
    refused = 0
    for q in range(first_list, end_list):
        first, end, p, t = lists[q], lists[q + 1], pairs[q], pairs[q + 1]
        begin, stop = indptr[first], indptr[end]
        score(indptr[first : end + 1], indices, values, weights, clock, out[first:end])
        sound = end > first
        for k in range(begin, stop):
            sound = sound and abs(values[k]) < STEEPEST
        for r in range(first, end):
            sound = sound and abs(y[r]) < STEEPEST and abs(c[r]) < STEEPEST
        for k in range(p, t):
            sound = sound and abs(pair_c[k]) < STEEPEST
        kept[q - first_list] = sound and worth(y[first:end], c[first:end], mode[q], pair_c[p:t]) > 0.0
        if not sound:
            refused += 1
        if not kept[q - first_list]:
            continue
        row, pair = open.lists[n_open], open.pairs[n_open]
        at, n, rows = open.indptr[row], stop - begin, end - first
        open.indptr[row + 1 : row + 1 + rows] = indptr[first + 1 : end + 1] + (at - begin)
        open.indices[at : at + n] = indices[begin:stop]
        open.values[at : at + n] = values[begin:stop]
        open.y[row : row + rows] = y[first:end]
        open.c[row : row + rows] = c[first:end]
        open.better[pair : pair + t - p] = better[p:t]
        open.worse[pair : pair + t - p] = worse[p:t]
        open.pair_c[pair : pair + t - p] = pair_c[p:t]
        open.mode[n_open] = mode[q]
        n_open += 1
        open.lists[n_open], open.pairs[n_open] = row + end - first, pair + t - p
    return refused


@jit
def grouped(lists: Ints, group: Ints, n_groups: int) -> tuple[Ints, Ints, Ints]:
    """Rows by group, the borders of the groups, and a list of each; `group` names that of each list."""
    borders, heads = np.zeros(n_groups + 1, dtype=np.int64), np.full(n_groups, -1, dtype=np.int64)
    for q in range(len(group)):
        borders[group[q] + 1] += lists[q + 1] - lists[q]
        if heads[group[q]] < 0:
            heads[group[q]] = q
    for g in range(n_groups):
        borders[g + 1] += borders[g]
    at = borders[:-1].copy()
    order = np.empty(borders[-1], dtype=np.int64)
    for q in range(len(group)):
        for r in range(lists[q], lists[q + 1]):
            order[at[group[q]]] = r
            at[group[q]] += 1
    return order, borders, heads


@jit
def residuals(
    open: Open, order: Ints, borders: Ints, heads: Ints, s: Floats, labelled: bool, out: Floats
) -> float:
    """Write L(s - y), of preferences their slope; without labels L s. Returns the weighted rows."""
    mass = 0.0
    for g in range(len(heads)):
        q, rows = heads[g], order[borders[g] : borders[g + 1]]
        m, mode = len(rows), open.mode[q]
        first, end = open.lists[q], open.lists[q + 1]
        if mode == 4 or scored(open.c[first:end], mode):
            total = mean = 0.0
            for r in rows:
                weight = 1.0 if mode == 3 else open.c[r]
                total += weight
                if labelled:
                    out[r] = s[r] - (open.y[r] * open.c[r] if mode == 3 else open.y[r])
                else:
                    out[r] = s[r]
                mean += weight * out[r]
            for r in rows:  # a single example tells nothing: it is its own mean
                out[r] = (out[r] - mean / total) * (1.0 if mode == 3 else open.c[r]) if m > 1 else 0.0
            mass += total if m > 1 else 0.0
            continue
        out[first:end] = 0.0
        by = 1.0 if labelled else 0.0
        if mode == 2:
            for k in range(open.pairs[q], open.pairs[q + 1]):
                weight = max(open.pair_c[k], 0.0)
                i, j = first + open.better[k], first + open.worse[k]
                slope = weight * (s[i] - s[j] - by)
                out[i] += slope
                out[j] -= slope
                mass += 2.0 * weight
        else:
            for i in range(first, end):
                for j in range(first, end):
                    weight = preference(mode, open.y[i], open.c[i], open.y[j], open.c[j]) if i != j else 0.0
                    if weight > 0.0:
                        slope = weight * (s[i] - s[j] - by)
                        out[i] += slope
                        out[j] -= slope
                        mass += 2.0 * weight
    return mass
