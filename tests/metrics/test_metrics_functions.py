"""One list at a time, against slow plain Python twins and scikit-learn."""

import math

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from sklearn.metrics import average_precision_score, dcg_score, label_ranking_loss, ndcg_score, roc_auc_score

from streamrank.metrics import functions as metrics
from streamrank.metrics.functions import INSERTION, MAX_LABEL

COMPILED = settings(deadline=None)  # the first example compiles
NAN, INF = math.nan, math.inf
SCORES = st.sampled_from([0.0, -0.0, 1.0, -1.0, 0.5, 2.5, INF, -INF, NAN]) | st.floats(-3, 3)
LABELS = st.sampled_from([0.0, 0.0, 0.0, 1.0, 2.0, 4.0, -1.0, 0.5, 60.0, NAN])


@st.composite
def ranked_lists(draw, max_size=INSERTION + 10):
    pairs = draw(st.lists(st.tuples(LABELS, SCORES), max_size=max_size))
    return np.array([y for y, _ in pairs], np.float64), np.array([s for _, s in pairs], np.float64)


def slow_order(scores):
    return sorted(
        range(len(scores)), key=lambda i: (math.isnan(scores[i]), 0 if math.isnan(scores[i]) else -scores[i])
    )


def slow_dcg(labels, k):
    labels = labels[:k] if k else labels
    return math.fsum((2**y - 1) / math.log2(rank + 1) for rank, y in enumerate(labels, 1) if y > 0)


def slow(name, y, scores, k=0):
    """The definition of each metric, written for reading."""
    by_rank = [y[i] for i in slow_order(scores)]
    top = by_rank[:k] if k else by_rank
    relevant_ranks = [rank for rank, label in enumerate(by_rank, 1) if label > 0]
    if not relevant_ranks:
        return NAN
    hits = sum(label > 0 for label in top)
    match name:
        case "dcg":
            return slow_dcg(by_rank, k)
        case "ndcg":
            return slow_dcg(by_rank, k) / slow_dcg(sorted((v for v in y if v > 0), reverse=True), k)
        case "reciprocal_rank":
            return 1 / relevant_ranks[0]
        case "average_precision":
            precisions = [n / rank for n, rank in enumerate(relevant_ranks, 1)]
            return sum(precisions) / len(precisions)
        case "precision_at":
            return hits / (k or len(y))
        case "recall_at":
            return hits / len(relevant_ranks)
        case "hit_at":
            return float(hits > 0)
    raise AssertionError(name)


def slow_pairwise_error(y, scores):
    keys = [(0, 0.0) if math.isnan(s) else (1, s) for s in scores]  # NaN below -inf
    heaviside = [
        1.0 if keys[j] > keys[i] else 0.5 if keys[j] == keys[i] else 0.0
        for i in range(len(y))
        for j in range(len(y))
        if y[i] > y[j]
    ]
    return sum(heaviside) / len(heaviside) if heaviside else NAN


def same(a, b, rel=1e-12):
    return (math.isnan(a) and math.isnan(b)) or a == pytest.approx(b, rel=rel, abs=1e-14)


@COMPILED
@given(ranked_lists())
def test_ranked_is_the_stable_descending_order_with_nan_last(judged):
    _, scores = judged
    assert metrics.ranked(scores).tolist() == slow_order(scores)


@pytest.mark.parametrize("name", ["dcg", "ndcg", "precision_at", "recall_at", "hit_at"])
@COMPILED
@given(judged=ranked_lists(), k=st.integers(0, 12))
def test_metrics_of_the_first_k_ranks_equal_their_definition(name, judged, k):
    assert same(getattr(metrics, name)(*judged, k), slow(name, *judged, k))


@pytest.mark.parametrize("name", ["reciprocal_rank", "average_precision"])
@COMPILED
@given(judged=ranked_lists())
def test_metrics_of_the_whole_list_equal_their_definition(name, judged):
    assert same(getattr(metrics, name)(*judged), slow(name, *judged))


@COMPILED
@given(ranked_lists())
@example((np.array([1.0, 0.0]), np.array([NAN, NAN])))
@example((np.array([1.0, 0.0]), np.array([NAN, -INF])))
def test_pairwise_error_equals_its_definition(judged):
    assert same(metrics.pairwise_error(*judged), slow_pairwise_error(*judged))


@COMPILED
@given(st.lists(st.tuples(st.floats(-5, 5), st.floats(-5, 5)), min_size=1, max_size=40))
def test_rms_equals_its_definition(pairs):
    expected = math.sqrt(math.fsum((s - y) ** 2 for y, s in pairs) / len(pairs))
    y, scores = np.array(pairs).T.copy()
    assert same(metrics.rms(y, scores), expected)


def no_ties(n, seed):
    rng = np.random.default_rng(seed)
    y = rng.integers(0, 5, n).astype(np.float64)
    y[0], y[-1] = 1.0, 0.0
    return y, rng.permutation(n) / n


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("n", [2, 10, 50])
@pytest.mark.parametrize("k", [0, 1, 3, 10])
def test_dcg_and_ndcg_equal_those_of_scikit_learn_given_exponential_gains(n, seed, k):
    y, scores = no_ties(n, seed)
    gains = [2**y - 1]
    assert metrics.dcg(y, scores, k) == pytest.approx(dcg_score(gains, [scores], k=k or None))
    assert metrics.ndcg(y, scores, k) == pytest.approx(ndcg_score(gains, [scores], k=k or None))


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("n", [2, 10, 50])
def test_binary_metrics_equal_those_of_scikit_learn(n, seed):
    y, scores = no_ties(n, seed)
    clicked = (y > 0).astype(np.float64)
    assert metrics.average_precision(y, scores) == pytest.approx(average_precision_score(clicked, scores))
    error = metrics.pairwise_error(clicked, scores)
    assert error == pytest.approx(label_ranking_loss([clicked], [scores]))
    assert error == pytest.approx(1.0 - roc_auc_score(clicked, scores))
    tied = np.round(scores * 3)  # the ROC area, too, counts a tie as a half
    assert metrics.pairwise_error(clicked, tied) == pytest.approx(1.0 - roc_auc_score(clicked, tied))


