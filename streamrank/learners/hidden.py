"""The weights of a score with one hidden layer."""

import math
from collections.abc import Mapping
from typing import Any, Self

import numpy as np

from ..errors import ConfigError
from ..features.batch import Batch, Columns, Floats, Ints
from ..kernels.hidden import Units, first_units, learn_hidden, score_hidden, shares_hidden
from ..kernels.losses import Loss
from ..kernels.weights import Steps, Weights
from .base import StateEntries
from .scorer import COUNTS, LinearScorer

ROWS = ("w", "m1", "m2", "average")  # of each column a row, one entry a unit


class HiddenScorer(LinearScorer):
    """Scores sum_h v_h a(b_h + W_h'x), served as a running average of all (`streamrank.kernels.hidden`)."""

    def __init__(self, steps: Steps, n_units: int) -> None:
        self.n_units = n_units
        self.units = first_units(n_units)
        # a unit more moves the score more: so that a step counts as without, whatever their number
        super().__init__(steps._replace(rate=steps.rate / math.sqrt(n_units)))

    def learn(self, batch: Batch, loss: Loss) -> Floats:
        """Learn each list in order; returns the score each row had just before its list was learnt."""
        self.grow(batch.n_columns)
        if len(self._gradient) < len(self.weights.w):
            self._gradient = np.empty_like(self.weights.w)
        out = np.empty(len(batch.y))
        self.step, self.refused = learn_hidden(
            *batch.arrays,
            self.weights,
            self.units,
            self.scratch,
            self._floats,
            self._counts,
            self._gradient,
            self.step,
            self.refused,
            self.steps,
            loss,
            out,
        )
        return out

    _gradient = np.empty((0, 0))

    def scores(self, indptr: Ints, indices: Columns, values: Floats) -> Floats:
        """The served score of each row; changes nothing."""
        out = np.empty(len(indptr) - 1)
        score_hidden(indptr, indices, values, *self._serving(), -1, out)
        return out

    def shares(self, indptr: Ints, indices: Columns, values: Floats) -> Floats:
        """What the score of its row would lose without each stored value."""
        out = np.empty(len(values))
        shares_hidden(indptr, indices, values, *self._serving(), out)
        return out

    def _serving(self) -> tuple[Weights, Units, Floats, int, int]:
        return self.weights, self.units, self.scratch.inverse, self.step, self.steps.horizon

    def served(self) -> Floats:
        """There is no such thing."""
        raise ConfigError("a ranker with hidden units does not score by one weight a column")

    def take(self, w: Floats) -> None:
        """It cannot."""
        raise ConfigError(f"a ranker with hidden units cannot take {len(w)} weights: it has not one a column")

    def to_state(self) -> StateEntries:
        """As without hidden units, the arrays with a row a column; and the units' own."""
        return {**super().to_state(), "units": np.stack(self.units)}

    def from_state(self, state: Mapping[str, Any]) -> None:
        """Take up what `to_state` gave."""
        super().from_state(state)
        self.units = Units(*np.array(state["units"]))

    def dirty(self) -> dict[str, list[int] | None]:
        """The blocks of the arrays that changed, and the small entries."""
        return super().dirty() | {"units": None}

    def merge(self, other: Self, columns: Ints) -> None:
        """Units count by the steps made on either side."""
        both = self.step + other.step
        if other.step:
            for mine, theirs in zip(self.units, other.units, strict=True):
                mine[:] = (self.step * mine + other.step * theirs) / both
        super().merge(other, columns)

    def _keep(self, weights: Weights) -> None:
        """Go on from these: what has one number a column laid out as without hidden units."""
        self._rows: dict[str, Any] = {name: np.array(getattr(weights, name)) for name in ROWS}
        none = np.zeros(len(weights.w))
        super()._keep(weights._replace(w=none, m1=none, m2=none, average=none))

    @property
    def weights(self) -> Weights:
        """What is kept of each column."""
        return super().weights._replace(**self._rows)

    def _no_weights(self, size: int) -> Weights:
        return Weights(
            **{
                name: np.zeros(
                    (size, self.n_units) if name in ROWS else size, np.int64 if name in COUNTS else float
                )
                for name in Weights._fields
            }
        )
