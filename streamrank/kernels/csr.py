"""Products with X and X', dense or CSR, in one or more threads.

Rows are examples: X is m x n. Sums run in a fixed order for a given number of threads, so the
same input gives the same bits; another number of threads differs by rounding only.
"""

import functools
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import numpy.typing as npt

from .jit import jit, pjit

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]
AnyArray = npt.NDArray[Any]

CACHE = 1 << 17  # entries: what stays in a core's own cache between the two halves of a product
DENSE_FROM = 0.5  # density from which BLAS beats the sparse kernel (measured: .3 to .8, by columns and load)
SPARSE_BELOW = 0.1  # density of an array below which a CSR copy is made: it takes less than .15 of the array
COPY = 1 << 26  # bytes: a larger dense copy is not made unasked


@pjit
def dot(indices: AnyArray, data: AnyArray, v: Floats) -> float:
    """A sparse row times v."""
    whole = len(indices) // 4 * 4
    s0 = s1 = s2 = s3 = 0.0  # four chains of additions: one alone waits for itself
    for k in range(0, whole, 4):
        s0 += data[k] * v[indices[k]]
        s1 += data[k + 1] * v[indices[k + 1]]
        s2 += data[k + 2] * v[indices[k + 2]]
        s3 += data[k + 3] * v[indices[k + 3]]
    for k in range(whole, len(indices)):
        s0 += data[k] * v[indices[k]]
    return (s0 + s1) + (s2 + s3)


@pjit
def scatter(indices: AnyArray, data: AnyArray, u: float, out: Floats) -> None:
    """Add u times a sparse row to `out`."""
    whole = len(indices) // 4 * 4
    for k in range(0, whole, 4):  # read four before the first is written: the compiler may not reorder that
        a, b, c, d = data[k] * u, data[k + 1] * u, data[k + 2] * u, data[k + 3] * u
        out[indices[k]] += a
        out[indices[k + 1]] += b
        out[indices[k + 2]] += c
        out[indices[k + 3]] += d
    for k in range(whole, len(indices)):
        out[indices[k]] += data[k] * u


@pjit
def inner(a: Floats, b: Floats) -> float:
    """a'b, added up in one fixed order.

    Not `a @ b`: the BLAS splits it over threads, and its idle ones then spin for some milliseconds on the
    cores that the next product needs (measured: two threads were no faster than one).

    >>> inner(np.array([1.0, 2.0, 3.0]), np.array([4.0, 5.0, 6.0]))
    32.0
    """
    whole = len(a) // 4 * 4
    s0 = s1 = s2 = s3 = 0.0
    for k in range(0, whole, 4):
        s0 += a[k] * b[k]
        s1 += a[k + 1] * b[k + 1]
        s2 += a[k + 2] * b[k + 2]
        s3 += a[k + 3] * b[k + 3]
    for k in range(whole, len(a)):
        s0 += a[k] * b[k]
    return (s0 + s1) + (s2 + s3)


@pjit
def _scores(
    indptr: Ints, indices: AnyArray, data: AnyArray, v: Floats, first: int, end: int, out: Floats
) -> None:
    for r in range(first, end):
        a, b = indptr[r], indptr[r + 1]
        out[r] = dot(indices[a:b], data[a:b], v)


@pjit
def _back(
    indptr: Ints, indices: AnyArray, data: AnyArray, u: Floats, first: int, end: int, out: Floats
) -> None:
    for r in range(first, end):
        if u[r] != 0.0:
            a, b = indptr[r], indptr[r + 1]
            scatter(indices[a:b], data[a:b], u[r], out)


@jit
def _densify(indptr: Ints, indices: AnyArray, data: AnyArray, rows: Ints, out: Floats) -> None:
    for at in range(len(rows)):
        for k in range(indptr[rows[at]], indptr[rows[at] + 1]):
            out[at, indices[k]] += data[k]


@jit
def _sound(indptr: Ints, indices: AnyArray, data: AnyArray, n: int) -> bool:
    for r in range(len(indptr) - 1):
        if indptr[r] > indptr[r + 1]:
            return False
    for k in range(len(indices)):
        if not 0 <= indices[k] < n:
            return False
    return bool(indptr[0] == 0 and indptr[-1] == len(indices) == len(data))


@jit
def _finite(values: AnyArray) -> bool:
    total = 0.0
    for value in values:
        total += value * 0.0  # NaN from the first value that is not finite on; no array of flags is made
    return total == 0.0


