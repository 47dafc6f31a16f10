"""Linear regression by one step a row."""

from collections.abc import Mapping
from typing import Any

import numpy as np

from ..features.batch import Batch, Columns, Floats, Ints
from ..kernels.descent import AVERAGE, INTERCEPT, STEPS, Weights, averages, learn_lists, score
from ..kernels.weights import BLOCK_BITS
from .closedform import Solution


class Descent:
    """The last weights and their running average; see `streamrank.kernels.descent`. All is state."""

    def __init__(self, lam: float, rate: float, horizon: int, intercept: bool) -> None:
        self.lam, self.rate, self.horizon, self.intercept = lam, rate, horizon, intercept
        self._weights = _no_weights(16)
        self._numbers = np.zeros(3)
        self._dirty = np.ones(1, dtype=np.uint8)  # nothing of a new learner is stored yet

    def learn(self, batch: Batch, target: Floats, weight: Floats, out: Floats) -> None:
        """Learn the rows of each list in order, its scores before that into `out`."""
        self._grow(batch.n_columns)
        rows = (batch.indptr, batch.indices, batch.values, batch.lists)
        settings = (self.lam, self.rate, self.horizon, self.intercept)
        learn_lists(*rows, target, weight, self._weights, self._numbers, self._dirty, *settings, out)

    def scores(self, indptr: Ints, indices: Columns, values: Floats) -> Floats:
        """The score of each row as served now; changes nothing."""
        out = np.empty(len(indptr) - 1)
        score(indptr, indices, values, self._weights, self._numbers, self.horizon, out)
        return out

    def served(self) -> Solution:
        """What is served."""
        now = averages(self._weights, int(self._numbers[STEPS]), self.horizon)
        return Solution(now, float(self._numbers[AVERAGE]))

    def _grow(self, n_columns: int) -> None:
        # the size follows from the largest column alone, so it is the same however batches fell
        size = len(self._weights.w)
        if n_columns > size:
            longer = 1 << (n_columns - 1).bit_length()
            fresh = _no_weights(longer - size)
            both = zip(self._weights, fresh, strict=True)
            self._weights = Weights(*(np.concatenate(pair) for pair in both))
            self._dirty = np.ones(-(-longer // (1 << BLOCK_BITS)), dtype=np.uint8)

    def to_state(self) -> dict[str, Any]:
        """The weights and the intercept by name."""
        return {**self._weights._asdict(), "numbers": self._numbers}

    def from_state(self, state: Mapping[str, Any]) -> None:
        """Take up what `to_state` gave."""
        self._weights = Weights(*(np.array(state[name]) for name in Weights._fields))
        self._numbers = np.array(state["numbers"])
        self._dirty = np.zeros(-(-len(self._weights.w) // (1 << BLOCK_BITS)), dtype=np.uint8)

    def dirty(self) -> dict[str, list[int] | None]:
        """The blocks of the weights that changed, and the numbers."""
        blocks = np.flatnonzero(self._dirty).tolist()
        self._dirty[:] = 0
        names: dict[str, list[int] | None] = dict.fromkeys(Weights._fields, blocks) if blocks else {}
        return {**names, "numbers": None}

    def merge(self, other: "Descent", columns: Ints) -> None:
        """Average two shards, each column by the steps that moved it on either side."""
        n = min(len(columns), len(other._weights.w))
        keep = np.flatnonzero(columns[:n] >= 0)
        to = columns[keep]
        self._grow(int(to.max()) + 1 if len(to) else 0)
        mine, step = self._weights, int(self._numbers[STEPS])
        w, average = np.zeros((2, len(mine.w)))
        touches = np.zeros(len(mine.w), dtype=np.int64)
        touches[to] = other._weights.touches[keep]
        w[to], average[to] = other._weights.w[keep], other.served().w[keep]
        share = mine.touches / np.maximum(mine.touches + touches, 1)
        mine.average[:] = share * self.served().w + (1.0 - share) * average
        mine.w[:] = share * mine.w + (1.0 - share) * w
        mine.touches[:] += touches
        more = int(other._numbers[STEPS])
        part = more / max(step + more, 1)
        for at in (INTERCEPT, AVERAGE):
            self._numbers[at] += part * (other._numbers[at] - self._numbers[at])
        self._numbers[STEPS] = step + more
        mine.last[:] = np.where(mine.touches > 0, step + more, 0)
        self._dirty[:] = 1


def _no_weights(size: int) -> Weights:
    counts = ("last", "touches")
    return Weights(
        **{name: np.zeros(size, dtype=np.int64 if name in counts else float) for name in Weights._fields}
    )
