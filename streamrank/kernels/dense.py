"""Lists whose rows all hold the same columns, worked on as the tables they are: the same bits, sooner.

What is kept of the columns is gathered once a list, and the inner loops run over whole rows or columns of
values, several at a time where the processor can.
"""

import numpy as np

from .jit import jit
from .weights import BLOCK_BITS, LONG, Columns, Floats, Ints, Scratch, Weights, inverse_scale, usual_range


@jit
def table_scores(values: Floats, w: Floats, out: Floats) -> None:
    """The sum of w_k x_k of each row of a table: column after column, as elsewhere, eight rows at a time.

    One row alone would wait for each addition before the next; the last eight may be some of those before.

    >>> out = np.empty(2)
    >>> table_scores(np.array([1.0, 3.0, 2.0, 4.0]), np.array([1.0, 5.0]), out)
    >>> out
    array([16., 22.])
    """
    n_rows, n = len(out), len(w)
    for some in range(0, n_rows if n_rows >= 8 else 0, 8):
        r = min(some, n_rows - 8)
        rows = values[r * n : (r + 8) * n]
        x0, x1, x2, x3 = rows[:n], rows[n : 2 * n], rows[2 * n : 3 * n], rows[3 * n : 4 * n]
        x4, x5, x6, x7 = rows[4 * n : 5 * n], rows[5 * n : 6 * n], rows[6 * n : 7 * n], rows[7 * n :]
        s0 = s1 = s2 = s3 = s4 = s5 = s6 = s7 = 0.0
        for k in range(n):
            weight = w[k]
            s0 += weight * x0[k]
            s1 += weight * x1[k]
            s2 += weight * x2[k]
            s3 += weight * x3[k]
            s4 += weight * x4[k]
            s5 += weight * x5[k]
            s6 += weight * x6[k]
            s7 += weight * x7[k]
        out[r], out[r + 1], out[r + 2], out[r + 3] = s0, s1, s2, s3
        out[r + 4], out[r + 5], out[r + 6], out[r + 7] = s4, s5, s6, s7
    for r in range(n_rows if n_rows < 8 else 0):
        row, total = values[r * n : (r + 1) * n], 0.0
        for k in range(n):
            total += w[k] * row[k]
        out[r] = total


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
def see_table(columns: Columns, values: Floats, n_rows: int, weights: Weights, scratch: Scratch) -> bool:
    """`see_values` of a table of values; False, and nothing done, if it cannot.

    It cannot where a column gets its first value that is not 0, which moves its pivot.
    """
    n = len(columns)
    low, high, about, sums, squares, by = np.empty((6, n))
    counts, seen, pivot, inverse = np.empty(n, np.int64), weights.seen, weights.pivot, scratch.inverse
    total, square = weights.total, weights.square
    for k in range(n):
        j = columns[k]
        counts[k], about[k], sums[k], squares[k], by[k] = seen[j], pivot[j], total[j], square[j], inverse[j]
        if about[k] == 0.0:
            for r in range(n_rows):
                if values[r * n + k] != 0.0:
                    return False
    for k in range(n):
        low[k], high[k] = usual_range(counts[k], about[k], sums[k], by[k])
    whole = n_rows - n_rows % 4
    for r in range(0, whole, 4):  # four rows at a time: a sum is read and written once for all
        four = values[r * n : (r + 4) * n]
        for k in range(n):
            least, most, middle = low[k], high[k], about[k]
            d0 = min(max(four[k], least), most) - middle
            d1 = min(max(four[n + k], least), most) - middle
            d2 = min(max(four[2 * n + k], least), most) - middle
            d3 = min(max(four[3 * n + k], least), most) - middle
            sums[k] = (((sums[k] + d0) + d1) + d2) + d3
            squares[k] = (((squares[k] + d0 * d0) + d1 * d1) + d2 * d2) + d3 * d3
    for r in range(whole, n_rows):
        row = values[r * n : (r + 1) * n]
        for k in range(n):
            d = min(max(row[k], low[k]), high[k]) - about[k]
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
        seen[j], total[j], square[j], inverse[j] = counts[k], sums[k], squares[k], by[k]
    return True


@jit
def table_gradient(values: Floats, ds: Floats, columns: Columns, gradient: Floats, bulk: Floats) -> None:
    """X'ds of a table, and the sum of the sizes of its terms, put where its columns are."""
    n, n_rows = len(columns), len(ds)
    total, size = np.zeros(n), np.zeros(n)
    whole = n_rows - n_rows % 4
    for r in range(0, whole, 4):
        s0, s1, s2, s3 = ds[r], ds[r + 1], ds[r + 2], ds[r + 3]
        four = values[r * n : (r + 4) * n]
        for k in range(n):
            t0, t1, t2, t3 = s0 * four[k], s1 * four[n + k], s2 * four[2 * n + k], s3 * four[3 * n + k]
            total[k] = (((total[k] + t0) + t1) + t2) + t3
            size[k] = (((size[k] + abs(t0)) + abs(t1)) + abs(t2)) + abs(t3)
    for r in range(whole, n_rows):
        row = values[r * n : (r + 1) * n]
        for k in range(n):
            total[k] += ds[r] * row[k]
            size[k] += abs(ds[r] * row[k])
    for k in range(n):
        gradient[columns[k]], bulk[columns[k]] = total[k], size[k]


@jit
def bounded(values: Floats, most: float) -> bool:
    """Whether all are smaller than that; NaN is not."""
    n_small = 0
    for k in range(len(values)):
        n_small += abs(values[k]) < most
    return n_small == len(values)
