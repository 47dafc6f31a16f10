"""RoBiRank: the places of what is relevant, robustly."""

from collections.abc import Mapping
from typing import Any

import numpy as np

from ..errors import ConfigError
from ..features.batch import Batch
from ..kernels.losses import ROBIRANK, Loss
from .base import StateEntries
from .checking import whole
from .linear import LinearRanker


class RoBiRank(LinearRanker):
    """One Adam step a list on a robust loss of the place of each relevant item.

    With s = w'x, gains a_i (2^y - 1; y c of a scored list) and Z the ideal DCG of the list,

        S_i  = sum_{j != i} log2(1 + 2^(s_j - s_i))                     (1)   at least the rows before i
        l(w) = (1/Z) sum_i c_i a_i log2(1 + S_i)                        (2)   type I
        l(w) = (1/Z) sum_i c_i a_i (1 - 1/log2(2 + S_i))                (3)   type II

    In (2) a relevant row counts the less the further down it stands, as in NDCG, and is never given up; in
    (3) one that is out of reach no longer pulls, which resists outliers and learns worse.

    Parameters
    ----------
    rate, horizon, scale, hidden
        As of `RankNet`.
    type
        1, the default, or 2.
    sample
        Rows j drawn for the sum (1) of each relevant row, for lists of hundreds; 0, the default, takes all.
    seed
        Of what is drawn.

    Examples
    --------
    >>> ranker = RoBiRank()
    >>> for _ in range(20):
    ...     ranker.learn_list([{"fresh": 1.0}, {"fresh": 0.5}, {"fresh": 0.0}], [2.0, 1.0, 0.0])
    >>> ranker.rank([{"fresh": 0.0}, {"fresh": 1.0}])
    [1, 0]

    References
    ----------
    [1] Ranking via robust binary classification (Yun, Raman, Vishwanathan), NIPS 2014.
    """

    _loss = ROBIRANK

    def __init__(
        self,
        rate: float = 0.03,
        horizon: int = 5000,
        scale: bool = True,
        hidden: int = 0,
        type: int = 1,
        sample: int = 0,
        seed: int = 0,
    ) -> None:
        super().__init__(rate, horizon, scale, hidden)
        if isinstance(type, bool) or type not in (1, 2):
            raise ConfigError(f"type is {type!r}: 1 or 2")
        self.type, self._knob = type, float(type)
        self.sample, self.seed = whole("sample", sample, 0), whole("seed", seed, 0, 2**63 - 1)
        self._generator = np.array([seed], np.uint64)

    def _loss_of(self, batch: Batch) -> Loss:
        return super()._loss_of(batch)._replace(sample=self.sample, generator=self._generator)

    def to_state(self) -> StateEntries:
        """As of every linear ranker, and the generator of the sample."""
        return {**super().to_state(), "generator": self._generator}

    def from_state(self, state: Mapping[str, Any]) -> None:
        """Take up what `to_state` gave."""
        super().from_state(state)
        self._generator = np.array(state["generator"], np.uint64)

    def dirty(self) -> dict[str, list[int] | None]:
        """As of every linear ranker, and the generator."""
        return {**super().dirty(), "generator": None}
