"""Lists whose rows all hold the same columns, worked on as the tables they are: the same bits, sooner.

A table is a stretch of values, n a row. Inner loops run over whole rows, several values at a time where the
processor can, and over what is kept of just these columns (`columns.py`).
"""

import numpy as np

from .columns import BULK, FILLED, INVERSE, PIVOT, SEEN, SQUARE, TOTAL, A, B, C, G
from .jit import jit
from .lanes import dot
from .weights import UINT, Columns, Floats, Ints, aged, inverse_scale, usual_range


@jit
def bounded(values: Floats, begin: int, end: int, limit: float) -> bool:
    """Whether all of some values are smaller than a limit, of either sign; a missing one is not.

    >>> some = np.array([1.0, -2.0, np.nan])
    >>> bounded(some, 0, 2, 2.5), bounded(some, 0, 2, 2.0), bounded(some, 1, 3, 9.0)
    (True, False, False)
    """
    beyond = 0
    for k in range(UINT(begin), UINT(end)):
        beyond += not abs(values[k]) < limit
    return beyond == 0


@jit
def same_columns(indptr: Ints, indices: Columns, first: int, end: int) -> int:
    """How many columns each row from `first` to `end` holds; 0 unless all the same, once, in order.

    >>> columns = np.array([2, 5, 2, 5, 2, 6], np.int32)
    >>> same_columns(np.arange(0, 7, 2), columns, 0, 2), same_columns(np.arange(0, 7, 2), columns, 0, 3)
    (2, 0)
    """
    if end == first:
        return 0
    begin, n = UINT(indptr[first]), UINT(indptr[first + 1] - indptr[first])
    for r in range(first, end):
        if indptr[r + 1] - indptr[r] != n:
            return 0
    for k in range(begin + UINT(1), begin + n):
        if indices[k] <= indices[k - UINT(1)]:
            return 0
    for r in range(1, end - first):
        row, different = begin + UINT(r) * n, np.int32(0)
        for k in range(n):
            different |= indices[row + k] ^ indices[begin + k]
        if different:
            return 0
    return indptr[first + 1] - indptr[first]  # type: ignore[no-any-return]


@jit
def table_scores(values: Floats, begin: int, n: int, f: Floats, out: Floats, first: int, end: int) -> None:
    """The sum of f[A, k] x_k of each row of a table, into `out` from `first` to `end`.

    >>> f, out = np.ones((14, 2)), np.empty(2)
    >>> f[A] = 1.0, 5.0
    >>> table_scores(np.array([9.0, 1.0, 3.0, 2.0, 4.0]), 1, 2, f, out, 0, 2)
    >>> out
    array([16., 22.])
    """
    for r in range(first, end):
        out[r] = dot(values, begin + (r - first) * n, f, A, n)


@jit
def see_table(values: Floats, begin: int, n_rows: int, n: int, f: Floats, i: Ints) -> None:
    """`see_values` of a table of values."""
    low, high, filled, width = A, B, C, UINT(n)
    for k in range(width):
        f[low, k], f[high, k] = usual_range(
            i[SEEN, k], i[FILLED, k], f[PIVOT, k], f[TOTAL, k], f[SQUARE, k], f[INVERSE, k]
        )
    for k in range(width):
        f[filled, k] = 0.0
    fours = n_rows - n_rows % 4
    for r in range(0, fours, 4):  # four rows at a time: a sum is read and written once for all
        x0 = UINT(begin) + UINT(r) * width
        x1, x2, x3 = x0 + width, x0 + width + width, x0 + width + width + width
        for k in range(width):
            least, most, middle = f[low, k], f[high, k], f[PIVOT, k]
            v0, v1, v2, v3 = values[x0 + k], values[x1 + k], values[x2 + k], values[x3 + k]
            d0, d1 = min(max(v0, least), most) - middle, min(max(v1, least), most) - middle
            d2, d3 = min(max(v2, least), most) - middle, min(max(v3, least), most) - middle
            f[filled, k] += ((v0 != 0.0) + (v1 != 0.0)) + ((v2 != 0.0) + (v3 != 0.0))
            f[TOTAL, k] = (((f[TOTAL, k] + d0) + d1) + d2) + d3
            f[SQUARE, k] = (((f[SQUARE, k] + d0 * d0) + d1 * d1) + d2 * d2) + d3 * d3
    for r in range(fours, n_rows):
        x0 = UINT(begin) + UINT(r) * width
        for k in range(width):
            d = min(max(values[x0 + k], f[low, k]), f[high, k]) - f[PIVOT, k]
            f[filled, k] += values[x0 + k] != 0.0
            f[TOTAL, k] += d
            f[SQUARE, k] += d * d
    for k in range(width):
        if f[PIVOT, k] == 0.0:  # nothing but zeros so far: the first other value is the pivot
            f[TOTAL, k] = f[SQUARE, k] = 0.0
            for r in range(n_rows):
                value, zeros = values[UINT(begin) + UINT(r) * width + k], i[SEEN, k] + r
                if f[PIVOT, k] == 0.0 and value != 0.0:
                    f[PIVOT, k], f[TOTAL, k], f[SQUARE, k] = value, -zeros * value, zeros * value * value
                f[TOTAL, k] += value - f[PIVOT, k]
                f[SQUARE, k] += (value - f[PIVOT, k]) * (value - f[PIVOT, k])
    for k in range(width):
        count, held = i[SEEN, k] + n_rows, i[FILLED, k] + int(f[filled, k])
        i[SEEN, k], i[FILLED, k], f[TOTAL, k], f[SQUARE, k] = aged(count, held, f[TOTAL, k], f[SQUARE, k])
    for k in range(width):
        f[INVERSE, k] = inverse_scale(i[SEEN, k], f[PIVOT, k], f[TOTAL, k], f[SQUARE, k])


@jit
def table_gradient(values: Floats, begin: int, n_rows: int, n: int, ds: Floats, f: Floats) -> None:
    """X'ds of a table into row G, and the sums of the sizes of its terms into BULK."""
    width = UINT(n)
    for k in range(width):
        f[G, k] = f[BULK, k] = 0.0
    fours = n_rows - n_rows % 4
    for r in range(0, fours, 4):
        s0, s1, s2, s3 = ds[r], ds[r + 1], ds[r + 2], ds[r + 3]
        x0 = UINT(begin) + UINT(r) * width
        x1, x2, x3 = x0 + width, x0 + width + width, x0 + width + width + width
        for k in range(width):
            t0, t1, t2, t3 = (
                s0 * values[x0 + k],
                s1 * values[x1 + k],
                s2 * values[x2 + k],
                s3 * values[x3 + k],
            )
            f[G, k] = (((f[G, k] + t0) + t1) + t2) + t3
            f[BULK, k] = (((f[BULK, k] + abs(t0)) + abs(t1)) + abs(t2)) + abs(t3)
    for r in range(fours, n_rows):
        x0 = UINT(begin) + UINT(r) * width
        for k in range(width):
            f[G, k] += ds[r] * values[x0 + k]
            f[BULK, k] += abs(ds[r] * values[x0 + k])
