"""Products with X'LX and X'MM'X, where neither the centring L nor the preference graph M is formed."""

from typing import Any, NamedTuple

import numpy as np

from .csr import CACHE, AnyArray, Floats, Ints, Matrix, added, dot, inner, scatter
from .jit import jit, pjit


@pjit
def _product(
    indptr: Ints,
    indices: AnyArray,
    data: AnyArray,
    starts: Ints,
    mean_of: Ints,
    mean_scores: Floats,
    c: Floats,
    v: Floats,
    first: int,
    end: int,
    out: Floats,
    rest: Floats,
) -> None:
    """Add c X'L(Xv) of the blocks `first`..`end` to `out`, while their rows are in cache.

    `rest` gathers what is left of the mean of a long list after its foretold mean score is taken away.
    """
    s = np.empty(np.max(np.diff(starts[first : end + 1])) if end > first else 0)
    for block in range(first, end):
        top, stop = starts[block], starts[block + 1]
        if mean_of[block] >= 0:  # a piece of a long list, whose mean score is known beforehand
            for r in range(top, stop):
                i, d = indices[indptr[r] : indptr[r + 1]], data[indptr[r] : indptr[r + 1]]
                u = c[block] * (dot(i, d, v) - mean_scores[mean_of[block]])
                rest[mean_of[block]] += u
                scatter(i, d, u, out)
            continue
        total = 0.0
        for r in range(top, stop):
            s[r - top] = dot(indices[indptr[r] : indptr[r + 1]], data[indptr[r] : indptr[r + 1]], v)
            total += s[r - top]
        for r in range(top, stop):
            i, d = indices[indptr[r] : indptr[r + 1]], data[indptr[r] : indptr[r + 1]]
            scatter(i, d, c[block] * (s[r - top] - total / (stop - top)), out)


@jit
def _spread(better: Ints, worse: Ints, c: Floats, s: Floats, out: Floats) -> None:
    """Out = M diag(c) M's: each preference pulls its two rows apart by c (s_better - s_worse)."""
    for h in range(len(better)):
        u = c[h] * (s[better[h]] - s[worse[h]])
        out[better[h]] += u
        out[worse[h]] -= u


class _Blocks(NamedTuple):
    """Rows in blocks that fit the cache: a whole short list, or a piece of a long one."""

    starts: Ints
    query: Ints  # the list of each block
    mean_of: Ints  # of a piece: which row of `means` is that of its list; -1 for a whole list
    means: Floats


def _blocks(matrix: Matrix, lists: Ints, before: Ints) -> _Blocks:
    """Cut `lists`; `before` says how many entries come before each row."""
    n = matrix.shape[1]
    long = np.diff(before[lists]) > max(CACHE, 16 * n)  # 16 n: the means stay below 1/16 of the data
    cuts, means = [lists], np.zeros((int(long.sum()), n))
    for k, q in enumerate(np.flatnonzero(long)):
        top, stop = int(lists[q]), int(lists[q + 1])
        cuts.append(np.searchsorted(before[top:stop], np.arange(before[top], before[stop], CACHE)) + top)
        means[k] = matrix.mean_row(top, stop)
    starts = np.unique(np.concatenate(cuts))
    query = np.searchsorted(lists, starts[:-1], side="right") - 1
    return _Blocks(starts, query, np.where(long, np.cumsum(long) - 1, -1)[query], means)


def _runs(blocks: _Blocks, rows: int) -> list[tuple[int, int]]:
    """Blocks taken together up to `rows` rows; a piece of a long list stays alone."""
    runs, first, starts = [], 0, blocks.starts
    pieces = np.append(np.flatnonzero(blocks.mean_of >= 0), len(starts) - 1)
    while first < len(starts) - 1:
        end = int(np.searchsorted(starts, starts[first] + rows, side="right")) - 1
        end = max(min(end, int(pieces[np.searchsorted(pieces, first)])), first + 1)
        runs.append((first, end))
        first = end
    return runs


def _centre(values: Floats, blocks: _Blocks, means: Floats, first: int, end: int) -> None:
    """Take from the rows of blocks `first`..`end` the mean of their list (`means` holds the known ones)."""
    if blocks.mean_of[first] >= 0:
        values -= means[blocks.mean_of[first]]
        return
    starts = blocks.starts[first : end + 1]
    sizes = np.diff(starts)
    totals = np.add.reduceat(values, starts[:-1] - starts[0], axis=0)
    values -= np.repeat((totals.T / sizes).T, sizes, axis=0)


