"""The judge: which rule applies to a list, and how likely each of its places was looked at."""

import math
from collections.abc import Mapping
from typing import Any

import numpy as np

from ..config import JudgeSettings
from .rules import RULES, Judgement
from .shown import Shown

MAX_RANKS = 1000
LEAST_THETA = 1e-3  # a rank never clicked: its weight is the clip, not infinity


class Judge:
    """Chooses and applies the rule; measures the position bias on rankings shown in random order.

    theta_k, the chance that rank k is looked at, comes from the event if every item carries a propensity,
    else from the settings, else it is measured: clicks at rank k over those at rank 1 on shuffled rankings,
    once `min_shuffled` of them reached rank k (a rank reached less often takes the theta of the last one
    measured; ranks beyond 1000 are not counted). The rule `auto` is `ips` where theta is known and
    `unclicked` until then.
    """

    def __init__(self, settings: JudgeSettings) -> None:
        self.settings = settings
        self._shown = np.zeros(0, dtype=np.int64)  # shuffled rankings that reached rank k, and clicks there
        self._clicked = np.zeros(0, dtype=np.int64)
        self._changed = False
        self._measured: list[float] | None = None  # follows from the counts

    def shown(self, shown: Shown) -> None:
        """Count a shuffled ranking."""
        if shown.shuffled:
            n = min(len(shown.items), MAX_RANKS)
            if n > len(self._shown):
                grow = n - len(self._shown)
                self._shown, self._clicked = np.pad(self._shown, (0, grow)), np.pad(self._clicked, (0, grow))
            self._shown[:n] += 1
            self._count()

    def judge(self, shown: Shown, new: Mapping[int, float]) -> Judgement:
        """What the new clicks (place -> grade before) say of the list."""
        if shown.shuffled:
            for place, before in new.items():
                if before == 0.0 and place < len(self._clicked):
                    self._clicked[place] += 1
                    self._count()
        theta = self.theta(shown)
        clip = self.settings.clip or math.inf
        weights = None if theta is None else [min(clip, 1.0 / t) for t in theta]
        name = self.settings.rule
        if name == "auto":
            name = "unclicked" if theta is None else "ips"
        return RULES[name](shown, new, weights)

    def theta(self, shown: Shown) -> list[float] | None:
        """The chance that each place of a ranking was looked at; None while it is not known."""
        if shown.propensities is not None:
            return shown.propensities
        return self.by_rank(len(shown.items))

    def by_rank(self, n: int) -> list[float] | None:
        """The chance that each of the first n ranks is looked at, where no event says it."""
        by_rank = self.settings.theta or self.measured()
        return None if by_rank is None else by_rank[:n] + by_rank[-1:] * (n - len(by_rank))

    def measured(self) -> list[float] | None:
        """theta by rank from shuffled rankings; None before enough of them were shown."""
        return self._measured

    def merge(self, other: "Judge") -> None:
        """Take in what another shard measured."""
        n = max(len(self._shown), len(other._shown))
        self._shown, self._clicked = (
            np.pad(mine, (0, n - len(mine))) + np.pad(theirs, (0, n - len(theirs)))
            for mine, theirs in ((self._shown, other._shown), (self._clicked, other._clicked))
        )
        self._count()

    def _count(self) -> None:
        self._changed, self._measured = True, None
        # lists differ in length: the few that reach far down measure nothing there
        n = int(np.count_nonzero(self._shown >= self.settings.min_shuffled))
        if n and self._clicked[0]:
            rate = self._clicked[:n] / self._shown[:n]
            self._measured = np.clip(rate / rate[0], LEAST_THETA, 1.0).tolist()

    def to_state(self) -> dict[str, Any]:
        """The counts by rank."""
        return {"shown": self._shown, "clicked": self._clicked} if len(self._shown) else {}

    def from_state(self, state: Mapping[str, Any]) -> None:
        """Take up what `to_state` gave."""
        self._shown = np.array(state.get("shown", ()), dtype=np.int64)
        self._clicked = np.array(state.get("clicked", ()), dtype=np.int64)
        self._count()
        self._changed = False

    def dirty(self) -> dict[str, Any]:
        """The counts, if they changed since the last call."""
        changed, self._changed = self._changed, False
        return self.to_state() if changed else {}
