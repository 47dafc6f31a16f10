"""The chassis of rankers that step once a list, linear or with a hidden layer: interface, state, merging."""

import math
from collections.abc import Mapping
from typing import Any, ClassVar, Self

import numpy as np

from ..errors import ConfigError
from ..features.batch import EXAMPLE, Batch, Floats, Ints
from ..kernels.losses import Loss
from ..kernels.losses.song import SongSettings
from ..kernels.weights import Steps
from .base import Ranker, StateEntries
from .checking import whole
from .examples import RecentExamples
from .hidden import HiddenScorer
from .keyed import NO_CHAINS, NO_VISIT
from .scorer import LinearScorer

MOST_UNITS = 4096  # a column takes 32 bytes a unit
NO_SONG = SongSettings(1.0, 1.0, 0.0, 0.1, 1e-4, 0.1, 0.9, False)


class LinearRanker(Ranker):
    """Scores w'x, or of one hidden layer, learnt by Adam one step a list and served as a running average.

    Parameters
    ----------
    rate
        Step size of Adam, > 0. Lower it when the prequential metric jumps about.
    horizon
        Steps over which the served weights are averaged once the stream is long (before that: about the last
        half of it). 1 serves the last iterate; lower it where taste moves fast.
    scale
        Divide each column by its running spread, so that prices in thousands and rates below one learn alike.
    hidden
        Units of a hidden layer, at most 4096; 0: none, the score is linear.
    """

    _loss: ClassVar[int]  # its number in `streamrank.kernels.losses`
    _knob = 0.0  # its temperature, if it has one
    _adam = True  # False: momentum alone

    def __init__(
        self,
        rate: float = 0.01,
        horizon: int = 5000,
        scale: bool = True,
        hidden: int = 0,
    ) -> None:
        super().__init__()
        if isinstance(rate, bool) or not isinstance(rate, int | float) or not 0 < rate < math.inf:
            raise ConfigError(f"rate is {rate!r}: a step size is a number above 0 (0.01 is the default)")
        if isinstance(horizon, bool) or not isinstance(horizon, int) or horizon < 1:
            raise ConfigError(
                f"horizon is {horizon!r}: a whole number of steps, at least 1 (1 turns the average off)"
            )
        if not isinstance(scale, bool):
            raise ConfigError(f"scale is {scale!r}: true or false")
        self.rate, self.horizon, self.scale = rate, whole("horizon", horizon), scale
        self.hidden = whole("hidden", hidden, 0, MOST_UNITS)
        self._examples = RecentExamples()
        steps = Steps(float(rate), self._adam, horizon, scale)
        self._scorer = HiddenScorer(steps, hidden) if hidden else LinearScorer(steps)

    def learn_batch(self, batch: Batch) -> Floats:
        """Learn each list in order; returns the score each row had just before its list was learnt."""
        if EXAMPLE in batch.mode.tobytes():  # of bytes: a tenth of the time for one list
            expanded, positions = self._examples.expand(batch)
            return self._scorer.learn(expanded, self._loss_of(expanded))[positions]
        return self._scorer.learn(batch, self._loss_of(batch))

    def _loss_of(self, batch: Batch) -> Loss:  # noqa: ARG002
        """The loss, and what it remembers of the lists of a batch; most remember nothing."""
        return Loss(self._loss, self._knob, NO_SONG, NO_CHAINS, NO_VISIT)

    def scores(self, batch: Batch) -> Floats:
        """The score of each row as served now; changes nothing."""
        return self._scorer.scores(batch.indptr, batch.indices, batch.values)

    def explain_columns(self, batch: Batch) -> Floats:
        """The share of each stored value in its row's score; of hidden units, what it would lose without."""
        return self._scorer.shares(batch.indptr, batch.indices, batch.values)

    def served_weights(self) -> Floats:
        """The weight of each column on raw (unscaled) values, as served now."""
        return self._scorer.served()

    def take_weights(self, w: Floats) -> None:
        """Serve these and step on from them: both the last weights and their average become w.

        A column whose values were all alike has no scale, and keeps its weight of 0.
        """
        self._scorer.take(w)

    # -- state ---------------------------------------------------------------------------------------------

    def to_state(self) -> StateEntries:
        """Weights, moments, averages and column sums by name; the steps made; names and recent examples."""
        return {**self._scorer.to_state(), **self._columns.to_state(), **self._examples.to_state()}

    def from_state(self, state: Mapping[str, Any]) -> None:
        """Take up what `to_state` gave."""
        self._scorer.from_state(state)
        self._take_names(state)
        self._examples.from_state(state)

    def dirty(self) -> dict[str, list[int] | None]:
        """The blocks of the arrays that changed, and every small entry that did."""
        return self._scorer.dirty() | dict.fromkeys([*self._columns.dirty(), *self._examples.dirty()])

    def merge(self, other: Self, columns: Ints | None = None) -> None:
        """Average the weights of two shards; the column sums add.

        Each column counts by the steps that moved it on either side, so what only one shard knows stays as it
        is. Weights are averaged on raw values and put back on the merged scale. Merging an untrained learner
        changes nothing, and the order of two does not matter.
        """
        if columns is None:
            theirs = [name for block in other._columns.to_state().values() for name in block]
            columns = np.array([self._columns.add(name) for name in theirs], dtype=np.int64)
            if not theirs:
                columns = np.arange(len(other._scorer.weights.w), dtype=np.int64)
        self._scorer.merge(other._scorer, columns)
