"""SONG and K-SONG: slopes against differences, u against g, lambda against the K-th score."""

import math

import numpy as np
import pytest

from streamrank.kernels.losses.song import SongSettings, find_threshold, song

ALL = SongSettings(margin=1.0, gamma=1.0, top=0.0, tau1=0.1, tau2=1e-4, eta=0.0, gamma1=1.0, practical=False)


def unknown():
    return np.array([math.nan, math.nan, 0.0])


def run(s, y, c, settings, known, mode=0, u=None, query=None):
    ds = np.full(len(s), np.nan)
    u, query = np.zeros(len(s)) if u is None else u, unknown() if query is None else query
    return song(s, y, c, mode, settings, known, u, query, ds), ds


@pytest.mark.parametrize("mode", [0, 1, 3])
@pytest.mark.parametrize("top", [0.0, 2.0, 3.0])
@pytest.mark.parametrize("seed", range(4))
def test_the_slope_is_the_derivative_where_nothing_is_averaged(seed, top, mode):
    rng = np.random.default_rng(seed)
    s, y, c = rng.normal(size=7), rng.integers(0, 3, 7).astype(float), rng.uniform(0.2, 3, 7)
    y[0] = 2.0
    settings, h = ALL._replace(top=top, tau1=0.5), 1e-4
    value = [[run(s + k * e, y, c, settings, 12, mode)[0] for k in (1, -1, 2, -2)] for e in h * np.eye(7)]
    numeric = [(8 * (a - b) - (p - q)) / (12 * h) for a, b, p, q in value]
    _, ds = run(s, y, c, settings, 12, mode)
    assert abs(np.sum(numeric)) < (1e-9 if top == 0 else 1e-2)  # with lambda up to tau2 over its curvature
    np.testing.assert_allclose(ds, numeric - np.mean(numeric), rtol=0, atol=2e-9)
    assert np.abs(ds).max() > 1e-3
    assert abs(ds.sum()) < 1e-14


@pytest.mark.parametrize("n", [8, 20])
def test_the_value_over_a_whole_list_is_smooth_ndcg_and_never_better_than_the_places(n):
    rng = np.random.default_rng(n)
    s, y = rng.normal(size=n), rng.integers(0, 3, n).astype(float)
    u = np.zeros(n)
    value, _ = run(s, y, np.ones(n), ALL, n, u=u)
    g = np.maximum(0, s[None, :] - s[:, None] + 1.0) ** 2
    relevant = y > 0
    np.testing.assert_allclose(n * u[relevant], g.sum(axis=1)[relevant], rtol=1e-12)
    ranks = 1 + np.argsort(np.argsort(-s))
    assert (n * u >= ranks - 1e-12)[relevant].all()
    ideal = sum(a / math.log2(k + 2) for k, a in enumerate(sorted(2**y - 1, reverse=True)))
    expected = -((2**y - 1) / np.log2(1 + g.sum(axis=1)))[relevant].sum() / ideal
    assert value == pytest.approx(expected, rel=1e-12)


def test_u_comes_to_g_from_sampled_lists_the_nearer_the_smaller_gamma():
    rng = np.random.default_rng(0)
    n, shown = 40, 10
    s, y = rng.normal(size=n), (np.arange(n) < 8).astype(float)
    g = (np.maximum(0, s[None, :] - s[:, None] + 1.0) ** 2).mean(axis=1)

    def off(gamma):
        u, errors = np.zeros(n), []
        for k in range(6000):
            rows = rng.permutation(n)[:shown]
            some = u[rows]
            run(s[rows], y[rows], np.ones(shown), ALL._replace(gamma=gamma), n, u=some)
            u[rows] = some
            if k > 3000:
                errors.append(np.abs(u[:8] / g[:8] - 1).mean())
        return np.mean(errors)

    wide, narrow = off(0.1), off(0.01)
    assert narrow < 0.04
    assert narrow < 0.45 * wide  # as sqrt(gamma): .32


def test_without_the_own_pair_once_in_n_u_would_be_off():
    # all scores equal: every pair is margin^2, so g = margin^2 whatever is shown, and u is 1 - (1-gamma)^t
    u = np.zeros(5)
    for t in range(1, 30):
        run(np.zeros(5), np.array([1.0, 0, 0, 0, 0]), np.ones(5), ALL._replace(gamma=0.1), 50, u=u)
        assert u[0] == pytest.approx(1 - 0.9**t, rel=1e-12)
    assert u[1:].tolist() == [0.0] * 4


@pytest.mark.parametrize("k", [1, 3, 10])
def test_lambda_comes_to_lie_between_the_kth_score_and_the_next(k):
    rng = np.random.default_rng(k)
    n = 40
    s = np.sort(rng.permutation(n) * 0.5 - 10)[::-1].copy()
    # half of the first that is not in the K counts as above: lambda lies on it, up to tau
    assert s[k] - 0.05 < find_threshold(s, (k + 0.5) / n, 0.05, 1e-4) < s[k - 1]
    query = np.array([0.3, math.nan, 0.0])  # anywhere: it moves there
    settings = ALL._replace(top=float(k), eta=0.5, tau1=0.3)
    for _ in range(4000):
        run(s, (np.arange(n) == 0).astype(float), np.ones(n), settings, n, query=query)
    assert s[k] - 0.3 < query[0] < s[k - 1]


def test_a_new_item_is_not_infinitely_steep_and_a_query_of_k_items_has_no_threshold():
    _, ds = run(np.array([9.0, 0.0, 0.0]), np.array([1.0, 0, 0]), np.ones(3), ALL._replace(gamma=1e-9), 3)
    assert np.isfinite(ds).all()
    small, whole = (
        run(np.arange(3.0), np.array([1.0, 0, 0]), np.ones(3), ALL._replace(top=t), 3) for t in (3, 0)
    )
    np.testing.assert_array_equal(small[1], whole[1])


def test_clicks_are_taken_by_the_list_at_hand_and_judged_lists_by_the_average():
    rng = np.random.default_rng(5)
    s, y = rng.normal(size=6), np.array([1.0, 0.0, 0.0, 1.0, 0.0, 0.0])
    slow = ALL._replace(gamma=0.1)

    def moved(settings, c, mode):
        u = np.full(6, 0.5)
        _, ds = run(s, y, c, settings, 12, mode, u)
        return np.concatenate([u, ds])

    for c, mode in ((np.ones(6), 1), (y.copy(), 0), (np.ones(6), 3)):  # IPS, clicks over unclicked, scored
        np.testing.assert_array_equal(moved(slow, c, mode), moved(ALL, c, mode))
    assert (moved(slow, np.ones(6), 0) != moved(ALL, np.ones(6), 0))[[0, 3]].all()
