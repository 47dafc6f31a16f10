"""What EGDM is where H would not fit: weights of any number of columns, moved once a micro-batch of rows."""

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np

from ..features.batch import Batch, Columns, Floats, Ints
from ..kernels.microslopes import (
    BATCHES,
    BLOCK_BITS,
    CLOCK,
    HELD,
    HELD2,
    KAPPA_1,
    LENGTH2,
    LONGEST,
    ROWS,
    SCALE,
    SEEN,
    STEP,
    UNIT,
    Scratch,
)
from ..kernels.microstep import close
from ..kernels.resting import Weights, score, weights_now
from .openlists import OpenLists

SUMS = (ROWS, SEEN, HELD)


class Settings(NamedTuple):
    """How the steps are made; see `streamrank.kernels.microstep`."""

    lam: float
    rho: float
    scale: bool
    rate: float
    batch: int
    plain: bool


class MicroBatches:
    """Weights, their memory, the sums behind them, and the micro-batch that is not full yet; all is state.

    The border of a batch falls behind the list that brings it to `batch` rows, so it depends on the order of
    the lists alone.
    """

    def __init__(self, settings: Settings) -> None:
        self.settings = settings
        self.numbers = np.zeros(12)
        self.numbers[[UNIT, SCALE]] = 1.0
        self._weights = _no_weights(16)
        self._scratch = _scratch(16)
        self._scratch.dirty[:] = 1  # nothing of a new learner is stored yet
        self._open = OpenLists()
        self._changed = True

    def start_from(self, w: Floats, diagonal: Floats, rows: float) -> None:
        """Go on from weights learnt by statistics; `diagonal` is that of H, with the weighted rows in it.

        How many values a column had is not known any more. As if every row had one, rows still have a length
        of about 1. G is such that a step along a column is that of Newton, over the batches seen: the next
        batch is one more beside those, and does not shake what they taught. (An empty G did: on MQ2007 the
        error went from .320 to .352 in the 40 lists after the change.)
        """
        self._grow(len(w))
        used = diagonal > 0
        n_used, n_batches = np.count_nonzero(used), rows / self.settings.batch
        steepness = (
            n_used * diagonal / max(rows, 1.0)
        )  # at least the largest eigenvalue, were all columns alike
        q = (
            np.sqrt(np.divide(1.0, steepness, out=np.zeros_like(w), where=used))
            if self.settings.scale
            else 1.0
        )
        self._weights.memory[: len(w)] = (self.settings.rate * n_batches * steepness * q) ** 2
        self._weights.w[: len(w)] = w
        self._weights.square[: len(w)] = diagonal
        self._weights.held[: len(w)] = np.where(used, rows, 0.0)
        self.numbers[[ROWS, SEEN, HELD, HELD2]] = rows, rows, rows * n_used, rows * rows * n_used

    def learn(self, batch: Batch, out: Floats) -> int:
        """Learn each list in order, its scores before that into `out`; returns how many were refused."""
        self._grow(batch.n_columns)
        refused = q = 0
        while q < batch.n_lists:
            # the fewest lists that can fill the batch: if all are taken, it is full behind the last of them
            room = max(self.settings.batch - self._open.n_rows, 1)
            end = int(np.searchsorted(batch.lists, batch.lists[q] + room))
            end = min(max(end, q + 1), batch.n_lists)
            refused += self._open.take(batch, q, end, self._weights, float(self.numbers[CLOCK]), out)
            if self._open.n_rows >= self.settings.batch:
                refused += self._close()
            q = end
        self._changed = self._changed or batch.n_lists > 0
        return refused

    def _close(self) -> int:
        n_lists, (group, n_groups) = self._open.n_lists, self._open.groups()
        lam, rho, scale, rate, _, plain = self.settings
        moved = close(
            self._open.lists,
            group,
            n_groups,
            self._weights,
            self._scratch,
            self.numbers,
            lam,
            rate,
            rho,
            scale,
            plain,
        )
        self._open.clear()
        return 0 if moved else n_lists

    def scores(self, indptr: Ints, indices: Columns, values: Floats) -> Floats:
        """The score of each row as served now; changes nothing."""
        out = np.empty(len(indptr) - 1)
        score(indptr, indices, values, self._weights, float(self.numbers[CLOCK]), out)
        return out

    def served_weights(self) -> Floats:
        """The weight of each column, as served now."""
        return weights_now(self._weights, float(self.numbers[CLOCK]))

    def take_weights(self, w: Floats) -> None:
        """Serve these and step on from them; G, the sums and the open batch stay."""
        self._grow(len(w))
        self._weights.w[:] = 0.0
        self._weights.w[: len(w)] = w
        self._weights.mark[:] = self.numbers[CLOCK]
        self._scratch.dirty[:] = 1

    @property
    def kappa_1(self) -> float:
        """The largest eigenvalue, a row, as the plain step knows it; NaN for AdaGrad."""
        return float(self.numbers[KAPPA_1]) if self.settings.plain else np.nan

    @property
    def step(self) -> float:
        """The length of the last plain step; of AdaGrad what it is at first."""
        return float(self.numbers[STEP]) if self.settings.plain else self.settings.rate

    def _grow(self, n_columns: int) -> None:
        # the size follows from the largest column alone, so it is the same however batches fell
        size = len(self._weights.w)
        if n_columns > size:
            longer = 1 << (n_columns - 1).bit_length()
            fresh = _no_weights(longer - size)
            self._weights = Weights(
                *(np.concatenate([old, new]) for old, new in zip(self._weights, fresh, strict=True))
            )
            dirty = self._scratch.dirty
            self._scratch = _scratch(longer)
            self._scratch.dirty[:] = 1
            self._scratch.dirty[: len(dirty)] |= dirty

    # -- state ---------------------------------------------------------------------------------------------

    def to_state(self) -> dict[str, Any]:
        """The weights and what lies behind them, by name; the open batch."""
        return {
            **self._weights._asdict(),
            "sums": self.numbers,
            **self._open.to_state(),
        }

    def from_state(self, state: Mapping[str, Any]) -> None:
        """Take up what `to_state` gave."""
        self._weights = Weights(*(np.array(state[name]) for name in Weights._fields))
        self._scratch = _scratch(len(self._weights.w))
        self.numbers = np.array(state["sums"])
        self._open.from_state(state)
        self._changed = False

    def dirty(self) -> dict[str, list[int] | None]:
        """The blocks of the weights that changed; the open batch and the sums if a list came."""
        names: dict[str, list[int] | None] = {}
        blocks = np.flatnonzero(self._scratch.dirty).tolist()
        self._scratch.dirty[:] = 0
        if blocks:
            names |= dict.fromkeys(Weights._fields, blocks)
        if self._changed:
            names |= dict.fromkeys(["sums", *self._open.to_state()])
        self._changed = False
        return names

    def merge(self, other: "MicroBatches", columns: Ints) -> None:
        """Average the weights of two shards; the sums add, the open batches are put together.

        Each column counts by the values it had on either side, so what only one shard knows stays as it is.
        An open batch that is now over-full is closed by the next list.
        """
        n = min(len(columns), len(other._weights.w))
        keep = np.flatnonzero(columns[:n] >= 0)
        to = columns[keep]
        self._grow(int(to.max()) + 1 if len(to) else 0)
        mine, theirs = self._weights, _no_weights(len(self._weights.w))
        for old, new in zip(other._weights, theirs, strict=True):
            new[to] = old[keep]
        theirs.w[to] = other.served_weights()[keep]
        here, there = float(self.numbers[ROWS]), float(other.numbers[ROWS] / other.numbers[UNIT])
        unit = float(self.numbers[UNIT])
        ratio = unit / float(other.numbers[UNIT])  # theirs, in what mine are measured by
        held = mine.held + ratio * theirs.held
        share = np.divide(mine.held, held, out=np.ones_like(held), where=held > 0)
        mine.w[:] = share * self.served_weights() + (1.0 - share) * theirs.w
        mine.mark[:] = self.numbers[CLOCK]
        mine.held[:] = held
        mine.square[:] += ratio * theirs.square
        if self.settings.plain:
            self._merge_power(other, theirs, here / max(here + unit * there, 1e-300))
        else:
            mine.memory[:] += ratio * theirs.memory
            mine.rest[:] = _together(mine.rest, theirs.rest)
        self.numbers[list(SUMS)] += ratio * other.numbers[list(SUMS)]
        self.numbers[HELD2] = (held * held).sum()
        self.numbers[BATCHES] += other.numbers[BATCHES]
        places = np.full(len(other._weights.w), -1, dtype=np.int64)
        places[keep] = to
        self._open.append(other._open, places)
        self._scratch.dirty[:] = 1
        self._changed = True

    def _merge_power(self, other: "MicroBatches", theirs: Weights, share: float) -> None:
        memory, numbers = self._weights.memory, self.numbers
        memory[:] *= share * numbers[SCALE]
        memory[:] += (1.0 - share) * other.numbers[SCALE] * theirs.memory
        self._weights.rest[:] = np.maximum(self._weights.rest, theirs.rest)
        numbers[SCALE] = 1.0
        numbers[LENGTH2] = float(memory @ memory)
        numbers[KAPPA_1] = np.sqrt(numbers[LENGTH2])
        numbers[LONGEST] = max(numbers[LONGEST], other.numbers[LONGEST])


def _together(one: Floats, two: Floats) -> Floats:
    # a weight at rest shrinks by 1/sqrt(G), and the sums G add up; 0: never touched
    a, b = (np.divide(1.0, rest, out=np.zeros_like(rest), where=rest > 0) for rest in (one, two))
    size = np.hypot(a, b)
    return np.divide(1.0, size, out=np.zeros_like(size), where=size > 0)


def _no_weights(size: int) -> Weights:
    return Weights(*(np.zeros(size) for _ in Weights._fields))


def _scratch(size: int) -> Scratch:
    blocks = -(-size // (1 << BLOCK_BITS))
    return Scratch(np.full(size, -1, dtype=np.int32), np.zeros(blocks, dtype=np.uint8))
