"""The contract itself: every check refuses a learner that is broken in just that way."""

from collections.abc import Callable

import numpy as np
import pytest

from streamrank.learners.checks import check_ranker, yield_checks
from streamrank.learners.examples import RecentExamples
from streamrank.learners.linear import LinearRanker
from streamrank.learners.ranknet import RankNet


class GrowsOnPredict(RankNet):
    def _known(self, xs):
        for x in xs:
            self._row(x)
        return super()._known(xs)


class LearnsOnPredict(RankNet):
    def predict_one(self, x):
        self.learn_one(x, 1.0)
        return super().predict_one(x)


class ForgetsWeights(RankNet):
    def learn_list(self, xs, ys, query="", weights=None):  # noqa: ARG002
        super().learn_list(xs, ys, query)


class CountsBatches(RankNet):
    def learn_batch(self, batch):
        self._scorer.refused += 1
        return super().learn_batch(batch)


class ScoresAfterwards(RankNet):
    def learn_batch(self, batch):
        super().learn_batch(batch)
        return self.scores(batch)


class ForgetsMomentum(RankNet):
    def from_state(self, state):
        super().from_state(state)
        self._scorer.weights.m1[:] = 0.0


class ForgetsExamples(RankNet):
    def from_state(self, state):
        super().from_state({key: state[key] for key in state if not key.startswith("example/")})


class CleanLastBlock(RankNet):
    def dirty(self):
        return {name: blocks and blocks[:1] for name, blocks in super().dirty().items()}


class CleanStep(RankNet):
    def dirty(self):
        return {name: blocks for name, blocks in super().dirty().items() if name != "step"}


class CleanMerge(RankNet):
    def merge(self, other, columns=None):
        dirty = self._scorer.scratch.dirty.copy()
        super().merge(other, columns)
        self._scorer.scratch.dirty[:] = 0
        self._scorer.scratch.dirty[: len(dirty)] = dirty


class MergesByPosition(RankNet):
    def merge(self, other, columns=None):  # noqa: ARG002
        super().merge(other, np.arange(len(other._scorer.weights.w)))


class BecomesTheOther(RankNet):
    def merge(self, other, columns=None):  # noqa: ARG002
        if other._scorer.step:
            self.from_state(other.to_state())


class MergesNothing(RankNet):
    def merge(self, other, columns=None):
        pass


class Fragile(RankNet):
    def learn_batch(self, batch):
        if np.abs(batch.values).max(initial=0.0) > 1e200:
            self._scorer.weights.average[:] = np.nan
            self._scorer.weights.last[:] = np.maximum(self._scorer.weights.last, 1)
        return super().learn_batch(batch)


class Poisoned(RankNet):
    def learn_batch(self, batch):
        if np.abs(batch.values).max(initial=0.0) > 1e200:
            self._scorer.weights.m2[:] = 1e30
        return super().learn_batch(batch)


class ScaledByOutliers(RankNet):
    def learn_batch(self, batch):
        largest = np.abs(batch.values).max(initial=0.0)
        if 1e3 < largest < 1e20:
            self._scorer.weights.square[::2] += largest * largest
            self.from_state(self.to_state())
        return super().learn_batch(batch)


class Hoards(RankNet):
    def __init__(self):
        super().__init__()
        self._examples = RecentExamples(queries=10**9)


class KeepsDictOrder(RankNet):
    def _row(self, x):
        return {self._columns.add(name): float(value) for name, value in x.items()}


class Restless(RankNet):
    def learn_batch(self, batch):
        scores = super().learn_batch(batch)
        self._scorer.weights.average[:] += 1e-12
        return scores


class KeepsItsWeights(RankNet):
    def take_weights(self, w):
        pass


BROKEN: list[tuple[str, Callable[[], LinearRanker]]] = [
    ("check_river_estimator", LearnsOnPredict),
    ("check_predicting_changes_nothing", GrowsOnPredict),
    ("check_predicting_changes_nothing", LearnsOnPredict),
    ("check_one_by_one_is_the_same_as_a_batch", ForgetsWeights),
    ("check_any_cut_of_a_batch_is_the_same", CountsBatches),
    ("check_returned_scores_are_those_served_before", ScoresAfterwards),
    ("check_restoring_is_going_on", ForgetsMomentum),
    ("check_restoring_is_going_on", ForgetsExamples),
    ("check_dirty_covers_what_changed", CleanLastBlock),
    ("check_dirty_covers_what_changed", CleanStep),
    ("check_dirty_covers_what_changed", CleanMerge),
    ("check_merging_laws", MergesByPosition),
    ("check_merging_laws", BecomesTheOther),
    ("check_merging_laws", MergesNothing),
    ("check_merging_by_columns", MergesByPosition),
    ("check_extreme_input_does_no_lasting_harm", Fragile),
    ("check_extreme_input_does_no_lasting_harm", Poisoned),
    ("check_one_outlier_does_no_lasting_harm", ScaledByOutliers),
    ("check_memory_is_bounded", Hoards),
    ("check_order_of_names_in_a_dict_is_irrelevant", KeepsDictOrder),
    ("check_nothing_to_learn_changes_no_score", Restless),
    ("check_weights_given_are_served", KeepsItsWeights),
    ("check_constant_features_get_no_weight", Restless),
]


@pytest.mark.parametrize(("name", "make"), BROKEN)
def test_a_check_refuses_the_learner_that_breaks_it(name, make):
    with pytest.raises(AssertionError):
        dict(yield_checks(make))[name]()


def test_every_check_has_a_learner_that_breaks_it():
    assert {name for name, _ in yield_checks(RankNet)} == {name for name, _ in BROKEN}


def test_check_ranker_runs_them_all_but_the_skipped():
    with pytest.raises(AssertionError, match="constant"):
        check_ranker(Restless, skip=[name for name, _ in BROKEN if name != BROKEN[-1][0]])


def test_skipping_a_check_that_does_not_exist_is_an_error():
    with pytest.raises(ValueError, match="there is no check"):
        list(yield_checks(RankNet, skip=["check_nothing"]))
