"""Candidates compared on a log without showing anything: the log through the flow, clicks weighed anew.

Every ranking that was clicked is ordered by each candidate. A model that learns on the way orders it as it
was before its first click was learnt; a frozen one as it is. See `metrics.offpolicy` for the estimates.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from ..config import JudgeSettings, ModelSettings, Settings
from ..errors import ConfigError, SourceError
from ..events.types import Record
from ..features.batch import Batch, Floats
from ..features.space import FeatureSpace
from ..learners.base import Ranker
from ..metrics.offpolicy import off_policy
from ..preferences.judge import Judge
from ..preferences.shown import Shown
from .flow import Flow
from .model import Model, Trials

SHOWN, RANDOM = "shown", "random"  # candidates of every comparison: the order of the log, and any order


class Frozen(Model):
    """A learner that has learnt elsewhere: it scores, and stays as it is."""

    def __init__(self, name: str, learner: Ranker) -> None:
        super().__init__(ModelSettings(name=name))
        self.learner = learner

    def learn(self, batch: Batch, trials: Trials) -> None:
        """Score each list when it is judged first."""
        _keep(self.name, batch, trials, self.learner.scores(batch))


class Field(Model):
    """Orders by one column, largest first, or smallest with `name:asc`; without a value: as the average."""

    def __init__(self, by: str, features: FeatureSpace) -> None:
        super().__init__(ModelSettings(name=by))
        field, _, order = by.rpartition(":") if by.endswith((":asc", ":desc")) else (by, "", "")
        self._field, self._sign = field, -1.0 if order == "asc" else 1.0
        self._features = features
        self.met = False  # whether any item had it

    def learn(self, batch: Batch, trials: Trials) -> None:
        """Score each list by the values of the column."""
        column = self._features.columns.find(self._field)
        values = np.where(batch.indices == column, batch.values, 0.0)
        self.met = self.met or bool((batch.indices == column).any())
        rows = np.repeat(np.arange(len(batch.y)), np.diff(batch.indptr))
        sums = np.bincount(rows, self._sign * values, len(batch.y))
        _keep(self.name, batch, trials, sums.astype(np.float64))


def _keep(name: str, batch: Batch, trials: Trials, scores: Floats) -> None:
    for q, shown in enumerate(trials.shown):
        if shown is not None:
            shown.scores.setdefault(name, scores[batch.lists[q] : batch.lists[q + 1]].copy())


class _Clicked(NamedTuple):
    """What is kept of a ranking; its tables go on changing while it is open."""

    size: int
    propensities: list[float] | None
    grades: Mapping[int, float]
    scores: Mapping[str, Floats]


class _Counting(Judge):
    """Counts the rankings shown, and those whose items all carry a propensity."""

    def __init__(self, settings: JudgeSettings) -> None:
        super().__init__(settings)
        self.n_shown = self.n_with_propensities = 0

    def shown(self, shown: Shown) -> None:
        super().shown(shown)
        self.n_shown += 1
        self.n_with_propensities += shown.propensities is not None


def compare(
    records: Iterable[Record],
    settings: Settings,
    *,
    frozen: tuple[FeatureSpace, Mapping[str, Ranker]] | None = None,
    by: Sequence[str] = (),
    clip: float = 10.0,
    watch: Callable[[int], None] = lambda _: None,
) -> dict[str, Any]:
    """Estimate what each candidate would have got: the models of the settings, those `frozen`, and fields.

    Without `frozen` the models of the settings learn from the log as it goes. theta is that of the event
    where every item carries its propensity, else `judge.theta`, else measured on the shuffled rankings of the
    whole log; rankings without any are left out, and counted. Memory grows by about a kilobyte a clicked
    ranking.
    """
    if not 1.0 <= clip < np.inf:
        raise ConfigError(f"the clip is {clip}: a weight from 1 up")
    flow, judge = Flow(settings), _Counting(settings.judge)
    if frozen is not None:
        flow.features = frozen[0]
        flow.models = [Frozen(name, learner) for name, learner in frozen[1].items()]
    fields = [Field(name, flow.features) for name in by]
    names = [model.name for model in flow.models]
    if len({*names, *by, SHOWN, RANDOM}) < len(names) + len(by) + 2:
        raise ConfigError(
            f"candidates need names of their own; got {', '.join([SHOWN, RANDOM, *names, *by])}"
        )
    flow.models += fields
    clicked: dict[int, _Clicked] = {}

    def record(_: Batch, trials: Trials) -> None:
        for shown in trials.shown:
            if shown is not None and shown.number not in clicked:
                clicked[shown.number] = _Clicked(
                    len(shown.items), shown.propensities, shown.grades, shown.scores
                )

    flow.judge, flow.recorder = judge, record
    for number, one in enumerate(records):
        flow.step(one)
        if number % 1000 == 0:
            watch(flow.counts["events"])
    flow.learn()
    for field in fields:
        if not field.met:
            raise ConfigError(f"--by {field.name}: no clicked ranking has an item with that field")
    return _estimated(judge, [SHOWN, RANDOM, *(model.name for model in flow.models)], clicked.values(), clip)


def _estimated(
    judge: _Counting, names: list[str], clicked: Iterable[_Clicked], clip: float
) -> dict[str, Any]:
    by_rank = judge.by_rank(1) is not None
    n_lists = judge.n_shown if by_rank else judge.n_with_propensities
    if not n_lists:
        raise SourceError(_NO_PROPENSITIES.format(judge.n_shown, judge.settings.min_shuffled))
    lists: list[int] = []
    rewards: list[float] = []
    where: list[float] = []
    there: dict[str, list[float]] = {name: [] for name in names}
    for number, one in enumerate(clicked):
        theta = one.propensities or judge.by_rank(one.size)
        if theta is None:
            continue
        orders = {
            name: np.argsort(np.argsort(-scores, kind="stable"), kind="stable")
            for name, scores in one.scores.items()
        }
        for place, reward in one.grades.items():
            lists.append(number)
            rewards.append(reward)
            where.append(theta[place])
            there[SHOWN].append(theta[place])
            there[RANDOM].append(sum(theta) / one.size)
            for name, ranks in orders.items():
                there[name].append(theta[ranks[place]])
    numbers = np.unique(np.array(lists, np.int64), return_inverse=True)[1]
    candidates = {
        name: off_policy(numbers, np.array(rewards), np.array(where), np.array(theta), n_lists, clip)
        for name, theta in there.items()
    }
    rest = "settings" if judge.settings.theta else "shuffled rankings"
    return {
        "lists": n_lists,
        "left_out": judge.n_shown - n_lists,
        "clicks": len(lists),
        "with_propensities": judge.n_with_propensities,
        "theta": judge.by_rank(10),
        "theta_from": "events" if judge.n_with_propensities == n_lists else rest,
        "clip": clip,
        "candidates": {
            name: {
                **{kind: getattr(found, kind)._asdict() for kind in ("ips", "snips", "clipped", "lift")},
                "largest_weight": found.largest_weight,
                "effective_clicks": found.effective_clicks,
            }
            for name, found in candidates.items()
        },
    }


_NO_PROPENSITIES = (
    "none of the {} rankings of this log can be weighed: it is not known how likely each rank was looked at. "
    "Log it with the rankings (items[].propensity), or give it by rank (judge.theta), or show at least {} "
    'rankings in random order and mark them ("shuffled": true), so that it is measured'
)
