"""What a ranker that steps once a list keeps and moves: the weights of a linear score."""

from collections.abc import Mapping
from typing import Any, Self

import numpy as np

from ..features.batch import Batch, Columns, Floats, Ints
from ..kernels.columns import (
    AVERAGE,
    FILLED,
    INTS,
    INVERSE,
    KEPT,
    LAST,
    M1,
    M2,
    PIVOT,
    SEEN,
    SIZE,
    SLOPE,
    SQUARE,
    TOTAL,
    TOUCHES,
    W,
)
from ..kernels.linear import learn_lists, score
from ..kernels.losses import Loss
from ..kernels.weights import BLOCK_BITS, Counts, Flags, Scratch, Steps, Weights, averaged, inverse_scales
from .base import StateEntries

COUNTS = {"last": LAST, "touches": TOUCHES, "seen": SEEN, "filled": FILLED}  # and where kernels have them
NUMBERS = {"w": W, "m1": M1, "m2": M2, "average": AVERAGE, "pivot": PIVOT, "total": TOTAL, "square": SQUARE}


class LinearScorer:
    """Scores w'x of scaled columns, served as a running average of w."""

    def __init__(self, steps: Steps) -> None:
        self.steps = steps
        self.step = 0
        self.refused = 0
        self._keep(self._no_weights(16))
        self.scratch.dirty[:] = 1  # nothing of a new learner is stored yet

    def learn(self, batch: Batch, loss: Loss) -> Floats:
        """Learn each list in order; returns the score each row had just before its list was learnt."""
        out, done = np.empty(len(batch.y)), 0
        number, knob, song, chains, visit, sample, generator = loss
        how: tuple[Any, ...] = (*self.steps, number, knob, *song, *chains, *visit, sample, generator)
        while done < batch.n_lists:
            kept: tuple[Any, ...] = (self._floats, self._counts, self._held, self._dirty)
            stands = (self.step, self.refused, done, out)
            self.step, self.refused, done = learn_lists(*batch.arrays, *kept, *how, *stands)  # type: ignore[call-arg]
            if done < batch.n_lists:  # to look through all columns first would cost too much
                first, end = batch.indptr[batch.lists[done : done + 2]]
                self.grow(int(batch.indices[first:end].max()) + 1)
        return out

    def scores(self, indptr: Ints, indices: Columns, values: Floats) -> Floats:
        """The served score of each row; changes nothing."""
        out = np.empty(len(indptr) - 1)
        score(indptr, indices, values, self._floats, self._counts, self.step, self.steps.horizon, out)
        return out

    def shares(self, indptr: Ints, indices: Columns, values: Floats) -> Floats:  # noqa: ARG002
        """The share of each stored value in its row's score."""
        # every value as a row of its own: the score of such a row is its share
        return self.scores(np.arange(len(values) + 1), indices, values)

    def served(self) -> Floats:
        """The weight of each column on raw (unscaled) values, as served now."""
        return averaged(self.weights, self.step, self.steps.horizon) * self.scratch.inverse

    def take(self, w: Floats) -> None:
        """Serve these and step on from them: both the last weights and their average become w.

        A column whose values were all alike has no scale, and keeps its weight of 0.
        """
        self.grow(len(w))
        inverse = self.scratch.inverse
        given = np.concatenate([w, np.zeros(len(inverse) - len(w))])
        scaled = np.divide(given, inverse, out=np.zeros_like(given), where=inverse > 0)
        self.weights.w[:], self.weights.average[:] = scaled, scaled
        self.scratch.dirty[:] = 1

    def grow(self, n_columns: int) -> None:
        """Make room for so many columns."""
        # the size follows from the largest column alone, so it is the same however batches fell
        size = len(self.weights.w)
        if n_columns > size:
            fresh = self._no_weights((1 << (n_columns - 1).bit_length()) - size)
            dirty = self.scratch.dirty
            both = zip(self.weights, fresh, strict=True)
            self._keep(Weights(*(np.concatenate([old, new]) for old, new in both)))
            self.scratch.dirty[:] = 1
            self.scratch.dirty[: len(dirty)] |= dirty

    # -- state ---------------------------------------------------------------------------------------------

    def to_state(self) -> StateEntries:
        """Weights, moments, averages and column sums by name; the steps made."""
        return {**self.weights._asdict(), "step": self.step, "refused": self.refused}

    def from_state(self, state: Mapping[str, Any]) -> None:
        """Take up what `to_state` gave."""
        if "filled" not in state:  # once zeros were not counted apart; without a pivot there is nothing else
            state = {**state, "filled": np.where(np.array(state["pivot"]) == 0.0, 0, state["seen"])}
        self._keep(Weights(*(np.array(state[name]) for name in Weights._fields)))
        self.step, self.refused = int(state["step"]), int(state["refused"])

    def dirty(self) -> dict[str, list[int] | None]:
        """The blocks of the arrays that changed, and the small entries."""
        blocks = np.flatnonzero(self.scratch.dirty).tolist()
        self.scratch.dirty[:] = 0
        names: dict[str, list[int] | None] = dict.fromkeys(Weights._fields, blocks) if blocks else {}
        return names | dict.fromkeys(["step", "refused"])

    def merge(self, other: Self, columns: Ints) -> None:
        """As `LinearRanker.merge`; ``columns[j]`` is the column here of the other's column j."""
        self.refused += other.refused
        if other.step == 0 and not other.weights.seen.any():
            return
        self.grow(int(columns.max()) + 1 if len(columns) else 0)
        mine, here = self.weights, self.scratch.inverse.copy()
        theirs = self._moved(other.weights, columns, len(mine.w))
        there = inverse_scales(theirs)
        _add_sums(mine, theirs)
        merged = inverse_scales(mine)
        touches = np.maximum(mine.touches + theirs.touches, 1)
        shape = (-1,) + (1,) * (mine.w.ndim - 1)  # a column may have a row of weights
        a, b = (mine.touches / touches).reshape(shape), (theirs.touches / touches).reshape(shape)
        to, by = (here / merged).reshape(shape), (there / merged).reshape(shape)
        served = averaged(mine, self.step, self.steps.horizon)
        theirs_served = averaged(theirs, other.step, other.steps.horizon)
        mine.average[:] = a * served * to + b * theirs_served * by
        mine.w[:] = a * mine.w * to + b * theirs.w * by
        mine.m1[:] = a * mine.m1 + b * theirs.m1
        mine.m2[:] = a * mine.m2 + b * theirs.m2
        mine.touches[:] += theirs.touches
        self.step += other.step
        mine.last[:] = np.where(mine.touches > 0, self.step, 0)
        self._keep(mine)
        self.scratch.dirty[:] = 1

    def _keep(self, weights: Weights) -> None:
        """Go on from these, laid out as the kernel takes them: fewer arrays to hand over a list."""
        size = len(weights.w)
        self._floats, self._counts = np.zeros((KEPT, size)), np.zeros((INTS, size), np.int64)
        for table, rows in ((self._floats, NUMBERS), (self._counts, COUNTS)):
            for name, row in rows.items():
                table[row] = getattr(weights, name)
        self._floats[INVERSE] = inverse_scales(weights)
        self._held, self._dirty = unheld(size)

    @property
    def weights(self) -> Weights:
        """What is kept of each column: views, made anew each time, as a deep copy of views would be apart."""
        views = {name: self._counts[row] for name, row in COUNTS.items()}
        return Weights(**views, **{name: self._floats[row] for name, row in NUMBERS.items()})

    @property
    def scratch(self) -> Scratch:
        """What follows from it; views too."""
        return Scratch(
            self._floats[INVERSE], self._floats[SLOPE], self._floats[SIZE], self._held, self._dirty
        )

    def _no_weights(self, size: int) -> Weights:
        return Weights(
            **{name: np.zeros(size, dtype=np.int64 if name in COUNTS else float) for name in Weights._fields}
        )

    def _moved(self, weights: Weights, columns: Ints, size: int) -> Weights:
        # names can be known here that no list has held yet, so either side may be the longer one
        moved = self._no_weights(size)
        n = min(len(columns), len(weights.w))
        keep = columns[:n] >= 0
        for old, new in zip(weights, moved, strict=True):
            new[columns[:n][keep]] = old[:n][keep]
        return moved


def unheld(n: int) -> tuple[Counts, Flags]:
    """Of n columns none is held by a list, no block has changed."""
    return np.zeros(n, np.int32), np.zeros(-(-n // (1 << BLOCK_BITS)), np.uint8)


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
    mine.filled[:] += other.filled