class Matrix:
    """X in the form in which its products are fastest.

    Parameters
    ----------
    X
        A 2-d array, a scipy sparse matrix, or anything with `indptr`, `indices`, `data` and `shape`. float32
        data stays float32 (no copy); sums are float64 throughout.
    n_threads
        Threads of the sparse kernels, each with 2 n floats of its own. A dense X leaves threads to the BLAS.
    form
        "sparse" or "dense" force it; "auto" takes dense from a density of 0.5, unless that needs a copy of
        more than 64 MB, and sparse for an array with less than a tenth of it set. CSR rows that name every
        column (as LETOR files do) become dense without a copy.
    checked
        X was a `Matrix` before, whose arrays were found sound: they are not looked through again.

    Examples
    --------
    >>> X = Matrix(np.array([[1.0, 0.0], [2.0, 1.0]]))
    >>> X.scores(np.array([1.0, 3.0])), X.back(np.array([1.0, 1.0]))
    (array([1., 5.]), array([3., 1.]))
    """

    def __init__(self, X: Any, *, n_threads: int = 1, form: str = "auto", checked: bool = False) -> None:
        if n_threads < 1:
            raise ValueError(f"n_threads is {n_threads}: give 1 or more")
        if form not in ("auto", "sparse", "dense"):
            raise ValueError(f"form is {form!r}: give 'auto', 'sparse' or 'dense'")
        self.n_threads = n_threads
        self.dense: AnyArray | None = None
        if hasattr(X, "tocsr"):
            X = X.tocsr()
        if not hasattr(X, "indptr"):
            X = _floats(np.asarray(X))
            if X.ndim != 2:
                raise ValueError(f"X has {X.ndim} dimension(s): give rows x columns")
            self.shape: tuple[int, int] = X.shape
            if form == "dense" or (form == "auto" and np.count_nonzero(X) >= SPARSE_BELOW * X.size):
                self.dense = np.ascontiguousarray(X)
            else:
                at = np.flatnonzero(X)
                row, column = np.divmod(at, max(X.shape[1], 1))
                self.indptr = np.searchsorted(row, np.arange(X.shape[0] + 1)).astype(np.int64)
                self.indices, self.data = column.astype(np.int32), X.ravel()[at]
        else:
            self.shape = (int(X.shape[0]), int(X.shape[1]))
            self.indptr = np.ascontiguousarray(X.indptr, np.int64)
            self.indices, self.data = np.ascontiguousarray(X.indices), _floats(X.data)
            m, n = self.shape
            sound = checked or _sound(self.indptr, self.indices, self.data, n)
            if len(self.indptr) != m + 1 or not sound:
                raise ValueError(f"X is not a CSR matrix of {m} x {n}: borders or columns are out of range")
            enough = len(self.data) >= DENSE_FROM * m * n and 8 * m * n <= COPY
            if form == "auto" and m * n > 0 and len(self.data) == m * n and self._names_every_column():
                self.dense = self.data.reshape(m, n)
            elif form == "dense" or (form == "auto" and m * n > 0 and enough):
                self.dense = self.rows(np.arange(m))
        if not checked and not _finite(self.dense.ravel() if self.dense is not None else self.data):
            raise ValueError("X holds NaN or infinity: leave such rows out, or give the value a number")
        if self.dense is None:
            entries = np.linspace(0, len(self.data), n_threads + 1)
            self._cuts = np.searchsorted(self.indptr, entries)
            self._cuts[0], self._cuts[-1] = 0, self.shape[0]

    def _names_every_column(self) -> bool:
        return bool((self.indices.reshape(self.shape) == np.arange(self.shape[1])).all())

    def rows(self, rows: Ints) -> Floats:
        """These rows, dense, as float64."""
        if self.dense is not None:
            return self.dense[rows].astype(np.float64, copy=False)
        out = np.zeros((len(rows), self.shape[1]))
        _densify(self.indptr, self.indices, self.data, rows, out)
        return out

    def scores(self, v: Floats) -> Floats:
        """Xv."""
        out = np.empty(self.shape[0])
        if self.dense is not None:
            for a, b in self.slabs(0, self.shape[0]):
                out[a:b] = self.dense[a:b].astype(np.float64, copy=False) @ v
        else:
            self.parallel(lambda k: _scores(*self.csr, v, self._cuts[k], self._cuts[k + 1], out))
        return out

    def back(self, u: Floats) -> Floats:
        """X'u."""
        if self.dense is not None:
            total = np.zeros(self.shape[1])
            for a, b in self.slabs(0, self.shape[0]):
                total += u[a:b] @ self.dense[a:b].astype(np.float64, copy=False)
            return total
        out = np.zeros((self.n_threads, self.shape[1]))
        self.parallel(lambda k: _back(*self.csr, u, self._cuts[k], self._cuts[k + 1], out[k]))
        return added(out)

    @property
    def csr(self) -> tuple[Ints, AnyArray, AnyArray]:
        """Borders, columns and values; columns unsigned, which spares a look at the sign of each."""
        return self.indptr, self.indices.view(f"u{self.indices.itemsize}"), self.data

    def slabs(self, first: int, end: int) -> list[tuple[int, int]]:
        """Runs of rows that, dense and as float64, fit the cache."""
        step = max(CACHE // max(self.shape[1], 1), 1)
        return [(a, min(a + step, end)) for a in range(first, end, step)]

    @functools.cached_property
    def _pool(self) -> ThreadPoolExecutor:
        return ThreadPoolExecutor(self.n_threads - 1)

    def parallel(self, work: Callable[[int], None]) -> None:
        """Call `work` with 0 .. n_threads - 1 at the same time."""
        rest = [self._pool.submit(work, k) for k in range(1, self.n_threads)]
        work(0)
        for task in rest:
            task.result()

    def mean_row(self, first: int, end: int) -> Floats:
        """The mean of the rows from `first` up to `end`."""
        total = np.zeros(self.shape[1])
        if self.dense is None:
            _back(*self.csr, np.ones(end), first, end, total)
        else:
            for a, b in self.slabs(first, end):
                total += self.dense[a:b].sum(axis=0, dtype=np.float64)
        return total / (end - first)


def _floats(values: AnyArray) -> AnyArray:
    kept = values.dtype in (np.float32, np.float64)
    return np.ascontiguousarray(values, values.dtype if kept else np.float64)


def added(parts: Floats) -> Floats:
    """The sum over threads, always in the same order."""
    total: Floats = parts[0].copy()
    for part in parts[1:]:
        total += part
    return total
