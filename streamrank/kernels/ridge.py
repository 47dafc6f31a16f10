"""Ridge regression by statistics: centred sums of all that was seen, and their solution by Cholesky.

Centred by running means, so that what a column has in common does not drown in rounding what it tells; sums
run in the order of the rows.
"""

import math
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from .csr import inner
from .jit import jit

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]
Columns = npt.NDArray[np.int32]

NOISE = 1e-14  # a difference smaller than this share of the values is their rounding
LARGEST = 1.7e308  # a score beyond is cut, so that a ranking always has an order
COLUMNS_A_SOLUTION = 64  # n columns: at most (n/64)^2 rows between two solutions, which cost n^3

# places in Sums.numbers: weighted rows; mean target; the intercept served; rows since the last solution, rows
ROWS, TARGET, INTERCEPT, SINCE, SEEN = range(5)


class Sums(NamedTuple):
    """What was seen, and the weights served; n columns."""

    A: Floats  # (n, n) sum c (x - mean)(x - mean)'
    b: Floats  # sum c (x - mean)(y - mean of y)
    mean: Floats
    w: Floats
    numbers: Floats


@jit
def score(indptr: Ints, indices: Columns, values: Floats, w: Floats, intercept: float, out: Floats) -> None:
    """The score intercept + w'x of each row; columns that w does not have count nothing."""
    for r in range(len(indptr) - 1):
        total = intercept
        for k in range(indptr[r], indptr[r + 1]):
            if indices[k] < len(w):
                total += w[indices[k]] * values[k]
        out[r] = 0.0 if math.isnan(total) else min(max(total, -LARGEST), LARGEST)


@jit
def add(
    indices: Columns, values: Floats, target: float, weight: float, intercept: bool, sums: Sums, d: Floats
) -> None:
    """One example: with f = c rows/(rows + c), A += f d d', b += f d e, then the means move. `d` is scratch.

    Without an intercept the means are 0 and f is c.
    """
    A, b, mean, _, numbers = sums
    rows, n = numbers[ROWS], len(b)
    if not intercept:
        d[:] = 0.0
    else:
        for i in range(n):
            d[i] = -mean[i]
    for k in range(len(indices)):
        if indices[k] < n:
            d[indices[k]] += values[k]
    e = target
    factor, share = weight, 0.0
    if intercept:
        e -= numbers[TARGET]
        factor, share = weight * (rows / (rows + weight)), weight / (rows + weight)
    for i in range(n):
        if abs(d[i]) <= NOISE * abs(mean[i]):
            d[i] = 0.0
    for i in range(n):
        a = factor * d[i]
        if a != 0.0:
            b[i] += a * e
            row = A[i]
            for j in range(n):
                row[j] += a * d[j]
        mean[i] += share * d[i]
    numbers[TARGET] += share * e
    numbers[ROWS] = rows + weight


@jit
def solve(A: Floats, b: Floats, ridge: float) -> Floats:
    """(A + ridge)^-1 b by Cholesky, over columns of like size; 0 for a column that tells nothing.

    So for one that the others explain but for rounding, where the ridge is too small to choose among them.

    >>> solve(np.array([[4.0, 1.0], [1.0, 3.0]]), np.array([1.0, 2.0]), 1.0).round(6)
    array([0.105263, 0.473684])
    """
    n = len(b)
    root, w = np.zeros(n), np.zeros(n)
    for i in range(n):
        if A[i, i] > 0.0:
            root[i] = 1.0 / math.sqrt(A[i, i] + ridge)
    U, diagonal, row = np.zeros((n, n)), np.zeros(n), np.empty(n)  # upper: A = U'U, its diagonal apart
    for i in range(n):
        if not root[i] > 0.0:
            continue
        m = n - i
        for j in range(m):
            row[j] = A[i, i + j] * root[i] * root[i + j]
        row[0] = 1.0
        whole = i - i % 4
        for k in range(0, whole, 4):  # four rows at a time: what is left is read and written once for all
            u0, u1, u2, u3 = U[k, i:], U[k + 1, i:], U[k + 2, i:], U[k + 3, i:]
            a0, a1, a2, a3 = u0[0], u1[0], u2[0], u3[0]
            for j in range(m):
                row[j] = (((row[j] - a0 * u0[j]) - a1 * u1[j]) - a2 * u2[j]) - a3 * u3[j]
        for k in range(whole, i):
            above = U[k, i:]
            a = above[0]
            for j in range(m):
                row[j] -= a * above[j]
        if row[0] > 1e-13:
            pivot = diagonal[i] = math.sqrt(row[0])
            to = U[i, i:]
            for j in range(1, m):
                to[j] = row[j] / pivot
    for i in range(n):  # U' z = b
        if diagonal[i] > 0.0:
            w[i] = (b[i] * root[i] + w[i]) / diagonal[i]
            above, rest, z = U[i, i + 1 :], w[i + 1 :], w[i]
            for j in range(len(rest)):
                rest[j] -= above[j] * z
        else:
            w[i] = 0.0
    for i in range(n - 1, -1, -1):  # U w = z
        if diagonal[i] > 0.0:
            begin = i - i % 4  # so that columns which come later, in fours, change no bit of what is there
            w[i] = (w[i] - inner(U[i, begin:], w[begin:])) / diagonal[i]
    return w * root


@jit
def refresh(sums: Sums, lam: float) -> None:
    """Serve the exact solution of what was seen."""
    A, b, mean, w, numbers = sums
    w[:] = solve(A, b, lam * numbers[ROWS])
    numbers[INTERCEPT] = numbers[TARGET]
    for i in range(len(w)):
        numbers[INTERCEPT] -= w[i] * mean[i]
    numbers[SINCE] = 0.0


@jit
def learn_lists(
    indptr: Ints,
    indices: Columns,
    values: Floats,
    lists: Ints,
    target: Floats,
    weight: Floats,
    sums: Sums,
    lam: float,
    intercept: bool,
    out: Floats,
) -> None:
    """Score each list, then add its rows; solve behind it when that is due.

    A solution costs n^3: up to 128 columns it follows every list, else once for (n/64)^2 rows, or for a
    quarter of those seen while they are few.
    """
    numbers, n = sums.numbers, len(sums.b)
    d = np.empty(n)
    for q in range(len(lists) - 1):
        first, end = lists[q], lists[q + 1]
        score(indptr[first : end + 1], indices, values, sums.w, numbers[INTERCEPT], out[first:end])
        for r in range(first, end):
            if weight[r] > 0.0:
                a, b = indptr[r], indptr[r + 1]
                add(indices[a:b], values[a:b], target[r], weight[r], intercept, sums, d)
                numbers[SINCE] += 1.0
                numbers[SEEN] += 1.0
        if numbers[SINCE] > 0.0:
            used = 0
            for i in range(n):
                used += sums.A[i, i] > 0.0
            if numbers[SINCE] >= min(float((used // COLUMNS_A_SOLUTION) ** 2), numbers[SEEN] // 4):
                refresh(sums, lam)