class ScoreOperator:
    """v -> X'L(Xv), with L the centring of each list: [1] (8) without lambda.

    L_q = c_q (I - 11'/m_q) on the m_q rows of list q. Short lists are scored, centred and scattered back
    while their rows are in cache. Of a long one the mean row is kept, so that its mean score is known before
    the pass: X is read once for each product either way.

    Parameters
    ----------
    X
        As for `Matrix` (or a `Matrix`).
    lists
        Borders: list q holds rows ``lists[q]:lists[q+1]``. None: one list of all rows.
    weights
        c_q, one for each list; 1 if not given.

    Examples
    --------
    >>> H = ScoreOperator(np.array([[1.0, 0.0], [3.0, 0.0], [5.0, 1.0]]), np.array([0, 2, 3]))
    >>> H(np.array([1.0, 1.0])), H.rhs(np.array([0.0, 1.0, 7.0]))
    (array([2., 0.]), array([1., 0.]))

    References
    ----------
    [1] Large scale training methods for linear RankRLS (Airola, Pahikkala, Salakoski).
    """

    def __init__(
        self,
        X: Any,
        lists: AnyArray | None = None,
        weights: AnyArray | None = None,
        *,
        n_threads: int = 1,
        form: str = "auto",
    ) -> None:
        self.matrix = X if isinstance(X, Matrix) else Matrix(X, n_threads=n_threads, form=form)
        m, n = self.matrix.shape
        self.shape = (n, n)
        self.lists = np.array([0, m]) if lists is None else np.ascontiguousarray(lists, np.int64)
        self.sizes = np.diff(self.lists)
        if len(self.lists) < 2 or self.lists[0] != 0 or self.lists[-1] != m:
            raise ValueError(f"lists must start with 0 and end with {m}, the number of rows")
        if (self.sizes < 1).any():
            raise ValueError(f"list {np.argmax(self.sizes < 1)} is empty: leave it out of `lists`")
        c = np.ones(len(self.sizes)) if weights is None else np.ascontiguousarray(weights, np.float64)
        if c.shape != self.sizes.shape or not (np.isfinite(c) & (c >= 0)).all():
            raise ValueError(f"weights must be {len(self.sizes)} numbers, one for each list, none below 0")
        self.weights = c
        self._rows_a_run = max(CACHE // max(n, 1), 1)
        before = self._dense_before() if self.matrix.dense is not None else self.matrix.indptr
        self._blocks = _blocks(self.matrix, self.lists, before)
        self._block_c = c[self._blocks.query]
        self._runs = _runs(self._blocks, self._rows_a_run) if self.matrix.dense is not None else []
        even = np.linspace(0, before[-1], self.matrix.n_threads + 1)
        self._cuts = np.searchsorted(before[self._blocks.starts], even)
        self._cuts[0], self._cuts[-1] = 0, len(self._block_c)

    def _dense_before(self) -> Ints:
        return np.arange(self.matrix.shape[0] + 1) * self.shape[0]

    def __call__(self, v: Floats) -> Floats:
        """X'LXv."""
        blocks = self._blocks
        mean_scores = np.array([inner(mean, v) for mean in blocks.means])
        if self.matrix.dense is not None:
            total, left = np.zeros(len(v)), np.zeros(len(mean_scores))
            for first, end in self._runs:
                a, b = blocks.starts[first], blocks.starts[end]
                D = self.matrix.dense[a:b].astype(np.float64, copy=False)
                u = D @ v
                _centre(u, blocks, mean_scores, first, end)
                u *= self._row_c(first, end)
                total += u @ D
                if blocks.mean_of[first] >= 0:
                    left[blocks.mean_of[first]] += u.sum()
            return _less(total, left, blocks.means)
        # v_j beside out_j: what fetches the one for the score brings the other for the way back
        pair = np.zeros((self.matrix.n_threads, len(v), 2))
        pair[:, :, 0] = v
        rest = np.zeros((self.matrix.n_threads, len(mean_scores)))

        def work(k: int) -> None:
            first, end = self._cuts[k], self._cuts[k + 1]
            starts, mean_of, c = blocks.starts, blocks.mean_of, self._block_c
            v_k, out_k = pair[k, :, 0], pair[k, :, 1]
            _product(*self.matrix.csr, starts, mean_of, mean_scores, c, v_k, first, end, out_k, rest[k])

        self.matrix.parallel(work)
        # a foretold mean is rounded; beside columns far from 0 that would cost digits which this gives back
        return _less(added(pair[:, :, 1]), added(rest), blocks.means)

    def _row_c(self, first: int, end: int) -> Floats:
        return np.repeat(self._block_c[first:end], np.diff(self._blocks.starts[first : end + 1]))

    def centred(self, u: Floats) -> Floats:
        """Lu: each list's mean taken away, times its weight."""
        means = np.add.reduceat(u, self.lists[:-1]) / self.sizes
        return (u - np.repeat(means, self.sizes)) * np.repeat(self.weights, self.sizes)

    def rhs(self, y: Floats) -> Floats:
        """b = X'Ly."""
        return self.matrix.back(self.centred(y))

    def scores(self, w: Floats) -> Floats:
        """Xw."""
        return self.matrix.scores(w)

    def gram(self) -> Floats:
        """X'LX itself, n x n: for few columns."""
        H = np.zeros(self.shape)
        blocks = _blocks(self.matrix, self.lists, self._dense_before())
        for first, end in _runs(blocks, self._rows_a_run):
            starts = blocks.starts[first : end + 1]
            D = self.matrix.rows(np.arange(starts[0], starts[-1]))
            _centre(D, blocks, blocks.means, first, end)
            c = np.repeat(self.weights[blocks.query[first:end]], np.diff(starts))
            H += D.T @ (D * c[:, None])
        return H


def _less(total: Floats, left: Floats, means: Floats) -> Floats:
    for share, mean in zip(left, means, strict=True):
        total -= share * mean
    return total


def _row_numbers(name: str, rows: AnyArray) -> Ints:
    rows = np.asarray(rows)
    whole = rows.astype(np.int64, casting="unsafe")
    if rows.dtype == bool or (whole != rows).any():
        raise ValueError(f"{name} must be row numbers, whole ones: it holds {rows.dtype}")
    return np.ascontiguousarray(whole)


class PairOperator:
    """v -> X'M diag(c) M'(Xv) for preferences better > worse, [1] section 3.5; M is m x l and never formed.

    Parameters
    ----------
    X
        As for `Matrix` (or a `Matrix`).
    better, worse
        Rows of X, one entry for each preference.
    weights
        c, none below 0; 1 if not given.
    magnitudes
        d, by how much the scores should differ; 1 if not given.

    Examples
    --------
    >>> H = PairOperator(np.array([[1.0, 0.0], [3.0, 0.0]]), np.array([1]), np.array([0]))
    >>> H(np.array([1.0, 1.0])), H.rhs()
    (array([4., 0.]), array([2., 0.]))

    References
    ----------
    [1] Large scale training methods for linear RankRLS (Airola, Pahikkala, Salakoski).
    """

    def __init__(
        self,
        X: Any,
        better: AnyArray,
        worse: AnyArray,
        weights: AnyArray | None = None,
        magnitudes: AnyArray | None = None,
        *,
        n_threads: int = 1,
        form: str = "auto",
    ) -> None:
        self.matrix = X if isinstance(X, Matrix) else Matrix(X, n_threads=n_threads, form=form)
        m, n = self.matrix.shape
        self.shape = (n, n)
        self.better, self.worse = _row_numbers("better", better), _row_numbers("worse", worse)
        pairs = len(self.better)
        self.weights = np.ones(pairs) if weights is None else np.ascontiguousarray(weights, np.float64)
        self.magnitudes = (
            np.ones(pairs) if magnitudes is None else np.ascontiguousarray(magnitudes, np.float64)
        )
        for name, values in (
            ("worse", self.worse),
            ("weights", self.weights),
            ("magnitudes", self.magnitudes),
        ):
            if values.shape != self.better.shape:
                raise ValueError(f"{name} has {len(values)} entries for {pairs} preferences")
        for name, rows in (("better", self.better), ("worse", self.worse)):
            if pairs and not 0 <= rows.min() <= rows.max() < m:
                raise ValueError(f"{name} names rows outside 0..{m - 1}")
        if not (np.isfinite(self.weights) & (self.weights >= 0) & np.isfinite(self.magnitudes)).all():
            raise ValueError("weights and magnitudes must be finite, and no weight below 0")

    def __call__(self, v: Floats) -> Floats:
        """X'M diag(c) M'Xv."""
        u = np.zeros(self.matrix.shape[0])
        _spread(self.better, self.worse, self.weights, self.matrix.scores(v), u)
        return self.matrix.back(u)

    def rhs(self) -> Floats:
        """b = X'M diag(c) d."""
        pull, m = self.weights * self.magnitudes, self.matrix.shape[0]
        u = np.bincount(self.better, pull, m) - np.bincount(self.worse, pull, m)
        return self.matrix.back(np.asarray(u, np.float64))

    def scores(self, w: Floats) -> Floats:
        """Xw."""
        return self.matrix.scores(w)

    def gram(self) -> Floats:
        """X'M diag(c) M'X itself, n x n: for few columns."""
        H = np.zeros(self.shape)
        step = max(CACHE // max(self.shape[0], 1), 1)
        for a in range(0, len(self.better), step):
            D = self.matrix.rows(self.better[a : a + step]) - self.matrix.rows(self.worse[a : a + step])
            H += D.T @ (D * self.weights[a : a + step, None])
        return H
