"""The running means, and how they sit in river."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from river import cluster, evaluate, linear_model, preprocessing, utils
from river import metrics as river_metrics
from river.base import Regressor

from streamrank.errors import ConfigError
from streamrank.metrics import functions
from streamrank.metrics import running as metrics

COMPILED = settings(deadline=None, max_examples=40)  # the first example compiles; nine metrics
CLASSES = [
    metrics.NDCG,
    metrics.DCG,
    metrics.MRR,
    metrics.MAP,
    metrics.PrecisionAt,
    metrics.RecallAt,
    metrics.HitAt,
    metrics.PairwiseError,
    metrics.ListRMS,
]
AT_K = [metrics.NDCG, metrics.DCG, metrics.PrecisionAt, metrics.RecallAt, metrics.HitAt]
# the function that each class averages, and what it takes besides labels and scores
AVERAGES = [
    (metrics.NDCG(k=3), functions.ndcg, (3,)),
    (metrics.DCG(k=3), functions.dcg, (3,)),
    (metrics.MRR(), functions.reciprocal_rank, ()),
    (metrics.MAP(), functions.average_precision, ()),
    (metrics.PrecisionAt(k=3), functions.precision_at, (3,)),
    (metrics.RecallAt(k=3), functions.recall_at, (3,)),
    (metrics.HitAt(k=3), functions.hit_at, (3,)),
    (metrics.PairwiseError(), functions.pairwise_error, ()),
    (metrics.ListRMS(), functions.rms, ()),
]
JUDGED = st.lists(st.tuples(st.integers(0, 3), st.floats(-2, 2)), min_size=1, max_size=8).map(
    lambda pairs: tuple(zip(*pairs, strict=True))
)
WEIGHTED = st.lists(st.tuples(JUDGED, st.floats(0.1, 10)), min_size=1, max_size=10)


@pytest.mark.parametrize(("metric", "function", "more"), AVERAGES, ids=lambda v: getattr(v, "name", ""))
@COMPILED
@given(stream=WEIGHTED)
def test_a_metric_is_the_weighted_mean_over_the_lists_that_have_a_value(metric, function, more, stream):
    metric = metric.clone()
    values, weights = [], []
    for (y, scores), w in stream:
        metric.update(y, scores, w)
        value = function(np.array(y, np.float64), np.array(scores), *more)
        if not math.isnan(value):
            values.append(value)
            weights.append(w)
    assert metric.n_lists == len(values)
    assert metric.get() == pytest.approx(np.average(values, weights=weights) if values else 0.0)


@pytest.mark.parametrize("cls", CLASSES)
@COMPILED
@given(stream=WEIGHTED, later=WEIGHTED)
def test_update_then_revert_returns_to_the_same_value(cls, stream, later):
    metric = cls()
    for judged, w in stream:
        metric.update(*judged, w)
    before = metric.get()
    for judged, w in later:
        metric.update(*judged, w)
    for judged, w in later:
        metric.revert(*judged, w)
    assert metric.get() == pytest.approx(before, abs=1e-12, rel=1e-12)
    for judged, w in stream:
        metric.revert(*judged, w)
    assert (metric.get(), metric.n_lists) == (0.0, 0)


def test_a_list_of_huge_gain_leaves_no_trace_when_reverted():
    metric = metrics.DCG()
    metric.update([1, 0], [0.1, 0.2])
    before = metric.get()
    metric.update([500, 0], [0.2, 0.1])
    assert metric.get() > 1e100
    metric.revert([500, 0], [0.2, 0.1])
    assert metric.get() == before > 0.0


@pytest.mark.parametrize("cls", CLASSES)
def test_nothing_seen_is_zero_as_in_river(cls):
    assert cls().get() == 0.0 == river_metrics.RMSE().get()


def test_a_list_without_a_relevant_item_changes_nothing():
    metric = metrics.NDCG()
    metric.update([0, 1], [0.2, 0.1])
    before = metric.get()
    metric.update([0, 0], [0.2, 0.1])
    metric.update([], [])
    assert metric.get() == before
    metric.revert([0, 0], [0.2, 0.1])
    assert (metric.get(), metric.n_lists) == (before, 1)


def test_an_infinite_value_is_left_out_so_the_mean_recovers_from_a_diverged_model():
    metric = metrics.ListRMS()
    metric.update([0, 1], [math.inf, 0.0])
    metric.update([0, 1], [1.0, 1.0])
    assert metric.get() == pytest.approx(math.sqrt(0.5))


def test_lists_tuples_and_arrays_of_any_layout_are_the_same():
    y, scores = [0, 2, 1], [0.3, 0.2, 0.1]
    strided = np.array([y, y]).T[:, 0]
    expected = functions.ndcg(np.array(y, np.float64), np.array(scores), 10)
    for labels in (y, tuple(y), np.array(y, np.int8), strided):
        metric = metrics.NDCG()
        metric.update(labels, np.array(scores))
        assert metric.get() == expected


def test_a_single_number_is_refused_for_it_is_no_list():
    with pytest.raises(ValueError, match="NDCG@10 takes the labels and the scores of one list"):
        metrics.NDCG().update(1.0, 0.3)
    with pytest.raises(ValueError, match="differ in length"):
        metrics.NDCG().update([1.0], [0.3, 0.2])


def test_reverting_more_than_was_updated_is_refused():
    with pytest.raises(ValueError, match="never updated"):
        metrics.MRR().revert([0, 1], [0.2, 0.1])


@pytest.mark.parametrize("cls", AT_K)
def test_a_negative_cut_is_refused_at_construction(cls):
    with pytest.raises(ConfigError, match="k = -1"):
        cls(k=-1)


@pytest.mark.parametrize(
    ("metric", "text"),
    [
        (metrics.NDCG(), "NDCG@10: 0.0000"),
        (metrics.NDCG(k=0), "NDCG: 0.0000"),
        (metrics.PrecisionAt(k=5), "Precision@5: 0.0000"),
        (metrics.MAP(), "MAP: 0.0000"),
        (metrics.PairwiseError(), "PairwiseError: 0.0000"),
    ],
)
def test_a_metric_prints_its_name_its_cut_and_its_value(metric, text):
    assert repr(metric) == str(metric) == text


@pytest.mark.parametrize("cls", CLASSES)
def test_a_clone_has_the_parameters_and_none_of_the_data(cls):
    metric = cls(k=3) if cls in AT_K else cls()
    metric.update([2, 0], [0.1, 0.2])
    fresh = metric.clone()
    assert (fresh.name, fresh.get(), fresh.n_lists) == (metric.name, 0.0, 0)
    assert metric.n_lists == 1


def test_errors_are_better_small_and_the_rest_better_big():
    small = {cls for cls in CLASSES if not cls().bigger_is_better}
    assert small == {metrics.PairwiseError, metrics.ListRMS}
    good, bad = metrics.PairwiseError(), metrics.PairwiseError()
    good.update([1, 0], [0.2, 0.1])
    bad.update([1, 0], [0.1, 0.2])
    assert good.is_better_than(bad)


def test_metrics_add_up_to_a_composition_that_updates_each():
    both = metrics.NDCG(k=5) + metrics.MRR() + metrics.PairwiseError()
    both.update([0, 1], [0.2, 0.1])
    assert both.get() == [pytest.approx(1 / math.log2(3)), 0.5, 1.0]
    assert repr(both) == "NDCG@5: 0.6309\nMRR: 0.5000\nPairwiseError: 1.0000"
    both.revert([0, 1], [0.2, 0.1])
    assert both.get() == [0.0, 0.0, 0.0]
    with pytest.raises(ValueError, match="not compatible"):
        metrics.NDCG() + river_metrics.MAE()


def test_a_rolling_metric_equals_the_mean_of_its_window():
    rng = np.random.default_rng(1)
    stream = [(rng.integers(0, 2, 6).astype(np.float64), rng.normal(size=6)) for _ in range(200)]
    rolling = utils.Rolling(metrics.MAP, window_size=20)
    for judged in stream:
        rolling.update(*judged)
    window = [v for judged in stream[-20:] if not math.isnan(v := functions.average_precision(*judged))]
    assert rolling.get() == pytest.approx(np.mean(window), abs=1e-12)


def test_works_with_what_scores_items():
    metric = metrics.NDCG()
    scaler = preprocessing.StandardScaler
    assert metric.works_with(linear_model.LinearRegression())
    assert metric.works_with(scaler() | linear_model.LinearRegression())
    assert not metric.works_with(linear_model.LogisticRegression())
    assert not metric.works_with(scaler() | linear_model.LogisticRegression())
    assert not metric.works_with(cluster.KMeans())
    assert not metric.works_with(scaler())


class ByPrice(Regressor):
    """Scores a whole list: x holds the prices by item, the answer is a score for each."""

    def learn_one(self, x, y):
        pass

    def predict_one(self, x):
        return [-price for price in x.values()]


def test_river_evaluates_a_ranker_of_lists_with_several_metrics_at_once():
    dataset = [({"a": 3.0, "b": 1.0}, [1, 0]), ({"a": 1.0, "b": 2.0}, [1, 0]), ({"a": 1.0}, [0])]
    result = evaluate.progressive_val_score(dataset, ByPrice(), metrics.MRR() + metrics.PairwiseError())
    assert result.get() == [0.75, 0.5]
