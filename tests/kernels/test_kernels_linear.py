"""Averages, scales and scores of the linear kernel, each against its definition."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from streamrank.kernels.columns import AVERAGE, INTS, INVERSE, KEPT
from streamrank.kernels.linear import score
from streamrank.kernels.weights import (
    LARGEST,
    Weights,
    averaged,
    decay,
    inverse_scale,
    inverse_scales,
    unbias,
    usual_range,
)


def weights(n, **arrays):
    fields = {name: np.zeros(n) for name in Weights._fields} | arrays
    integer = {name: np.asarray(fields[name], np.int64) for name in ("last", "touches", "seen", "filled")}
    return Weights(**{name: np.asarray(value, np.float64) for name, value in fields.items()} | integer)


@settings(deadline=None)  # the first call compiles
@given(st.integers(1, 400), st.integers(0, 400), st.integers(1, 80))
def test_decay_is_the_product_over_the_steps_between(s, more, horizon):
    left = math.prod(1 - max(3 / (k + 2), 1 / horizon) for k in range(s + 1, s + more + 1))
    assert decay(s, s + more, horizon) == pytest.approx(left, rel=1e-11, abs=1e-300)


@settings(deadline=None)  # the first call compiles
@given(st.integers(1, 10**6), st.integers(0, 10**6), st.integers(0, 10**6), st.integers(2, 10**5))
def test_decay_of_two_rests_is_the_product_of_both(s, first, second, horizon):
    whole = decay(s, s + first + second, horizon)
    parts = decay(s, s + first, horizon) * decay(s + first, s + first + second, horizon)
    assert parts == pytest.approx(whole, rel=1e-9, abs=1e-300)


@pytest.mark.parametrize("horizon", [1, 7, 50])
def test_a_resting_average_equals_one_moved_every_step(horizon):
    rng = np.random.default_rng(horizon)
    n, steps = 6, 200
    w, eager = np.zeros(n), np.zeros(n)
    lazy, last = np.zeros(n), np.zeros(n, np.int64)
    for t in range(1, steps + 1):
        touched = rng.random(n) < [1.0, 0.5, 0.1, 0.02, 0.3, 0.0]
        a = max(3 / (t + 2), 1 / horizon)
        current = averaged(weights(n, w=w, average=lazy, last=last), t - 1, horizon)
        np.testing.assert_allclose(current, eager, rtol=0, atol=1e-12)
        w = np.where(touched, w + rng.normal(size=n), w)
        eager += a * (w - eager)
        lazy = np.where(touched, current + a * (w - current), lazy)
        last = np.where(touched, t, last)
    assert (last[:5] > 0).all()
    assert eager[5] == 0.0


@settings(deadline=None)  # the first call compiles
@given(st.lists(st.floats(-1e6, 1e6), min_size=2, max_size=50), st.sampled_from([0.0, 1.0, -1e9]))
def test_inverse_scale_is_one_over_the_standard_deviation(values, offset):
    x = np.array(values) + offset
    d = x - x[0]
    inverse = inverse_scale(len(x), x[0], d.sum(), (d * d).sum())
    spread, size = np.std(x), abs(np.mean(x))
    if spread > 1e-5 * size and spread > 1e-3 * np.abs(d).max():
        assert 1 / inverse == pytest.approx(spread, rel=1e-6)
    assert 0 < inverse < math.inf


@pytest.mark.parametrize(
    ("sums", "expected"),
    [
        ((0, 0.0, 0.0, 0.0), 1.0),  # never seen
        ((5, 0.0, 0.0, 0.0), 1.0),  # always 0
        ((5, -4.0, 0.0, 0.0), 0.25),  # constant
        ((3, 1e-300, 0.0, 0.0), 1.0),  # as good as 0
        ((4, 1e20, 0.0, 0.0), 1e-20),
    ],
)
def test_a_column_without_spread_is_scaled_by_its_size(sums, expected):
    assert inverse_scale(*sums) == pytest.approx(expected, rel=1e-12)
    count, pivot, total, square = sums
    column = weights(1, seen=[count], pivot=[pivot], total=[total], square=[square])
    assert inverse_scales(column)[0] == inverse_scale(*sums)


@settings(deadline=None)  # the first call compiles
@given(st.sampled_from([0.9, 0.999]), st.integers(1, 40_000))
def test_unbias_is_what_the_moments_of_a_constant_gradient_are_short_of(beta, touches):
    assert unbias(beta, touches) == pytest.approx(1 - beta**touches, rel=1e-8)


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        ([1.0, 3.0] * 16, (-8.0, 12.0)),  # 10 scales about the mean
        ([1.0, 3.0] * 15, (-math.inf, math.inf)),  # young
        ([0.0] * 500, (-math.inf, math.inf)),  # no scale yet
        ([4.0] * 50, (-36.0, 44.0)),  # constant
        ([-2.0] * 7 + [0.0] * 9992, (-math.inf, math.inf)),  # zeros say nothing of other values
        ([-2.0] * 8 + [0.0] * 9992, (-20.0, 20.0)),  # rare values are no outliers
        (
            [1e3, *[1e3 + 1.0] * 9999],
            (1e3 + 0.9, 1e3 + 1.1 - 2e-4),
        ),  # nor is 0 usual where values are far from it
    ],
)
def test_the_usual_range_is_ten_scales_about_the_mean_or_what_is_rare_among_zeros(values, expected):
    d = np.array(values) - values[0]
    count, pivot, total, square = len(d), values[0], d.sum(), (d * d).sum()
    filled, inverse = np.count_nonzero(values), inverse_scale(count, pivot, total, square)
    found = usual_range(count, filled, pivot, total, square, inverse)
    assert found == pytest.approx(expected, rel=1e-6)


def scored(dense, average, inverse):
    n, m = dense.shape
    out = np.full(n, np.nan)
    indptr = np.arange(0, n * m + 1, m)
    columns = np.tile(np.arange(m, dtype=np.int32), n)
    floats, counts = np.zeros((KEPT, len(average))), np.zeros((INTS, len(average)), np.int64)
    floats[AVERAGE], floats[INVERSE] = average, inverse
    score(indptr, columns, dense.ravel(), floats, counts, 9, 5, out)
    return out


def test_a_score_is_the_product_with_the_scaled_values_and_unknown_columns_count_nothing():
    rng = np.random.default_rng(0)
    X, average, inverse = rng.normal(size=(6, 5)), rng.normal(size=3), rng.random(3)
    np.testing.assert_allclose(scored(X, average, inverse), X[:, :3] @ (average * inverse), rtol=1e-13)


def test_scores_are_finite_whatever_the_values():
    X = np.array([[1e308, 1e308], [-1e308, -1e308], [1e308, -1e308], [math.nan, 1.0], [math.inf, 1.0]])
    out = scored(X, np.array([5.0, 5.0]), np.ones(2))
    assert out.tolist() == [LARGEST, -LARGEST, 0.0, 0.0, LARGEST]
