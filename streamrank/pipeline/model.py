"""A model: a named learner, and how well it did on each list before it learnt from it."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from ..config import ModelSettings
from ..features.batch import Batch, Floats
from ..learners.registry import build
from ..metrics.functions import list_metrics
from ..metrics.history import History
from ..preferences.join import Shown

METRICS = ("ndcg@10", "mrr", "pairwise_error")
CUT = 10


@dataclass(slots=True)
class Trial:
    """One list of a batch as it is evaluated: which one, and its labels when it was last evaluated."""

    shown: Shown
    before: list[float]
    measures: bool = True  # False: two rows or one have an order to get wrong, but no top


class Model:
    """Evaluates, then learns (prequential).

    A list is judged again at each click; it is always scored as it was before its first click was learnt, and
    the labels it was evaluated with before are taken back, so in the end it counts once, with all its clicks.
    """

    def __init__(self, settings: ModelSettings) -> None:
        self.name = settings.name
        self.learner = build(settings.learner, settings.params)
        self.history = History(METRICS)

    def learn(self, batch: Batch, trials: Sequence[Trial]) -> None:
        """Score each list of the batch, then learn it."""
        scores = self.learner.learn_batch(batch)
        name, lists = self.name, batch.lists.tolist()
        for q, trial in enumerate(trials):
            first, end = lists[q], lists[q + 1]
            kept = trial.shown.scores.get(name)
            if kept is None:
                trial.shown.scores[name] = scores[first:end]
            else:
                scores[first:end] = kept
        self._evaluate(batch, trials, scores)

    def _evaluate(self, batch: Batch, trials: Sequence[Trial], scores: Floats) -> None:
        before = np.array([label for trial in trials for label in trial.before], dtype=np.float64)
        values = np.empty((2 * len(trials), len(METRICS)))
        values[0::2] = list_metrics(batch.lists, before, scores, CUT)
        values[1::2] = list_metrics(batch.lists, batch.y, scores, CUT)
        for q, trial in enumerate(trials):
            if not trial.measures:
                values[2 * q : 2 * q + 2, :2] = np.nan
        # taken back and added list by list, so that the sums do not depend on the batch
        index = np.repeat(np.array([trial.shown.index for trial in trials], dtype=np.int64), 2)
        self.history.add_many(index, values, np.tile([-1.0, 1.0], len(trials)))
