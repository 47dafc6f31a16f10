"""A model: a named learner, and how well it did on each list before it learnt from it."""

from collections.abc import Callable, Sequence

import numpy as np

from ..config import ModelSettings
from ..features.batch import Batch, Floats
from ..learners.registry import build
from ..metrics.functions import list_metrics
from ..metrics.history import History
from ..preferences.join import Shown

# clicks favour what was shown high, so the first three favour models that agree with the order shown; on
# rankings shown in random order there is nothing to agree with
METRICS = ("ndcg@10", "mrr", "pairwise_error", "ndcg@10_shuffled")
CUT = 10


class Trials:
    """The lists of a batch as they are evaluated: which each is, and its labels at the last evaluation."""

    def __init__(self) -> None:
        self.shown: list[Shown | None] = []  # where its first scores are kept; None: it will not come again
        self.index: list[int] = []
        self.before: list[float] = []
        self.topless: list[int] = []  # places of pairs and examples: an order, but no top to measure
        self.offset: list[int] = []  # of the record that had each judged
        self.items: list[Sequence[str]] = []  # the names of its rows, where they have any

    def add(
        self,
        index: int,
        before: list[float],
        offset: int,
        items: Sequence[str] = (),
        shown: Shown | None = None,
    ) -> None:
        """Append one list."""
        self.shown.append(shown)
        self.index.append(index)
        self.before += before
        self.offset.append(offset)
        self.items.append(items)

    def add_block(self, first_index: int, n_lists: int, n_rows: int, offset: int) -> None:
        """Append many that were never evaluated before."""
        self.shown += [None] * n_lists
        self.index += range(first_index, first_index + n_lists)
        self.before += [0.0] * n_rows
        self.offset += [offset] * n_lists
        self.items += [()] * n_lists


class Model:
    """Evaluates, then learns (prequential).

    A list is judged again at each click; it is always scored as it was before its first click was learnt, and
    the labels it was evaluated with before are taken back, so in the end it counts once, with all its clicks.
    """

    def __init__(self, settings: ModelSettings) -> None:
        self.name = settings.name
        self.learner = build(settings.learner, settings.params)
        self.history = History(METRICS)
        self.watch: Callable[[Floats], None] | None = None  # is told the NDCG of every new list

    def learn(self, batch: Batch, trials: Trials) -> None:
        """Score each list of the batch, then learn it."""
        scores = self.learner.learn_batch(batch)
        name, lists = self.name, batch.lists.tolist()
        for q, shown in enumerate(trials.shown):
            if shown is not None:
                kept = shown.scores.get(name)
                if kept is None:
                    # a copy: a view would keep the scores of the whole batch as long as the ranking is open
                    shown.scores[name] = scores[lists[q] : lists[q + 1]].copy()
                else:
                    scores[lists[q] : lists[q + 1]] = kept
        self._evaluate(batch, trials, scores)

    def _evaluate(self, batch: Batch, trials: Trials, scores: Floats) -> None:
        n = len(trials.index)
        values = np.full((2 * n, len(METRICS)), np.nan)
        values[0::2, :3] = list_metrics(batch.lists, np.array(trials.before, dtype=np.float64), scores, CUT)
        values[1::2, :3] = list_metrics(batch.lists, batch.y, scores, CUT)
        for q in trials.topless:
            values[2 * q : 2 * q + 2, :2] = np.nan
        for q, shown in enumerate(trials.shown):
            if shown is not None and shown.shuffled:
                values[2 * q : 2 * q + 2, 3] = values[2 * q : 2 * q + 2, 0]
        if self.watch is not None:
            ndcg = values[:, 0]
            self.watch(ndcg[1::2][np.isnan(ndcg[0::2]) & np.isfinite(ndcg[1::2])])
        # taken back and added list by list, so that the sums do not depend on the batch
        index = np.repeat(np.array(trials.index, dtype=np.int64), 2)
        self.history.add_many(index, values, np.tile([-1.0, 1.0], n))
