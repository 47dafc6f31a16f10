"""The chassis of linear rankers that step once a list: weights, column scales, state, merging."""

import math
from collections.abc import Mapping
from typing import Any, ClassVar, Self

import numpy as np

from ..errors import ConfigError
from ..features.batch import EXAMPLE, Batch, Floats, Ints
from ..kernels.keyed import Chains, Visit
from ..kernels.linear import BLOCK_BITS, Scratch, Weights, averaged, inverse_scales, learn_lists, score
from ..kernels.losses.song import SongSettings
from .base import Ranker, StateEntries
from .examples import RecentExamples
from .keyed import NO_CHAINS, NO_VISIT

NO_SONG = SongSettings(1.0, 1.0, 0.0, 0.1, 1e-4, 0.1, 0.9, False)


class LinearRanker(Ranker):
    """Scores w'x, learnt by Adam one step a list and served as a running average of w.

    Parameters
    ----------
    rate
        Step size of Adam, > 0. Lower it when the prequential metric jumps about.
    horizon
        Steps over which the served weights are averaged once the stream is long (before that: about the last
        half of it). 1 serves the last iterate; lower it where taste moves fast.
    scale
        Divide each column by its running spread, so that prices in thousands and rates below one learn alike.
    """

    _loss: ClassVar[int]  # its number in `streamrank.kernels.losses`
    _knob = 0.0  # its temperature, if it has one
    _adam = True  # False: momentum alone

    def __init__(self, rate: float = 0.01, horizon: int = 5000, scale: bool = True) -> None:
        super().__init__()
        if isinstance(rate, bool) or not isinstance(rate, int | float) or not 0 < rate < math.inf:
            raise ConfigError(f"rate is {rate!r}: a step size is a number above 0 (0.01 is the default)")
        if isinstance(horizon, bool) or not isinstance(horizon, int) or horizon < 1:
            raise ConfigError(
                f"horizon is {horizon!r}: a whole number of steps, at least 1 (1 turns the average off)"
            )
        if not isinstance(scale, bool):
            raise ConfigError(f"scale is {scale!r}: true or false")
        self.rate, self.horizon, self.scale = rate, horizon, scale
        self._examples = RecentExamples()
        self._step = 0
        self._refused = 0
        self._weights = _no_weights(16)
        self._scratch = _scratch(self._weights)
        self._scratch.dirty[:] = 1  # nothing of a new learner is stored yet

    def learn_batch(self, batch: Batch) -> Floats:
        """Learn each list in order; returns the score each row had just before its list was learnt."""
        if EXAMPLE in batch.mode:
            expanded, positions = self._examples.expand(batch)
            return self._learn_lists(expanded)[positions]
        return self._learn_lists(batch)

    def _memory(self, batch: Batch) -> tuple[SongSettings, Chains, Visit]:  # noqa: ARG002
        """What a loss with a memory finds there; most have none."""
        return NO_SONG, NO_CHAINS, NO_VISIT

    def _learn_lists(self, batch: Batch) -> Floats:
        self._grow(batch.n_columns)
        out = np.empty(len(batch.y))
        self._step, self._refused = learn_lists(
            *batch.arrays,
            self._weights,
            self._scratch,
            self._step,
            self._refused,
            float(self.rate),
            self._adam,
            self.horizon,
            self.scale,
            self._loss,
            self._knob,
            *self._memory(batch),
            out,
        )
        return out

    def scores(self, batch: Batch) -> Floats:
        """The score of each row as served now; changes nothing."""
        out = np.empty(len(batch.y))
        score(
            batch.indptr,
            batch.indices,
            batch.values,
            self._weights,
            self._scratch.inverse,
            self._step,
            self.horizon,
            out,
        )
        return out

    def explain_columns(self, batch: Batch) -> Floats:
        """The share of each stored value in its row's score."""
        # every value as a row of its own: the score of such a row is its share
        shares = np.empty(len(batch.values))
        score(
            np.arange(len(shares) + 1),
            batch.indices,
            batch.values,
            self._weights,
            self._scratch.inverse,
            self._step,
            self.horizon,
            shares,
        )
        return shares

    def served_weights(self) -> Floats:
        """The weight of each column on raw (unscaled) values, as served now."""
        return averaged(self._weights, self._step, self.horizon) * self._scratch.inverse

    def take_weights(self, w: Floats) -> None:
        """Serve these and step on from them: both the last weights and their average become w.

        A column whose values were all alike has no scale, and keeps its weight of 0.
        """
        self._grow(len(w))
        inverse = self._scratch.inverse
        given = np.concatenate([w, np.zeros(len(inverse) - len(w))])
        scaled = np.divide(given, inverse, out=np.zeros_like(given), where=inverse > 0)
        self._weights.w[:], self._weights.average[:] = scaled, scaled
        self._scratch.dirty[:] = 1

    def _grow(self, n_columns: int) -> None:
        # the size follows from the largest column alone, so it is the same however batches fell
        size = len(self._weights.w)
        if n_columns > size:
            more = (1 << (n_columns - 1).bit_length()) - size
            fresh = _no_weights(more)
            self._weights = Weights(
                *(np.concatenate([old, new]) for old, new in zip(self._weights, fresh, strict=True))
            )
            dirty = self._scratch.dirty
            self._scratch = _scratch(self._weights)
            self._scratch.dirty[:] = 1
            self._scratch.dirty[: len(dirty)] |= dirty

    # -- state ---------------------------------------------------------------------------------------------

    def to_state(self) -> StateEntries:
        """Weights, moments, averages and column sums by name; the steps made; names and recent examples."""
        return {
            **self._weights._asdict(),
            "step": self._step,
            "refused": self._refused,
            **self._columns.to_state(),
            **self._examples.to_state(),
        }

    def from_state(self, state: Mapping[str, Any]) -> None:
        """Take up what `to_state` gave."""
        self._weights = Weights(*(np.array(state[name]) for name in Weights._fields))
        self._scratch = _scratch(self._weights)
        self._step, self._refused = int(state["step"]), int(state["refused"])
        self._take_names(state)
        self._examples.from_state(state)

    def dirty(self) -> dict[str, list[int] | None]:
        """The blocks of the arrays that changed, and every small entry that did."""
        blocks = np.flatnonzero(self._scratch.dirty).tolist()
        self._scratch.dirty[:] = 0
        names: dict[str, list[int] | None] = dict.fromkeys(Weights._fields, blocks) if blocks else {}
        names |= dict.fromkeys(["step", "refused", *self._columns.dirty(), *self._examples.dirty()])
        return names

    def merge(self, other: Self, columns: Ints | None = None) -> None:
        """Average the weights of two shards; the column sums add.

        Each column counts by the steps that moved it on either side, so what only one shard knows stays as it
        is. Weights are averaged on raw values and put back on the merged scale. Merging an untrained learner
        changes nothing, and the order of two does not matter.
        """
        self._refused += other._refused
        if columns is None:
            theirs = [name for block in other._columns.to_state().values() for name in block]
            columns = np.array([self._columns.add(name) for name in theirs], dtype=np.int64)
            if not theirs:
                columns = np.arange(len(other._weights.w), dtype=np.int64)
        if other._step == 0 and not other._weights.seen.any():
            return
        self._grow(int(columns.max()) + 1 if len(columns) else 0)
        mine, here = self._weights, self._scratch.inverse.copy()
        other_weights = _moved(other._weights, columns, len(mine.w))
        there = inverse_scales(other_weights)
        _add_sums(mine, other_weights)
        merged = inverse_scales(mine)
        touches = np.maximum(mine.touches + other_weights.touches, 1)
        a, b = mine.touches / touches, other_weights.touches / touches
        served = averaged(mine, self._step, self.horizon)
        theirs_served = averaged(other_weights, other._step, other.horizon)
        mine.average[:] = (a * served * here + b * theirs_served * there) / merged
        mine.w[:] = (a * mine.w * here + b * other_weights.w * there) / merged
        mine.m1[:] = a * mine.m1 + b * other_weights.m1
        mine.m2[:] = a * mine.m2 + b * other_weights.m2
        mine.touches[:] += other_weights.touches
        self._step += other._step
        mine.last[:] = np.where(mine.touches > 0, self._step, 0)
        self._scratch = _scratch(mine)
        self._scratch.dirty[:] = 1


