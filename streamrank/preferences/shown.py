"""A ranking that was shown, and what was clicked on it: how it is kept, and how it is stored."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from ..events.types import PackedRanking, Ranking
from ..features.batch import Floats, Rows


@dataclass(slots=True, eq=False)
class Shown:
    """A ranking that was shown, its rows as they were then, and what was clicked on it so far."""

    number: int  # in order of arrival
    id: str
    time_ms: int
    items: list[str]
    rows: Rows
    query: str = ""
    visitors: list[str] = field(default_factory=list)  # who may click on it without naming it
    propensities: list[float] | None = None
    shuffled: bool = False
    fair_pairs: int | None = None
    grades: dict[int, float] = field(default_factory=dict)  # by place in the list
    pending: dict[int, float] = field(default_factory=dict)  # clicked, not judged yet: place -> grade before
    due: int = -1  # when to judge them; -1 when there are none
    index: int = -1  # number among the evaluated lists; -1 before its first click is learnt
    scores: dict[str, Floats] = field(default_factory=dict)  # by model, before any click of it was learnt
    teams: list[str] | None = None  # the model that put each item there, where two share the list

    def labels(self) -> list[float]:
        """The grade of each item; 0 where it was not clicked."""
        labels = [0.0] * len(self.items)
        for place, grade in self.grades.items():
            labels[place] = grade
        return labels

    def labels_before(self) -> list[float]:
        """The labels as they were when it was last judged."""
        labels = self.labels()
        for place, grade in self.pending.items():
            labels[place] = grade
        return labels


def items_of(event: Ranking | PackedRanking) -> list[str]:
    """The ids of the items, in the order shown."""
    return event.items if isinstance(event, PackedRanking) else [item.id for item in event.items]


def propensities_of(event: Ranking | PackedRanking) -> list[float] | None:
    """The chance that each item was looked at, if every item carries one."""
    if isinstance(event, PackedRanking):
        return event.propensities
    known = [item.propensity for item in event.items if item.propensity is not None]
    return known if len(known) == len(event.items) else None


def teams_of(event: Ranking | PackedRanking) -> list[str] | None:
    """The model that put each item where it is, if every item says so."""
    if isinstance(event, PackedRanking):
        return event.teams
    known = [item.team for item in event.items if item.team]
    return known if len(known) == len(event.items) else None


def what_was_shown(shown: Shown) -> list[Any]:
    """The entry of state that is written once."""
    rows = shown.rows
    return [
        shown.id,
        shown.time_ms,
        shown.items,
        [rows.columns, rows.values, rows.indptr],
        shown.query,
        shown.visitors,
        shown.propensities,
        shown.shuffled,
        shown.fair_pairs,
        *([shown.teams] if shown.teams else []),
    ]


def what_was_clicked(shown: Shown) -> list[Any]:
    """The entry of state that is written again at each click."""
    return [
        # pairs, not tables: a store sorts the keys of a table, and the order of clicks must survive
        [list(click) for click in shown.grades.items()],
        [list(click) for click in shown.pending.items()],
        shown.due,
        shown.index,
        dict(shown.scores),
    ]


def restored(number: int, what: Sequence[Any], clicks: Sequence[Any] | None) -> Shown:
    """The ranking of those two entries."""
    ranking, time_ms, items, (columns, values, indptr), *rest = what
    shown = Shown(number, ranking, time_ms, items, Rows(len(items), columns, values, indptr), *rest[:5])
    shown.teams = rest[5] if len(rest) > 5 else None
    if clicks is not None:
        grades, pending, shown.due, shown.index, shown.scores = clicks
        shown.grades = {int(place): float(grade) for place, grade in grades}
        shown.pending = {int(place): float(grade) for place, grade in pending}
    return shown
