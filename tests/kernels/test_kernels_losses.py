"""Slopes against central differences, pairs against their definition."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from streamrank.features.batch import BY_LABEL, EVERY_OTHER, EXPLICIT, SCORED
from streamrank.kernels.losses import has_preference, preference, ranknet_slope

MODES = {"by label": BY_LABEL, "every other": EVERY_OTHER, "explicit": EXPLICIT, "scored": SCORED}
NO_ROWS = np.empty(0, np.int32)


def pairs_of(mode, y, c, explicit):
    rows = range(len(y))
    if mode == EXPLICIT:
        return explicit
    wins = {
        BY_LABEL: lambda i, j: c[i] if y[i] > y[j] else 0.0,
        EVERY_OTHER: lambda i, j: c[i] if y[i] > 0 else 0.0,  # noqa: ARG005
        SCORED: lambda i, j: 1.0 if y[i] * c[i] > y[j] * c[j] else 0.0,
    }[mode]
    return [(i, j, wins(i, j)) for i in rows for j in rows if i != j and wins(i, j) > 0]


def slope(s, y, c, mode, explicit=()):
    ds = np.full(len(s), np.nan)
    better = np.array([i for i, _, _ in explicit], np.int32)
    worse = np.array([j for _, j, _ in explicit], np.int32)
    ranknet_slope(s, y, c, mode, better, worse, np.array([w for *_, w in explicit], np.float64), ds)
    return ds


def case(mode, seed, n=7):
    rng = np.random.default_rng(seed)
    y, c = rng.integers(0, 3, n).astype(float), rng.uniform(0, 3, n)
    c[0] = 0.0
    explicit = [
        (int(i), int(j), float(w)) for i, j, w in zip(*rng.integers(0, n, (2, 9)), rng.random(9), strict=True)
    ]
    return rng.normal(size=n) * 3, y, c, explicit if mode == EXPLICIT else []


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("mode", MODES.values(), ids=MODES)
def test_the_slope_is_the_derivative_of_the_loss(mode, seed):
    s, y, c, explicit = case(mode, seed)
    pairs = pairs_of(mode, y, c, explicit)
    assert pairs

    def loss(s):
        return math.fsum(w * math.log1p(math.exp(s[j] - s[i])) for i, j, w in pairs) / len(s)

    h = 1e-5
    numeric = [(loss(s + h * e) - loss(s - h * e)) / (2 * h) for e in np.eye(len(s))]
    np.testing.assert_allclose(slope(s, y, c, mode, explicit), numeric, rtol=0, atol=1e-8)


@pytest.mark.parametrize("mode", MODES.values(), ids=MODES)
def test_slopes_sum_to_nothing_and_scale_with_the_weights(mode):
    s, y, c, explicit = case(mode, 11)
    ds = slope(s, y, c, mode, explicit)
    assert abs(ds.sum()) < 1e-15
    tripled = slope(s, y, 3 * c, mode, [(i, j, 3 * w) for i, j, w in explicit])
    np.testing.assert_allclose(tripled, ds if mode == SCORED else 3 * ds, rtol=1e-14)


def test_far_apart_scores_overflow_nothing():
    y, c = np.array([1.0, 0.0]), np.ones(2)
    np.testing.assert_array_equal(slope(np.array([-1e300, 1e300]), y, c, BY_LABEL), [-0.5, 0.5])
    assert 0 < slope(np.array([1e300, -1e300]), y, c, BY_LABEL)[1] < 1e-25


def test_explicit_pairs_without_weight_teach_nothing():
    s = np.zeros(3)
    ds = slope(s, s, s, EXPLICIT, [(0, 1, 0.0), (1, 2, -1.0), (2, 0, math.nan)])
    np.testing.assert_array_equal(ds, np.zeros(3))
    assert not has_preference(s, s, EXPLICIT, np.array([0.0, -1.0, math.nan]))


numbers = st.sampled_from([-1.0, 0.0, 0.5, 1.0, 2.0, math.nan, math.inf])


@settings(deadline=None)  # the first call compiles
@given(st.lists(st.tuples(numbers, numbers), max_size=5), st.sampled_from([BY_LABEL, EVERY_OTHER, SCORED]))
def test_a_list_has_a_preference_where_some_row_beats_another(rows, mode):
    y = np.array([label for label, _ in rows])
    c = np.array([weight for _, weight in rows])
    beats = [
        preference(mode, y[i], c[i], y[j], c[j]) > 0 for i in range(len(y)) for j in range(len(y)) if i != j
    ]
    assert has_preference(y, c, mode, np.empty(0)) == any(beats)
