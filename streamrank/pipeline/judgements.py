"""Judged lists kept as they were learnt, and the full-batch problem they pose."""

from typing import NamedTuple

import numpy as np
from scipy.sparse import csr_matrix

from ..features.batch import BY_LABEL, EXAMPLE, SCORED, Batch, Floats, Ints
from ..kernels.csr import Matrix
from ..kernels.misorder import PairwiseError
from ..kernels.operators import PairOperator, ScoreOperator
from ..kernels.preferences import preferences
from ..metrics.functions import list_metrics
from .model import CUT, Trials


class Judgements:
    """A recorder for `Flow.recorder`: every batch that the models were given, in order.

    A ranking is judged anew at each click, and each judgement holds only what is new of it; the number of the
    ranking is kept beside it.
    """

    def __init__(self) -> None:
        self._batches: list[Batch] = []
        self._index: list[int] = []

    def __call__(self, batch: Batch, trials: Trials) -> None:
        """Keep a batch."""
        self._batches.append(batch)
        self._index += trials.index

    def __len__(self) -> int:
        return len(self._index)

    def __add__(self, other: "Judgements") -> "Judgements":
        both = Judgements()
        both._batches, both._index = self._batches + other._batches, self._index + other._index
        return both

    @property
    def n_columns(self) -> int:
        """One more than the largest column named."""
        return max((batch.n_columns for batch in self._batches), default=0)

    def batch(self) -> Batch:
        """All of it as one batch; single examples of one query come together, as one list, at the end."""
        return _grouped(_joined(self._batches))

    def last(self) -> Batch:
        """Of each ranking its last judgement alone, with all its labels: what it is measured by."""
        joined = _joined(self._batches)
        last = {index: q for q, index in enumerate(self._index)}
        return _grouped(_chosen(joined, np.array(sorted(last.values()), np.int64)))


class Measured(NamedTuple):
    """How well scores order held-out lists."""

    pairwise_error: float
    ndcg: float


class HeldOut:
    """Lists that weights are measured on."""

    def __init__(self, batch: Batch, n_columns: int, spread: Floats) -> None:
        self.lists, self.y = batch.lists, batch.y
        self._matrix = _matrix(batch, n_columns, spread)
        self.error = PairwiseError(batch.y, batch.lists)

    def scores(self, w: Floats) -> Floats:
        """Xw, columns over their spread."""
        return self._matrix.scores(w)

    def measure(self, w: Floats) -> Measured:
        """Mean pairwise error and NDCG@10 over the lists that have one; NaN where none has."""
        scores = self.scores(w)
        values = list_metrics(self.lists, self.y, scores, CUT)[:, 0]
        held = np.isfinite(values)
        return Measured(self.error.one(scores), float(values[held].mean()) if held.any() else float("nan"))


class Problem:
    """RankRLS on judged lists: (H + lam) w = b, H = X'LX + X'M diag(c) M'X, never formed.

    A list whose rows all count alike is scored, [1] (8): L centres it, and its labels are y. Any other holds
    preferences, [1] (9): M has a column a pair. So EGDM reads a stream. Columns are over their spread, the
    root of the mean square, so that one lam suits prices in thousands and rates below one.

    [1] Large scale training methods for linear RankRLS (Airola, Pahikkala, Salakoski).
    """

    def __init__(self, batch: Batch, n_columns: int, spread: Floats) -> None:
        self.matrix = _matrix(batch, n_columns, spread)
        self.n_rows = len(batch.y)
        first = batch.lists[:-1]
        alike = np.logical_and.reduceat(batch.c == np.repeat(batch.c[first], np.diff(batch.lists)), first)
        scored = (batch.mode >= SCORED) | ((batch.mode == BY_LABEL) & alike)
        weights = np.where(scored, np.where(batch.mode == BY_LABEL, batch.c[first], 1.0), 0.0)
        by_click = np.repeat(batch.mode == SCORED, np.diff(batch.lists))
        self._score = ScoreOperator(self.matrix, batch.lists, weights)
        high, low, c = preferences(batch.lists, *batch.arrays[4:], ~scored)
        self._pair = PairOperator(self.matrix, high, low, c)
        self.b = self._score.rhs(np.where(by_click, batch.y * batch.c, batch.y)) + self._pair.rhs()

    def __call__(self, v: Floats) -> Floats:
        """Hv."""
        return self._score(v) + self._pair(v) if len(self._pair.better) else self._score(v)


def spread_of(batch: Batch, n_columns: int) -> Floats:
    """The root of the mean square of each column, over all rows; 1 where a column is empty."""
    square = np.bincount(batch.indices, batch.values**2, n_columns) / max(len(batch.y), 1)
    return np.where(square > 0, np.sqrt(square), 1.0)


def _matrix(batch: Batch, n_columns: int, spread: Floats) -> Matrix:
    values = batch.values / spread[batch.indices]
    return Matrix(csr_matrix((values, batch.indices, batch.indptr), shape=(len(batch.y), n_columns)))


def _joined(batches: list[Batch]) -> Batch:
    def borders(parts: list[Ints]) -> Ints:
        ends = np.cumsum([0, *(part[-1] for part in parts)])
        return np.concatenate([[0], *(part[1:] + end for part, end in zip(parts, ends[:-1], strict=True))])

    if not batches:
        none, empty = np.zeros(1, np.int64), np.zeros(0)
        columns = np.zeros(0, np.int32)
        nothing = (none, columns, empty, none, empty, empty, np.zeros(0, np.int8), none, columns, columns)
        return Batch(*nothing, empty, ())
    return Batch(
        indptr=borders([b.indptr for b in batches]),
        lists=borders([b.lists for b in batches]),
        pairs=borders([b.pairs for b in batches]),
        queries=tuple(query for b in batches for query in b.queries),
        **{
            name: np.concatenate([getattr(b, name) for b in batches])
            for name in ("indices", "values", "y", "c", "mode", "better", "worse", "pair_c")
        },
    )


def _chosen(batch: Batch, lists: Ints) -> Batch:
    """The lists named, in that order, empty ones left out."""
    return _joined([batch.part(int(q), int(q) + 1) for q in lists if batch.lists[q] < batch.lists[q + 1]])


def _grouped(batch: Batch) -> Batch:
    examples = np.flatnonzero(batch.mode == EXAMPLE)
    if not len(examples) and (np.diff(batch.lists) > 0).all():
        return batch
    others = _chosen(batch, np.flatnonzero(batch.mode != EXAMPLE))
    if not len(examples):
        return others
    queries = [batch.queries[q] for q in examples]
    names, place = np.unique(queries, return_inverse=True)
    together = _chosen(batch, examples[np.argsort(place, kind="stable")])
    borders = np.concatenate([[0], np.cumsum(np.bincount(place))])
    merged = together._replace(
        lists=borders,
        mode=np.full(len(names), EXAMPLE, np.int8),
        pairs=np.zeros(len(names) + 1, np.int64),
        queries=tuple(names.tolist()),
    )
    return _joined([others, merged]) if others.n_lists else merged