@COMPILED
@given(ranked_lists(), st.integers(0, 12))
def test_the_order_of_the_labels_themselves_is_the_best_there_is(judged, k):
    y, scores = judged
    if np.any(y > 0):
        assert metrics.ndcg(y, y, k) == 1.0
        assert 0.0 <= metrics.ndcg(y, scores, k) <= 1.0 + 1e-15
    if np.any(y[:, None] > y):
        assert metrics.pairwise_error(y, y) == 0.0
        assert 0.0 <= metrics.pairwise_error(y, scores) <= 1.0


def test_tied_scores_keep_their_input_order_on_both_sides_of_the_change_of_sort():
    for n in (3, INSERTION, INSERTION + 1, 500):
        scores = np.zeros(n)
        assert metrics.ranked(scores).tolist() == list(range(n))
        last_relevant = np.zeros(n)
        last_relevant[-1] = 1.0
        assert metrics.reciprocal_rank(last_relevant, scores) == 1.0 / n
        assert metrics.reciprocal_rank(last_relevant[::-1].copy(), scores) == 1.0
        assert metrics.pairwise_error(last_relevant, scores) == 0.5


def test_a_list_without_a_relevant_item_has_no_value():
    scores = np.array([0.3, 0.1])
    for y in (np.zeros(2), np.array([-1.0, 0.0]), np.array([NAN, 0.0])):
        for name in ("dcg", "ndcg", "precision_at", "recall_at", "hit_at"):
            assert math.isnan(getattr(metrics, name)(y, scores, 1)), name
        for name in ("reciprocal_rank", "average_precision"):
            assert math.isnan(getattr(metrics, name)(y, scores)), name


def test_only_pairwise_error_needs_two_different_labels():
    y, scores = np.ones(2), np.array([0.3, 0.1])
    assert math.isnan(metrics.pairwise_error(y, scores))
    assert metrics.ndcg(y, scores, 0) == 1.0
    assert metrics.pairwise_error(np.array([-1.0, 0.0]), scores) == 1.0  # different, though none is relevant


def test_an_empty_list_has_no_value():
    none = np.empty(0)
    for name in ("dcg", "ndcg", "precision_at", "recall_at", "hit_at"):
        assert math.isnan(getattr(metrics, name)(none, none, 0)), name
    for name in ("reciprocal_rank", "average_precision", "pairwise_error", "rms"):
        assert math.isnan(getattr(metrics, name)(none, none)), name


def test_precision_divides_by_k_also_when_the_list_is_shorter():
    y, scores = np.array([1.0, 0.0]), np.array([0.2, 0.1])
    assert metrics.precision_at(y, scores, 5) == 0.2
    assert metrics.precision_at(y, scores, 0) == 0.5


def test_labels_too_large_for_their_gain_are_capped_and_stay_finite():
    scores = np.arange(3.0)
    assert metrics.ndcg(np.array([60.0, 59.0, 0.0]), scores, 0) == pytest.approx(
        slow("ndcg", [60.0, 59.0, 0.0], scores)
    )
    huge = np.array([5000.0, INF, 1.0])
    capped = np.minimum(huge, MAX_LABEL)
    assert metrics.dcg(huge, scores, 0) == metrics.dcg(capped, scores, 0) < INF
    assert 0.0 < metrics.ndcg(huge, scores, 0) < 1.0


def test_labels_and_scores_of_different_length_are_refused():
    for name in ("dcg", "ndcg", "precision_at", "recall_at", "hit_at"):
        with pytest.raises(ValueError, match="differ in length"):
            getattr(metrics, name)(np.ones(2), np.ones(3), 1)
    for name in ("reciprocal_rank", "average_precision", "pairwise_error", "rms"):
        with pytest.raises(ValueError, match="differ in length"):
            getattr(metrics, name)(np.ones(2), np.ones(3))


@COMPILED
@given(st.lists(ranked_lists(), max_size=6), st.integers(0, 12))
def test_list_metrics_has_the_bits_of_the_single_functions(judged, k):
    lists = np.cumsum([0, *(len(y) for y, _ in judged)]).astype(np.int64)
    y = np.concatenate([np.empty(0), *(y for y, _ in judged)])
    scores = np.concatenate([np.empty(0), *(s for _, s in judged)])
    expected = np.array(
        [(metrics.ndcg(*j, k), metrics.reciprocal_rank(*j), metrics.pairwise_error(*j)) for j in judged]
    ).reshape(-1, 3)
    values = metrics.list_metrics(lists, y, scores, k)
    assert values.shape == expected.shape
    assert values.tobytes() == expected.tobytes()


@pytest.mark.parametrize("borders", [[0, 3], [2, 1], [-1, 1]])
def test_borders_outside_the_labels_are_refused(borders):
    with pytest.raises(ValueError, match="borders"):
        metrics.list_metrics(np.array(borders), np.ones(2), np.ones(2), 0)
