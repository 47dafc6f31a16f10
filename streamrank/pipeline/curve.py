"""How well a streaming learner ranks after so many lists: the numbers, drawn by `pictures`."""

from typing import NamedTuple

import numpy as np

from ..features.batch import Floats
from ..learners.base import Ranker
from ..learners.egdm import EGDM, Spectrum
from ..metrics.functions import list_metrics
from ..sources.dataset import Dataset
from .evaluate import as_batch, linear_scores

LOOKS = 40


class Look(NamedTuple):
    """How a learner stands after ``lists`` lists; of EGDM also its exact optimum so far and its spectrum."""

    lists: int
    ndcg: float
    error: float
    optimum_ndcg: float = np.nan
    optimum_error: float = np.nan
    spectrum: Spectrum | None = None


class LearningCurve:
    """Looks at a learner on lists held out, often at first and then more rarely."""

    def __init__(self, held_out: Dataset, n_lists: int) -> None:
        self.at: list[int] = np.unique(np.geomspace(1, n_lists, LOOKS).round().astype(int)).tolist()
        self.looks: list[Look] = []
        self._held_out = held_out
        self._batch = as_batch(held_out, np.arange(held_out.n_lists))

    def look(self, ranker: Ranker, lists: int) -> None:
        """Note how it ranks now; the learner is not changed."""
        ndcg, error = self._quality(ranker.scores(self._batch))
        if isinstance(ranker, EGDM) and ranker.exact:
            best = self._quality(linear_scores(self._held_out, ranker.solve()))
            self.looks.append(Look(lists, ndcg, error, *best, ranker.spectrum()))
        else:
            self.looks.append(Look(lists, ndcg, error))

    def _quality(self, scores: Floats) -> tuple[float, float]:
        values = list_metrics(self._held_out.lists, self._held_out.y, scores, 10)
        held = np.isfinite(values)
        means = np.where(held, values, 0.0).sum(axis=0) / np.maximum(held.sum(axis=0), 1)
        return float(means[0]), float(means[2])
