"""Slopes against central differences, pairs against their definition."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from streamrank.features.batch import BY_LABEL, EVERY_OTHER, EXPLICIT, SCORED
from streamrank.kernels.losses import (
    APPROXNDCG,
    LAMBDARANK,
    LISTMLE,
    LISTNET,
    NEURALNDCG,
    RANKNET,
    ROBIRANK,
    has_preference,
    list_loss,
    preference,
)

MODES = {"by label": BY_LABEL, "every other": EVERY_OTHER, "explicit": EXPLICIT, "scored": SCORED}
LOSSES = {
    "ranknet": RANKNET,
    "listnet": LISTNET,
    "listmle": LISTMLE,
    "lambdarank": LAMBDARANK,
    "approxndcg": APPROXNDCG,
    "neuralndcg": NEURALNDCG,
    "robirank": ROBIRANK,
    "robirank, type II": ROBIRANK,
}
KNOBS = {"approxndcg": 0.7, "neuralndcg": 1.3, "robirank": 1.0, "robirank, type II": 2.0}


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


def both(loss, s, y, c, mode, explicit=()):
    """Value and slope."""
    ds = np.full(len(s), np.nan)
    better = np.array([i for i, _, _ in explicit], np.int32)
    worse = np.array([j for _, j, _ in explicit], np.int32)
    pair_c = np.array([w for *_, w in explicit], np.float64)
    value = list_loss(LOSSES[loss], KNOBS.get(loss, 0.0), s, y, c, mode, better, worse, pair_c, ds)
    return value, ds


def slope(s, y, c, mode, explicit=(), loss="ranknet"):
    return both(loss, s, y, c, mode, explicit)[1]


def case(mode, seed, n=7):
    rng = np.random.default_rng(seed)
    y, c = rng.integers(0, 3, n).astype(float), rng.uniform(0, 3, n)
    c[0] = 0.0
    explicit = [
        (int(i), int(j), float(w)) for i, j, w in zip(*rng.integers(0, n, (2, 9)), rng.random(9), strict=True)
    ]
    return rng.normal(size=n) * 3, y, c, explicit if mode == EXPLICIT else []


@pytest.mark.parametrize("loss", LOSSES)
@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("mode", MODES.values(), ids=MODES)
def test_the_slope_is_the_derivative_of_the_value(mode, seed, loss):
    s, y, c, explicit = case(mode, seed)
    assert pairs_of(mode, y, c, explicit)
    h = 1e-4
    steps = h * np.eye(len(s))

    def value(t):
        return both(loss, t, y, c, mode, explicit)[0]

    # fourth order: (8 (f(h) - f(-h)) - (f(2h) - f(-2h)))/(12 h)
    numeric = [
        (8 * (value(s + e) - value(s - e)) - (value(s + 2 * e) - value(s - 2 * e))) / (12 * h) for e in steps
    ]
    ds = slope(s, y, c, mode, explicit, loss)
    assert np.abs(ds).max() > 1e-3
    np.testing.assert_allclose(ds, numeric, rtol=0, atol=1e-9)


def by_definition(loss, s, y, c, mode, pairs):
    """Each loss in plain words: what a list means, what a pair is."""
    m, odds = len(s), np.exp(s)
    labels = y * c if mode == SCORED else y
    gain = np.where((labels > 0) & (c > 0), labels if mode == SCORED else 2.0**y - 1, 0.0)
    weighted = gain if mode == SCORED else c * gain
    ideal = sum(a / math.log2(k + 2) for k, a in enumerate(sorted(gain, reverse=True)))
    places = {int(i): k for k, i in enumerate(np.argsort(-s, kind="stable"))}
    log = [math.log2(k + 2) for k in range(m)]
    if loss == "ranknet":
        return sum(w * math.log1p(math.exp(s[j] - s[i])) for i, j, w in pairs) / m
    if loss == "listnet":
        return float(weighted / gain.sum() @ -np.log(odds / odds.sum()))
    if loss == "listmle":
        drawn = {i: w for i, _, w in pairs}
        left = {i: [j for j in range(m) if mode == EVERY_OTHER or labels[j] <= labels[i]] for i in drawn}
        return sum(-w * math.log(odds[i] / sum(odds[left[i]])) for i, w in drawn.items()) / m
    if loss == "lambdarank":
        swap = {
            (i, j): abs((gain[i] - gain[j]) * (1 / log[places[i]] - 1 / log[places[j]])) / ideal
            for i, j, _ in pairs
        }
        return sum(
            w * swap[i, j] * math.log1p(math.exp(s[j] - s[i])) for i, j, w in pairs if gain[i] > gain[j]
        )
    if loss == "approxndcg":
        near = 1 / (1 + np.exp((s[:, None] - s[None, :]) / KNOBS[loss]))
        return -float(weighted @ (1 / np.log2(1.5 + near.sum(axis=1)))) / ideal  # each is half before itself
    if loss.startswith("robirank"):
        lost = [sum(math.log2(1 + 2 ** (s[j] - s[i])) for j in range(m) if j != i) for i in range(m)]
        robust = [1 - 1 / math.log2(2 + t) if "II" in loss else math.log2(1 + t) for t in lost]
        return float(weighted @ robust) / ideal
    apart = np.abs(s[:, None] - s).sum(axis=1)
    rows = np.exp([((m + 1 - 2 * k) * s - apart) / KNOBS[loss] for k in range(1, m + 1)])
    return -float((rows / rows.sum(axis=1, keepdims=True)) @ weighted @ (1 / np.array(log))) / ideal


@pytest.mark.parametrize("loss", LOSSES)
@pytest.mark.parametrize("mode", MODES.values(), ids=MODES)
def test_the_value_is_what_the_definition_says_in_every_mode(mode, loss):
    for seed in range(4):
        s, y, c, explicit = case(mode, seed)
        value = both(loss, s, y, c, mode, explicit)[0]
        if mode == EXPLICIT:  # each pair a list of two
            two, one = np.array([1.0, 0.0]), np.ones(2)
            expected = [
                by_definition(loss, s[[i, j]], two, w * one, BY_LABEL, [(0, 1, w)]) for i, j, w in explicit
            ]
            assert value == pytest.approx(2 / len(s) * sum(expected), rel=1e-12)
        else:
            pairs = pairs_of(mode, y, c, explicit)
            assert value == pytest.approx(by_definition(loss, s, y, c, mode, pairs), rel=1e-12)


@pytest.mark.parametrize("loss", LOSSES)
@pytest.mark.parametrize("mode", MODES.values(), ids=MODES)
def test_slopes_sum_to_nothing_and_scale_with_the_weights(mode, loss):
    s, y, c, explicit = case(mode, 11)
    ds = slope(s, y, c, mode, explicit, loss)
    assert abs(ds.sum()) < 1e-14
    tripled = slope(s, y, 3 * c, mode, [(i, j, 3 * w) for i, j, w in explicit], loss)
    np.testing.assert_allclose(tripled, ds if mode == SCORED else 3 * ds, rtol=1e-12, atol=1e-15)


@pytest.mark.parametrize("loss", LOSSES)
def test_the_order_of_the_rows_says_nothing(loss):
    s, y, c, _ = case(BY_LABEL, 3)
    order = np.random.default_rng(0).permutation(len(s))
    value, ds = both(loss, s, y, c, BY_LABEL)
    moved, slopes = both(loss, s[order], y[order], c[order], BY_LABEL)
    assert moved == pytest.approx(value, rel=1e-12)
    np.testing.assert_allclose(slopes, ds[order], rtol=1e-9, atol=1e-14)


@pytest.mark.parametrize("loss", LOSSES)
@pytest.mark.parametrize("y", [[1.0], [2.0, 2.0], [], [0.0, 0.0, 0.0]])
def test_a_list_that_says_nothing_has_no_slope(loss, y):
    y = np.array(y)
    ds = slope(np.zeros(len(y)), y, np.ones(len(y)), BY_LABEL, loss=loss)
    np.testing.assert_allclose(ds, np.zeros(len(y)), atol=1e-16)


def test_far_apart_scores_overflow_nothing():
    y, c = np.array([1.0, 0.0]), np.ones(2)
    np.testing.assert_array_equal(slope(np.array([-1e300, 1e300]), y, c, BY_LABEL), [-0.5, 0.5])
    assert 0 < slope(np.array([1e300, -1e300]), y, c, BY_LABEL)[1] < 1e-25


@pytest.mark.parametrize("ahead", [30.0, 800.0, 1e12])
def test_listmle_learns_the_rest_of_a_list_whose_first_row_is_far_ahead(ahead):
    rng = np.random.default_rng(0)
    s, y, c = rng.normal(size=6), np.array([2.0, 2.0, 1.0, 1.0, 0.0, 0.0]), rng.uniform(1, 2, 6)
    value, ds = both("listmle", s, y, c, BY_LABEL)
    # the one ahead is drawn first for sure, and is not there when the others are drawn
    more, slopes = both(
        "listmle", np.append(s, s.max() + ahead), np.append(y, 3.0), np.append(c, 1.0), BY_LABEL
    )
    np.testing.assert_allclose(7 * slopes, np.append(6 * ds, 0.0), rtol=1e-9, atol=1e-11)
    assert 7 * more == pytest.approx(6 * value, rel=1e-9)


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
