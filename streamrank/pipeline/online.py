"""Online learning to rank: a learner ranks, a simulated user clicks, it learns; round after round.

In each round a training query is drawn, the learner orders its documents and the first `SHOWN` are shown. The
user knows the judged labels and clicks by a click model (`streamrank.simulation.clicks`). What was shown and
clicked goes through the judge of the live flow under its default rule and is learnt before the next round.

As live, some rankings are shown in random order, which measures the position bias: all of them until it is
known (a new learner's order is no better; with half of them EGDM was .002 to .005 NDCG@10 behind after 10,000
rounds), a share from then on. A learner that explores by itself is spared them.

What counts is the quality on lists held out, and that of what the users were shown meanwhile.
"""

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import msgspec
import numpy as np

from ..config import JudgeSettings
from ..errors import ConfigError
from ..features.batch import Batch, BatchBuilder, Floats, Ints
from ..learners.base import Ranker
from ..learners.registry import build
from ..preferences.judge import Judge
from ..preferences.shown import Shown
from ..simulation.clicks import CLICK_MODELS, spread_grades
from ..simulation.draws import generator
from ..sources.dataset import Dataset
from .evaluate import as_batch, measures, refuse_orderless

SHOWN = 10
MEASURING = 10  # at most one round in so many goes into measuring the position bias first
TELL = 500  # rounds between two signs of life
GAMMA = 0.9995  # a round counts by so much less than the one before it, as usual in online learning to rank
DISCOUNTS = 1.0 / np.log2(np.arange(2, SHOWN + 2))
PLACES = [str(place) for place in range(SHOWN)]


class Query(NamedTuple):
    """A training query: its rows, their grades for the click model, the gain of each over the best DCG@10."""

    batch: Batch
    grades: Ints
    gains: Floats  # NaN where no row is relevant


class Round(NamedTuple):
    """Who comes: the query, a number in [0, 1) that decides whether it is shuffled, and how it then is."""

    query: Query
    chance: float
    shuffled: Ints


class Users:
    """Who asks what, and what is clicked: the same people in the same order for every learner."""

    def __init__(self, train: Dataset, click_model: str, rounds: int, seed: int = 0) -> None:
        if click_model not in CLICK_MODELS:
            raise ConfigError(
                f"there is no click model {click_model!r}; choose of: {', '.join(CLICK_MODELS)}"
            )
        refuse_orderless(train, "--train")
        self.click_model, self.rounds, self.seed = click_model, rounds, seed
        self._clicks = CLICK_MODELS[click_model]
        whole, grades = as_batch(train, np.arange(train.n_lists), items=True), spread_grades(train.y)
        self._queries = []
        for q, (a, b) in enumerate(zip(train.lists[:-1], train.lists[1:], strict=True)):
            gains = np.exp2(np.maximum(train.y[a:b], 0.0)) - 1.0
            best = float(np.sort(gains)[::-1][:SHOWN] @ DISCOUNTS[: b - a])
            gains = gains / best if best > 0.0 else np.full(b - a, np.nan)
            self._queries.append(Query(whole.part(q, q + 1), grades[a:b], gains))

    def __iter__(self) -> Iterator[Round]:
        asks, shuffles = generator(self.seed, 0), generator(self.seed, 1)
        self._users = generator(self.seed, 2)
        asked = asks.integers(len(self._queries), size=self.rounds).tolist()
        chances = shuffles.random(self.rounds).tolist()
        for q, chance in zip(asked, chances, strict=True):
            query = self._queries[q]
            yield Round(query, chance, shuffles.permutation(len(query.grades)))

    def click(self, grades: Ints) -> list[int]:
        """The places that are clicked on a list with these grades."""
        return np.flatnonzero(self._clicks(grades, self._users)).tolist()


def online(
    users: Users,
    test: Dataset,
    *,
    learner: str,
    params: Mapping[str, Any],
    shuffled: float = 0.1,
    looks: Sequence[int] = (),
    look: Callable[[Ranker, int], None] | None = None,
    tell: Callable[[int], None] = lambda _: None,
) -> dict[str, Any]:
    """Let a learner serve these users; say how well it ranks in the end, and what they were shown.

    `online` holds the mean NDCG@10 of what was shown, and its sum with round t counted `GAMMA`^(t-1); queries
    without a relevant document are left out of both. `shuffled` is the share shown in random order once the
    position bias is known. The learner is shown to `look` after as many rounds as `looks` say, and `tell`
    hears how many are done; their time does not count.
    """
    began = time.perf_counter()
    ranker, usual = build(learner, params), JudgeSettings()
    enough = min(usual.min_shuffled, max(users.rounds // MEASURING, 1))
    judge = Judge(msgspec.structs.replace(usual, min_shuffled=enough))
    waiting = sorted(looks, reverse=True)
    total, cumulative, discount, n_measured = 0.0, 0.0, 1.0, 0
    for number, (query, chance, order) in enumerate(users):
        share = 0.0 if ranker.explores else 1.0 if judge.measured() is None else shuffled
        if chance >= share:
            order = ranker.shown_order(ranker.scores(query.batch), draw(users.seed, number))
        top = order[:SHOWN]
        gain = float(query.gains[top] @ DISCOUNTS[: len(top)])
        if not np.isnan(gain):
            total, n_measured = total + gain, n_measured + 1
            cumulative += discount * gain
        discount *= GAMMA
        batch = _clicked(users, judge, query, top, chance < share)
        if batch is not None:
            ranker.learn_batch(batch)
        if (number + 1) % TELL == 0 or (waiting and waiting[-1] == number + 1):
            paused = time.perf_counter()
            if waiting and waiting[-1] == number + 1:
                waiting.pop()
                if look is not None:
                    look(ranker, number + 1)
            tell(number + 1)
            began += time.perf_counter() - paused
    seconds = time.perf_counter() - began
    return {
        "learner": learner,
        "click_model": users.click_model,
        "rounds": users.rounds,
        "seconds": seconds,
        "chosen": dict(params),
        "test": measures(test, ranker.scores(as_batch(test, np.arange(test.n_lists)))),
        "online": {"ndcg@10": total / max(n_measured, 1), "cumulative_ndcg@10": cumulative},
    }


def draw(seed: int, number: int) -> int:
    """The number by which a learner that explores orders a ranking: another for each of a seed."""
    return (seed << 32) + number


def _clicked(users: Users, judge: Judge, query: Query, top: Ints, shuffled: bool) -> Batch | None:
    """What the clicks on these rows say, in the form of the live flow; None where nothing was clicked."""
    rows, (name,) = query.batch.taken(top), query.batch.queries
    shown = Shown(0, "", 0, PLACES[: len(top)], rows, name, shuffled=shuffled)
    judge.shown(shown)
    places = users.click(query.grades[top])
    if not places:
        return None
    shown.grades = dict.fromkeys(places, 1.0)
    builder = BatchBuilder()
    judged = judge.judge(shown, dict.fromkeys(places, 0.0))
    builder.add(rows, *judged, query=name, items=top)  # of its query a row is known by where it stands there
    return builder.build()
