"""A recommender: a named learner of who clicked what, and how well it did on each click before."""

from collections.abc import Callable

import numpy as np

from ..config import RecommenderSettings
from ..features.batch import Floats, Ints
from ..learners.latent import RoBiRankMF
from ..learners.registry import build_recommender
from ..metrics.history import History

CUT = 10
METRICS = (f"hr@{CUT}", f"ndcg@{CUT}")
AMONG = 1000  # items that a click is ranked among, drawn where there are more


class Recommender:
    """Ranks each clicked item among all, or `AMONG` drawn, for its user; then learns the click (prequential).

    A click on an item that is new counts as missed. The record is by clicks, not by lists.
    """

    def __init__(self, settings: RecommenderSettings) -> None:
        self.name = settings.name
        self.learner: RoBiRankMF = build_recommender(settings.learner, settings.params)
        self.history = History(METRICS)
        self.watch: Callable[[Floats], None] | None = None  # is told the NDCG of every click

    def learn(self, users: list[str], items: list[str], weights: list[float], first: int) -> None:
        """Learn clicks in order; `first` is the number of the first of them in the stream."""
        ranked = self.learner.learn_batch(users, items, weights, among=AMONG)
        index: Ints = first + np.arange(len(ranked))
        values = np.stack(hits(ranked), axis=1)
        if self.watch is not None:
            self.watch(values[:, 1])
        self.history.add_many(index, values, np.ones(len(ranked)))


def hits(ranked: Ints) -> tuple[Floats, Floats]:
    """Whether each rank (from 0; -1: none) is among the first ten, and its gain 1/log2(rank + 2) if it is.

    >>> [values.tolist() for values in hits(np.array([0, 2, 10, -1]))]
    [[1.0, 1.0, 0.0, 0.0], [1.0, 0.5, 0.0, 0.0]]
    """
    hit = (ranked >= 0) & (ranked < CUT)
    gain = np.where(hit, 1.0 / np.log2(np.maximum(ranked, 0) + 2.0), 0.0)
    return hit.astype(np.float64), gain
