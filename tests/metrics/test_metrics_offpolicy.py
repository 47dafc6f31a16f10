"""Off-policy estimates against users whose attraction and examination are known."""

import numpy as np
import pytest

from streamrank.metrics.offpolicy import off_policy

THETA = 1.0 / np.arange(1, 7)
ATTRACTION = np.array([0.9, 0.7, 0.5, 0.3, 0.2, 0.1])  # of items 0 to 5
CANDIDATE = np.array([5, 3, 0, 1, 4, 2])  # the rank it gives each item


def clicks(rng, n_lists):
    """A logger that likes the worst items, with some chance in it: list, item and rank of every click."""
    noise = rng.gumbel(size=(n_lists, 6))
    order = np.argsort(0.4 * np.arange(6) + noise, axis=1)[:, ::-1]  # place -> item
    clicked = rng.random(order.shape) < THETA * ATTRACTION[order]
    lists, ranks = np.nonzero(clicked)
    return lists, order[lists, ranks], ranks


def estimates(rng, n_lists, clip=100.0, shift=0.0, scale=1.0):
    lists, items, ranks = clicks(rng, n_lists)
    theta = scale * THETA
    there = theta[CANDIDATE[items]] + shift
    return off_policy(lists, np.ones(len(lists)), theta[ranks], there, n_lists, clip)


TRUTH = float(THETA[CANDIDATE] @ ATTRACTION)
LIKED = float(THETA[CANDIDATE] @ ATTRACTION / ATTRACTION.sum())


def test_ips_and_snips_meet_the_truth_and_counting_clicks_does_not():
    rng = np.random.default_rng(1)
    found = estimates(rng, 20_000)
    assert abs(found.ips.value - TRUTH) < 3 * found.ips.error
    assert abs(found.snips.value - LIKED) < 3 * found.snips.error
    assert found.ips.error < 0.02 * TRUTH
    lists, items, _ = clicks(rng, 20_000)
    taken_at_their_word = off_policy(
        lists, np.ones(len(lists)), np.ones(len(lists)), THETA[CANDIDATE[items]], 20_000, 9.0
    )
    assert abs(taken_at_their_word.ips.value - TRUTH) > 10 * taken_at_their_word.ips.error


def test_the_mean_over_many_logs_is_the_truth_and_the_intervals_cover_it():
    rng = np.random.default_rng(2)
    many = [estimates(rng, 300) for _ in range(600)]
    for of, truth in (("ips", TRUTH), ("snips", LIKED)):
        some = [getattr(found, of) for found in many]
        values = np.array([one.value for one in some])
        assert abs(values.mean() - truth) < 3 * values.std() / np.sqrt(len(values))
        covered = np.mean([one.low <= truth <= one.high for one in some])
        assert 0.92 < covered < 0.98
        assert np.mean([one.error for one in some]) == pytest.approx(values.std(), rel=0.1)


def test_clipping_errs_downwards_and_varies_less():
    rng = np.random.default_rng(3)
    many = [estimates(rng, 200, clip=2.0) for _ in range(200)]
    assert all(found.clipped.value <= found.ips.value for found in many)
    clipped, plain = (np.array([getattr(f, of).value for f in many]) for of in ("clipped", "ips"))
    assert clipped.mean() < TRUTH - 10 * clipped.std() / np.sqrt(200)
    assert clipped.std() < 0.8 * plain.std()
    loose = estimates(np.random.default_rng(4), 200, clip=6.0)  # no weight is larger than theta_1/theta_6
    assert loose.clipped == loose.ips


def test_a_constant_added_to_all_moves_snips_by_that_constant_and_ips_by_something_else():
    plain, shifted = (estimates(np.random.default_rng(5), 500, shift=shift) for shift in (0.0, 0.25))
    assert shifted.snips.value == pytest.approx(plain.snips.value + 0.25, abs=1e-12)
    assert shifted.snips.error == pytest.approx(plain.snips.error, abs=1e-12)
    assert abs(shifted.ips.value - plain.ips.value - 0.25) > 0.1


def test_theta_is_needed_up_to_a_factor_only():
    plain, scaled = (estimates(np.random.default_rng(6), 500, scale=scale) for scale in (1.0, 0.3))
    for of in ("ips", "clipped", "lift"):
        assert getattr(scaled, of) == pytest.approx(getattr(plain, of))
    assert scaled.snips.value == pytest.approx(0.3 * plain.snips.value)


def test_the_order_shown_gets_what_it_got():
    rng = np.random.default_rng(7)
    lists, _, ranks = clicks(rng, 400)
    rewards = rng.choice([1.0, 3.0], len(lists))
    found = off_policy(lists, rewards, THETA[ranks], THETA[ranks], 400, 1.0)
    assert found.ips.value == found.clipped.value == pytest.approx(rewards.sum() / 400)
    assert (found.lift.value, found.lift.error, found.largest_weight) == (0.0, 0.0, 1.0)
    assert found.effective_clicks == pytest.approx(len(lists))


def test_a_log_without_clicks_says_so_by_numbers():
    nothing = off_policy(np.zeros(0, np.int64), np.zeros(0), np.zeros(0), np.zeros(0), 5, 10.0)
    assert (nothing.ips.value, nothing.ips.error, nothing.effective_clicks) == (0.0, 0.0, 0.0)
    assert np.isnan(nothing.snips.value)