def _no_weights(size: int) -> Weights:
    counts = ("last", "touches", "seen")
    return Weights(
        **{name: np.zeros(size, dtype=np.int64 if name in counts else float) for name in Weights._fields}
    )


def _scratch(weights: Weights) -> Scratch:
    size = len(weights.w)
    return Scratch(
        inverse=inverse_scales(weights),
        gradient=np.zeros(size),
        bulk=np.zeros(size),
        held=np.zeros(size, dtype=np.int32),
        dirty=np.zeros(-(-size // (1 << BLOCK_BITS)), dtype=np.uint8),
    )


def _moved(weights: Weights, columns: Ints, size: int) -> Weights:
    # names can be known here that no list has held yet, so either side may be the longer one
    moved = _no_weights(size)
    n = min(len(columns), len(weights.w))
    keep = columns[:n] >= 0
    for old, new in zip(weights, moved, strict=True):
        new[columns[:n][keep]] = old[:n][keep]
    return moved


def _add_sums(mine: Weights, other: Weights) -> None:
    """Move their sums to my pivot: with D = theirs - mine, total + n D and square + 2 D total + n D D."""
    new = mine.pivot == 0  # zeros only, if any: their sums about the other's pivot
    mine.pivot[new] = other.pivot[new]
    mine.total[new] = -mine.seen[new] * mine.pivot[new]
    mine.square[new] = mine.seen[new] * mine.pivot[new] ** 2
    d = other.pivot - mine.pivot
    mine.square[:] += other.square + 2.0 * d * other.total + other.seen * d * d
    mine.total[:] += other.total + other.seen * d
    mine.seen[:] += other.seen
