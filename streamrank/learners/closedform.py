"""Linear regression solved exactly, from statistics that add up."""

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np

from ..features.batch import Batch, Columns, Floats, Ints
from ..kernels.ridge import INTERCEPT, ROWS, SEEN, SINCE, TARGET, Sums, learn_lists, refresh, score, solve


class Solution(NamedTuple):
    """The weight of each column, and what is added to w'x."""

    w: Floats
    intercept: float


class ClosedForm:
    """The centred sums of all that was seen; see `streamrank.kernels.ridge`. All is state."""

    def __init__(self, lam: float, intercept: bool, columns: int) -> None:
        self.lam, self.intercept, self.columns = lam, intercept, columns
        self._sums = _nothing(8)
        self._changed = True

    def learn(self, batch: Batch, target: Floats, weight: Floats, out: Floats) -> None:
        """Learn the rows of each list in order, its scores before that into `out`."""
        self._grow(min(batch.n_columns, self.columns))
        rows = (batch.indptr, batch.indices, batch.values, batch.lists)
        learn_lists(*rows, target, weight, self._sums, self.lam, self.intercept, out)
        self._changed = self._changed or batch.n_lists > 0

    def scores(self, indptr: Ints, indices: Columns, values: Floats) -> Floats:
        """The score of each row as served now; changes nothing."""
        out = np.empty(len(indptr) - 1)
        score(indptr, indices, values, self._sums.w, float(self._sums.numbers[INTERCEPT]), out)
        return out

    def served(self) -> Solution:
        """What is served."""
        return Solution(self._sums.w.copy(), float(self._sums.numbers[INTERCEPT]))

    def solve(self, lam: float) -> Solution:
        """The exact optimum of all that was seen, under any ridge; changes nothing."""
        A, b, mean, _, numbers = self._sums
        w = solve(A, b, lam * float(numbers[ROWS]))
        return Solution(w, float(numbers[TARGET] - (w * mean).sum()))

    def _grow(self, n_columns: int) -> None:
        # the size follows from the largest column alone, so it is the same however batches fell
        size, old = -(-n_columns // 8) * 8, self._sums
        n = len(old.b)
        if size > n:
            self._sums = _nothing(size)
            self._sums.A[:n, :n] = old.A
            for mine, before in zip(self._sums[1:-1], old[1:-1], strict=True):
                mine[:n] = before
            self._sums.numbers[:] = old.numbers

    def to_state(self) -> dict[str, Any]:
        """The sums by name."""
        return self._sums._asdict()

    def from_state(self, state: Mapping[str, Any]) -> None:
        """Take up what `to_state` gave."""
        self._sums = Sums(*(np.array(state[name]) for name in Sums._fields))
        self._changed = False

    def dirty(self) -> dict[str, list[int] | None]:
        """The arrays whole, if a list was learnt."""
        names: dict[str, list[int] | None] = dict.fromkeys(Sums._fields) if self._changed else {}
        self._changed = False
        return names

    def merge(self, other: "ClosedForm", columns: Ints) -> None:
        """Add what another saw: exact. With means d apart, A has rows rows'/(rows + rows') d d' more."""
        n = min(len(columns), len(other._sums.b))
        keep = np.flatnonzero((columns[:n] >= 0) & (columns[:n] < self.columns))
        to = columns[keep]
        self._grow(int(to.max()) + 1 if len(to) else 0)
        A, b, mean, _, numbers = self._sums
        rows, more = float(numbers[ROWS]), float(other._sums.numbers[ROWS])
        if not more > 0:
            return
        A[np.ix_(to, to)] += other._sums.A[np.ix_(keep, keep)]
        b[to] += other._sums.b[keep]
        d = -mean
        d[to] += other._sums.mean[keep]
        e = float(other._sums.numbers[TARGET] - numbers[TARGET])
        apart = rows * more / (rows + more)
        A += apart * np.outer(d, d)
        b += apart * e * d
        mean += d * (more / (rows + more))
        numbers[TARGET] += e * (more / (rows + more))
        numbers[[ROWS, SEEN, SINCE]] += other._sums.numbers[[ROWS, SEEN, SINCE]]
        refresh(self._sums, self.lam)
        self._changed = True


def _nothing(size: int) -> Sums:
    b, mean, w = np.zeros((3, size))
    return Sums(np.zeros((size, size)), b, mean, w, np.zeros(5))
