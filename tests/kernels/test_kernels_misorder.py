"""Counting misordered pairs by sorting, against comparing every pair."""

import itertools

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from streamrank.kernels.misorder import PairwiseError
from streamrank.metrics.functions import pairwise_error


def plain(y, lists, scores):
    """Mean over the lists that have a value."""
    return np.nanmean([pairwise_error(y[a:b], scores[a:b]) for a, b in itertools.pairwise(lists)])


@settings(max_examples=60)
@given(
    st.integers(1, 300),
    st.integers(2, 40),
    st.integers(1, 60),
    st.lists(st.integers(1, 299)),
    st.integers(0, 10**6),
)
def test_the_error_is_the_mean_of_the_plain_one_to_the_bit(m, n_labels, n_scores, cuts, seed):
    rng = np.random.default_rng(seed)
    lists = np.unique([0, *(c for c in cuts if c < m), m])
    y = rng.integers(0, n_labels, m) / 3.0 - 1.0
    scores = rng.integers(0, n_scores, m) / 7.0  # many ties
    error = PairwiseError(y, lists)
    values = [pairwise_error(y[a:b], scores[a:b]) for a, b in itertools.pairwise(lists)]
    values = [value for value in values if not np.isnan(value)]
    assert error.n_lists == len(values)
    if values:
        assert error.one(scores) == np.mean(values)
    else:
        assert np.isnan(error.one(scores))


def test_long_lists_without_ties_are_counted_too():
    rng = np.random.default_rng(0)
    y, scores = rng.standard_normal((2, 3000))
    lists = np.array([0, 2000, 2050, 3000])
    assert PairwiseError(y, lists).one(scores) == plain(y, lists, scores)
    assert PairwiseError(y, lists).one(y) == 0.0
    assert PairwiseError(y, lists).one(-y) == 1.0
    assert PairwiseError(y, lists).one(np.zeros(3000)) == 0.5


def test_every_column_of_scores_has_its_error():
    rng = np.random.default_rng(1)
    y, scores, lists = (
        rng.integers(0, 3, 200).astype(float),
        rng.standard_normal((200, 4)),
        np.array([0, 90, 200]),
    )
    np.testing.assert_array_equal(
        PairwiseError(y, lists)(scores), [plain(y, lists, np.ascontiguousarray(s)) for s in scores.T]
    )


def test_long_and_short_lists_count_alike_and_those_without_a_pair_not():
    y = np.r_[np.zeros(100), 1.0, 1.0, 0.0, np.ones(5)]
    scores = np.r_[np.zeros(100), 1.0, 0.0, 1.0, np.arange(5.0)]
    error = PairwiseError(y, np.array([0, 101, 103, 103, 108]))
    assert (error.n_lists, error.one(scores)) == (2, 0.5)  # 0 of the long one, 1 of the short one
