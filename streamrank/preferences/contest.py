"""Two models that share lists: which of them gets the clicks."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from .shown import Shown


class Credit(NamedTuple):
    """Of the rankings that two models shared: how many, and who got more clicks on its items.

    The rest of `shown` got no click. A win of the first is a loss of the second.
    """

    shown: int = 0
    wins: int = 0
    losses: int = 0
    ties: int = 0

    def reversed(self) -> "Credit":
        """As the second model sees it."""
        return self._replace(wins=self.losses, losses=self.wins)

    def plus(self, other: "Credit", sign: int = 1) -> "Credit":
        """With those of another shard, or less those of an earlier moment."""
        return Credit(*(mine + sign * theirs for mine, theirs in zip(self, other, strict=True)))


class Contests:
    """Credits by pair of models, from rankings whose items say which model put them there (`items[].team`).

    In each such ranking the model with more clicked items wins; equally many, and at least one each, are a
    tie. As clicks come one by one the outcome so far is taken back before the new one is counted, so in the
    end a ranking counts once, with all its clicks, and the same records give the same credits. Rankings that
    name other than two models of the config count nothing; so there is one entry a pair of models at most.
    """

    def __init__(self, models: Iterable[str]) -> None:
        self._models = frozenset(models)
        self._credits: dict[tuple[str, str], Credit] = {}  # the first name sorts before the second
        self._changed: set[tuple[str, str]] = set()

    def credit(self, one: str, other: str) -> Credit:
        """How `one` did against `other`."""
        first, second = sorted((one, other))
        credit = self._credits.get((first, second), Credit())
        return credit if one == first else credit.reversed()

    def shown(self, shown: Shown) -> None:
        """Count a ranking, if two models share it."""
        if (pair := self._pair(shown)) is not None:
            self._add(pair, Credit(shown=1))

    def judged(self, shown: Shown, before: Sequence[float]) -> None:
        """Count new clicks; `before` are the labels as they were counted last."""
        if (pair := self._pair(shown)) is not None and shown.teams is not None:
            self._add(pair, _outcome(shown.teams, before, pair), -1)
            self._add(pair, _outcome(shown.teams, shown.labels(), pair))

    def _pair(self, shown: Shown) -> tuple[str, str] | None:
        if shown.teams is None:
            return None
        names = sorted(set(shown.teams))
        return (names[0], names[1]) if len(names) == 2 and self._models.issuperset(names) else None

    def _add(self, pair: tuple[str, str], credit: Credit, sign: int = 1) -> None:
        self._credits[pair] = self._credits.get(pair, Credit()).plus(credit, sign)
        self._changed.add(pair)

    def to_state(self) -> dict[str, Any]:
        """One entry a pair."""
        return {"/".join(pair): list(credit) for pair, credit in self._credits.items()}

    def from_state(self, state: Mapping[str, Any]) -> None:
        """Take up what `to_state` gave."""
        self._credits = {_names(key): Credit(*credit) for key, credit in state.items()}
        self._changed = set()

    def dirty(self) -> dict[str, Any]:
        """The entries that changed since the last call."""
        changed, self._changed = sorted(self._changed), set()
        return {"/".join(pair): list(self._credits[pair]) for pair in changed}


def _outcome(teams: Sequence[str], labels: Sequence[float], pair: tuple[str, str]) -> Credit:
    """Who leads by clicked items.

    >>> _outcome(["a", "b", "a"], [1.0, 0.0, 3.0], ("a", "b"))
    Credit(shown=0, wins=1, losses=0, ties=0)
    """
    mine, theirs = (
        sum(label > 0 and team == name for team, label in zip(teams, labels, strict=True)) for name in pair
    )
    if mine == theirs:
        return Credit(ties=int(mine > 0))
    return Credit(wins=1) if mine > theirs else Credit(losses=1)


def _names(key: str) -> tuple[str, str]:
    first, second = key.split("/")  # no model has a slash in its name
    return first, second
