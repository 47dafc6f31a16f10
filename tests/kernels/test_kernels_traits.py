import numpy as np
import pytest

from streamrank.kernels.factors import RECENT, Factors, scores_of, shelf_scores
from streamrank.kernels.latent import BPR, ROBIRANK, Stratum, draw_items, learn_clicks
from streamrank.kernels.traits import Step

D, B, N_ITEMS, N_TRAITS = 3, 6, 9, 5
EVERYWHERE = Stratum(0, 1, 0)


def some_factors(rng):
    users, items, traits = np.ones((4, D + 2)), np.ones((N_ITEMS, D + 2)), np.ones((N_TRAITS, D + 3))
    users[:, :D], items[:, : D + 1] = rng.normal(size=(4, D)), rng.normal(size=(N_ITEMS, D + 1))
    traits[:, : D + 1] = rng.normal(size=(N_TRAITS, D + 1))
    users[:, D + 1] = traits[:, D + 2] = 0.0
    of_items = rng.integers(-1, N_TRAITS - 1, (N_ITEMS, 3))
    of_items[:, 1:][of_items[:, 1:] == of_items[:, :1]] = -1  # no trait twice
    of_items[:, 2][of_items[:, 2] == of_items[:, 1]] = -1
    of_users = np.full((4, 3), -1)
    of_users[:, 1] = N_TRAITS - 1
    marks = np.zeros((4, RECENT), int), np.zeros((N_ITEMS, RECENT), int)
    shelf = np.array([[1, -1, 3], [-1, -1, -1]]), np.array([[0], [-1]])
    seen = np.zeros((N_TRAITS, RECENT), int)
    return Factors(users, items, *marks, of_users, of_items, traits, seen, *shelf)


def copied(factors):
    return Factors(*(part.copy() for part in factors))


def learn(factors, x, y, how, seed, *, streams=True):
    marks = np.zeros(1, np.uint8)
    learn_clicks(
        factors, np.array([x]), np.array([y]), np.ones(1), np.array([7]), np.array([seed], np.uint64),
        np.array([N_ITEMS, N_ITEMS]), EVERYWHERE, how, streams, 0, np.empty(0, int), marks, marks.copy(),
        marks.copy(),
    )  # fmt: skip


def scored(factors, x, row):
    """The score, read off its equation."""
    mine, its = (part[part >= 0] for part in (factors.user_traits[x], factors.item_traits[row]))
    taste = factors.users[x, :D] + factors.traits[mine, :D].sum(axis=0) / max(len(mine), 1) ** 0.5
    total = factors.items[row, D] + taste @ factors.items[row, :D]
    each = factors.traits[its, D] + factors.traits[its, :D] @ taste
    return total + each.sum() / max(len(its), 1) ** 0.5


def loss_of(factors, x, y, z, loss):
    gaps = scored(factors, x, y) - np.array([scored(factors, x, row) for row in z])
    if loss == BPR:
        return np.log1p(np.exp(-gaps)).mean()
    return np.log2(1 + (N_ITEMS - 1) * np.log2(1 + 2.0**-gaps).mean())


@pytest.mark.parametrize("loss", [ROBIRANK, BPR])
@pytest.mark.parametrize("seed", range(4))
def test_steps_follow_the_slope_of_the_loss_by_finite_differences(loss, seed):
    rng = np.random.default_rng(seed)
    factors, x, y, rate, h = some_factors(rng), 2, 5, 0.3, 1e-6
    z = np.empty(B, np.int64)
    draw_items(np.array([seed], np.uint64), EVERYWHERE, N_ITEMS, factors.item_marks, y, z)
    after = copied(factors)
    learn(after, x, y, Step(B, loss, rate, 1.0, 0.0, 1.0, 0.8), seed)
    for trait in range(N_TRAITS):
        slope = np.zeros(D + 1)
        for j in range(D + 1):
            for sign in (1, -1):
                moved = copied(factors)
                moved.traits[trait, j] += sign * h
                slope[j] += sign * loss_of(moved, x, y, z, loss) / (2 * h)
        squared = slope @ slope
        assert after.traits[trait, D + 1] == pytest.approx(1 + squared, abs=1e-7)
        expected = factors.traits[trait, : D + 1] - rate / np.sqrt(1 + squared) * slope
        np.testing.assert_allclose(after.traits[trait, : D + 1], expected, atol=1e-7)
        assert after.traits[trait, D + 2] == 0.0
    # and U as it does without traits
    slope = np.zeros(D)
    for j in range(D):
        for sign in (1, -1):
            moved = copied(factors)
            moved.users[x, j] += sign * h
            slope[j] += sign * loss_of(moved, x, y, z, loss) / (2 * h)
    expected = factors.users[x, :D] - rate / np.sqrt(1 + slope @ slope) * slope
    np.testing.assert_allclose(after.users[x, :D], expected, atol=1e-7)


def test_traits_of_the_click_are_marked_in_a_stream_alone():
    factors = some_factors(np.random.default_rng(1))
    how = Step(B, ROBIRANK, 0.3, 1.0, 0.0, 1.0, 0.8)
    learn(factors, 1, 3, how, 5, streams=False)
    assert not factors.trait_marks.any()
    learn(factors, 1, 3, how, 5)
    clicked = {*factors.user_traits[1], *factors.item_traits[3]} - {-1}
    expected = [[7, 1] if k in clicked else [0, 0] for k in range(N_TRAITS)]
    assert factors.trait_marks.tolist() == expected


def test_scores_of_all_rows_hold_their_traits_and_of_rows_out_of_use_are_minus_infinity():
    factors = some_factors(np.random.default_rng(2))
    factors.item_marks[[2, 4], 0] = -1
    taste = np.array([0.5, -1.0, 2.0])
    found = scores_of(factors, taste, N_ITEMS)
    assert (found[[2, 4]] == -np.inf).all()
    factors.users[0, :D] = taste
    factors.user_traits[0] = -1
    for row in (0, 1, 3, 5, 6, 7, 8):
        assert found[row] == pytest.approx(scored(factors, 0, row))


def test_what_was_never_clicked_is_scored_by_its_traits():
    factors, taste = some_factors(np.random.default_rng(3)), np.array([0.5, -1.0, 2.0])
    found = shelf_scores(factors, taste, 2, 0.7)
    lifts = factors.traits[[1, 3], D] + factors.traits[[1, 3], :D] @ taste
    assert found[0] == pytest.approx(0.7 + lifts.sum() / 2**0.5)
    assert found[1] == -np.inf
