"""Judged lists kept to measure weights by, and any of them as rows of the full-batch problem."""

from typing import Any, NamedTuple

import numpy as np
from scipy.sparse import csr_matrix

from ..features.batch import BY_LABEL, EXAMPLE, SCORED, Batch, Floats, Ints, join_batches
from ..kernels.csr import Matrix
from ..kernels.misorder import PairwiseError
from ..kernels.preferences import preferences
from ..metrics.functions import list_metrics
from .learnt import Learnt
from .model import CUT


class Judgements:
    """Lists in memory, in the order learnt: all of them, or what fits.

    Beyond `limit` stored values every second ranking is left out, as often as needed: those that stay are
    spread evenly over the stream, and all judgements of one stay together.
    """

    def __init__(self, limit: float = np.inf) -> None:
        self.limit = limit
        self._pieces: list[Learnt] = []
        self._values = 0
        self._stride = 1

    def __call__(self, learnt: Learnt) -> None:
        """Keep a piece."""
        self._take(learnt)
        while self._values > self.limit and self._stride < 1 << 40:
            self._stride *= 2
            pieces, self._pieces, self._values = self._pieces, [], 0
            for piece in pieces:
                self._take(piece)

    def _take(self, learnt: Learnt) -> None:
        kept = np.flatnonzero(learnt.ranking % self._stride == 0)
        if not len(kept):
            return
        piece = learnt if len(kept) == len(learnt.ranking) else learnt.only(kept)
        self._pieces.append(piece)
        self._values += len(piece.batch.values)

    def __len__(self) -> int:
        return sum(len(piece.ranking) for piece in self._pieces)

    @property
    def n_columns(self) -> int:
        """One more than the largest column named."""
        return max((piece.batch.n_columns for piece in self._pieces), default=0)

    def batch(self) -> Batch:
        """All of it as one batch; single examples of one query come together, as one list, at the end."""
        return grouped(join_batches([piece.batch for piece in self._pieces]))

    def last(self) -> Batch:
        """Of each ranking its last judgement alone, with all its labels: what it is measured by."""
        numbers = np.concatenate([np.zeros(0, np.int64), *(piece.ranking for piece in self._pieces)])
        last = {ranking: q for q, ranking in enumerate(numbers.tolist())}
        joined = join_batches([piece.batch for piece in self._pieces])
        return grouped(chosen(joined, np.array(sorted(last.values()), np.int64)))


class Measured(NamedTuple):
    """How well scores order held-out lists."""

    pairwise_error: float
    ndcg: float


class HeldOut:
    """Lists that weights are measured on; columns are over their spread."""

    def __init__(self, batch: Batch, n_columns: int, spread: Floats) -> None:
        self.batch, self.spread = batch, spread
        values = batch.values / spread[batch.indices]
        self._matrix = Matrix(
            csr_matrix((values, batch.indices, batch.indptr), shape=(len(batch.y), n_columns))
        )
        self.error = PairwiseError(batch.y, batch.lists)

    def scores(self, w: Floats) -> Floats:
        """Xw."""
        return self._matrix.scores(w)

    def measure(self, w: Floats) -> Measured:
        """Mean pairwise error and NDCG@10 over the lists that have one; NaN where none has."""
        return self.measure_scores(self.scores(w))

    def measure_scores(self, scores: Floats) -> Measured:
        """The same, of scores for all rows."""
        values = list_metrics(self.batch.lists, self.batch.y, scores, CUT)[:, 0]
        held = np.isfinite(values)
        return Measured(self.error.one(scores), float(values[held].mean()) if held.any() else float("nan"))


def rows_of(batch: Batch) -> tuple[Any, Floats, Ints, Floats, tuple[Ints, Ints, Floats]]:
    """Rows, labels, borders, weights and preferences: what a block of the full-batch problem is made of.

    A list whose rows all count alike is scored, [1] (8): its labels are y, its weight is theirs. Any other
    holds preferences, [1] (9), and has weight 0 as a list. So EGDM reads a stream.

    [1] Large scale training methods for linear RankRLS (Airola, Pahikkala, Salakoski).
    """
    sizes, first = np.diff(batch.lists), batch.lists[:-1]
    alike = np.logical_and.reduceat(batch.c == np.repeat(batch.c[first], sizes), first)
    scored = (batch.mode >= SCORED) | ((batch.mode == BY_LABEL) & alike)
    weights = np.where(scored, np.where(batch.mode == BY_LABEL, batch.c[first], 1.0), 0.0)
    by_click = np.repeat(batch.mode == SCORED, sizes)
    X = csr_matrix((batch.values, batch.indices, batch.indptr), shape=(len(batch.y), batch.n_columns))
    pairs = preferences(batch.lists, *batch.arrays[4:], ~scored)
    return X, np.where(by_click, batch.y * batch.c, batch.y), batch.lists, weights, pairs


def chosen(batch: Batch, lists: Ints) -> Batch:
    """The lists named, in that order, empty ones left out."""
    return join_batches([batch.part(q, q + 1) for q in lists.tolist() if batch.lists[q] < batch.lists[q + 1]])


def grouped(batch: Batch) -> Batch:
    """Single examples of one query as one list, after the others; empty lists left out."""
    examples = np.flatnonzero(batch.mode == EXAMPLE)
    if not len(examples) and (np.diff(batch.lists) > 0).all():
        return batch
    others = chosen(batch, np.flatnonzero(batch.mode != EXAMPLE))
    if not len(examples):
        return others
    queries = [batch.queries[q] for q in examples]
    names, place = np.unique(queries, return_inverse=True)
    together = chosen(batch, examples[np.argsort(place, kind="stable")])
    borders = np.concatenate([[0], np.cumsum(np.bincount(place))])
    merged = together._replace(
        lists=borders,
        mode=np.full(len(names), EXAMPLE, np.int8),
        pairs=np.zeros(len(names) + 1, np.int64),
        queries=tuple(names.tolist()),
    )
    return join_batches([others, merged]) if others.n_lists else merged
