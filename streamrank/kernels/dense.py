"""Lists whose rows all hold the same columns, worked on as the tables they are: the same bits, sooner.

What is kept of the columns is gathered once a list, and the inner loops run over whole rows or columns of
values, several at a time where the processor can.
"""

import numpy as np

from .jit import jit
from .weights import BLOCK_BITS, LONG, Columns, Floats, Ints, Scratch, Weights, inverse_scale, usual_range


@jit
def turned(values: Floats, begin: int, n_rows: int, n: int, room: Floats) -> Floats:
    """The table of values that begins at `begin`, column by column, in `room` if that is large enough."""
    if len(room) < n * n_rows:
        room = np.empty(n * n_rows)
    whole = n_rows - n_rows % 8
    for first in range(0, whole, 8):  # eight rows at a time: a line of memory is written at once
        for k in range(n):
            at, to = begin + first * n + k, k * n_rows + first
            for r in range(8):
                room[to + r] = values[at + r * n]
    for r in range(whole, n_rows):
        for k in range(n):
            room[k * n_rows + r] = values[begin + r * n + k]
    return room


@jit
def gathered(array: Floats, columns: Columns) -> Floats:
    """The entries of some columns."""
    out = np.empty(len(columns))
    for k in range(len(columns)):
        out[k] = array[columns[k]]
    return out


@jit
def table_scores(table: Floats, w: Floats, inverse: Floats, out: Floats) -> None:
    """The sum of w_k (x_k inverse_k) of each row of a `turned` table: column after column, as elsewhere.

    >>> out = np.empty(2)
    >>> table_scores(np.array([1.0, 2.0, 3.0, 4.0]), np.array([1.0, 10.0]), np.array([1.0, 0.5]), out)
    >>> out
    array([16., 22.])
    """
    out[:] = 0.0
    n_rows = len(out)
    for k in range(len(w)):
        weight, by = w[k], inverse[k]
        column = table[k * n_rows : (k + 1) * n_rows]
        for r in range(n_rows):
            out[r] += weight * (column[r] * by)


@jit
def same_columns(indptr: Ints, indices: Columns, first: int, end: int) -> bool:
    """Whether the rows from `first` to `end` hold the same columns, each once, in ascending order."""
    begin = indptr[first]
    n = indptr[first + 1] - begin if end > first else 0
    if n == 0:
        return False
    for r in range(first, end):
        if indptr[r + 1] - indptr[r] != n:
            return False
    columns = indices[begin : begin + n]
    for k in range(1, n):
        if columns[k] <= columns[k - 1]:
            return False
    for r in range(first + 1, end):
        row = indices[indptr[r] : indptr[r] + n]
        different = np.int32(0)
        for k in range(n):
            different += np.int32(row[k] != columns[k])
        if different:
            return False
    return True


@jit
def see_table(
    columns: Columns, values: Floats, begin: int, n_rows: int, weights: Weights, scratch: Scratch
) -> bool:
    """`see_values` of a table of values that begins at `begin`; False, and nothing done, if it cannot.

    It cannot where a column gets its first value that is not 0, which moves its pivot.
    """
    n = len(columns)
    low, high, about, sums, squares = np.empty(n), np.empty(n), np.empty(n), np.empty(n), np.empty(n)
    counts, by = np.empty(n, dtype=np.int64), np.empty(n)
    for k in range(n):
        j = columns[k]
        counts[k], about[k] = weights.seen[j], weights.pivot[j]
        sums[k], squares[k], by[k] = weights.total[j], weights.square[j], scratch.inverse[j]
        if about[k] == 0.0:
            for r in range(n_rows):
                if values[begin + r * n + k] != 0.0:
                    return False
    for k in range(n):
        low[k], high[k] = usual_range(counts[k], about[k], sums[k], by[k])
    for r in range(n_rows):
        row = values[begin + r * n : begin + r * n + n]
        for k in range(n):
            value, least, most = row[k], low[k], high[k]
            value = least if value < least else value
            value = most if value > most else value
            d = value - about[k]
            sums[k] += d
            squares[k] += d * d
    for k in range(n):
        counts[k] += n_rows
        if counts[k] >= LONG:
            half = counts[k] // 2
            sums[k] *= half / counts[k]
            squares[k] *= half / counts[k]
            counts[k] = half
    for k in range(n):
        by[k] = inverse_scale(counts[k], about[k], sums[k], squares[k])
    for k in range(n):
        j = columns[k]
        scratch.dirty[j >> BLOCK_BITS] = 1
        weights.seen[j], weights.total[j], weights.square[j] = counts[k], sums[k], squares[k]
        scratch.inverse[j] = by[k]
    return True


@jit
def table_gradient(
    values: Floats, begin: int, inverse: Floats, ds: Floats, columns: Columns, gradient: Floats, bulk: Floats
) -> None:
    """X'ds of a table, and the sum of the sizes of its terms, put where its columns are."""
    n = len(columns)
    total, size = np.zeros(n), np.zeros(n)
    for r in range(len(ds)):
        slope, at = ds[r], begin + r * n
        if slope != 0.0:
            for k in range(n):
                term = slope * (values[at + k] * inverse[k])
                total[k] += term
                size[k] += abs(term)
    for k in range(n):
        gradient[columns[k]], bulk[columns[k]] = total[k], size[k]


@jit
def bounded(values: Floats, begin: int, stop: int, most: float) -> bool:
    """Whether all are smaller than that; NaN is not."""
    n_small = 0
    for k in range(begin, stop):
        n_small += abs(values[k]) < most
    return n_small == stop - begin
