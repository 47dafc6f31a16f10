"""PDGD against Plackett-Luce chances taken in full, and what its weights are for: clicks free of bias."""

from decimal import Decimal, localcontext
from itertools import permutations, product

import numpy as np
import pytest

from streamrank.features.batch import BY_LABEL, EVERY_OTHER, EXPLICIT, SCORED
from streamrank.kernels.losses import PDGD, list_loss
from streamrank.kernels.sampling import plackett_luce

MODES = {"by label": BY_LABEL, "every other": EVERY_OTHER, "explicit": EXPLICIT, "scored": SCORED}


def chance(s):
    """Of the rows being drawn in the order in which they stand."""
    odds = np.exp(s - s.max())
    return float(np.prod([odds[p] / odds[p:].sum() for p in range(len(s))]))


def rho(s, i, j):
    """The debiasing weight, both chances worked out."""
    turned = s.copy()
    turned[[i, j]] = s[[j, i]]
    return chance(turned) / (chance(s) + chance(turned))


def both(s, y, c, mode, explicit=()):
    ds = np.full(len(s), np.nan)
    better, worse = (np.array([pair[k] for pair in explicit], np.int32) for k in (0, 1))
    pair_c = np.array([w for *_, w in explicit], np.float64)
    return list_loss(PDGD, 0.0, s, y, c, mode, better, worse, pair_c, ds), ds


def case(seed, n=6):
    rng = np.random.default_rng(seed)
    y, c = rng.integers(0, 3, n).astype(float), rng.uniform(0.1, 3, n)
    explicit = [(int(i), int(j), float(rng.random())) for i, j in rng.integers(0, n, (8, 2)) if i != j]
    return 2.0 * rng.normal(size=n), y, c, explicit


def pairs_of(mode, y, c, explicit):
    rows = range(len(y))
    if mode == EXPLICIT:
        return explicit
    if mode == EVERY_OTHER:
        return [(i, j, c[i]) for i in rows for j in rows if i != j and y[i] > 0]
    if mode == SCORED:
        return [(i, j, 1.0) for i in rows for j in rows if y[i] * c[i] > y[j] * c[j]]
    return [(i, j, c[i]) for i in rows for j in rows if y[i] > y[j]]


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("mode", MODES.values(), ids=MODES)
def test_the_slope_is_the_derivative_of_the_weighted_pairs_with_the_weights_held(mode, seed):
    s, y, c, explicit = case(seed)
    weights = [(i, j, w * rho(s, i, j)) for i, j, w in pairs_of(mode, y, c, explicit)]

    def objective(t):
        return -sum(w / (1 + np.exp(t[j] - t[i])) for i, j, w in weights)

    value, ds = both(s, y, c, mode, explicit)
    assert value == pytest.approx(objective(s), rel=1e-12)
    h = 1e-3
    numeric = [
        (8 * (objective(s + e) - objective(s - e)) - objective(s + 2 * e) + objective(s - 2 * e)) / (12 * h)
        for e in h * np.eye(len(s))
    ]
    np.testing.assert_allclose(ds, numeric, atol=1e-10)
    assert np.abs(ds).max() > 1e-3
    assert abs(ds.sum()) < 1e-14


def expected_pull(s, worth, theta, i, j):
    """How strongly i is pulled above j by clicks on all orders of all rows, in expectation; taken in full.

    Place k is looked at with chance theta_k, and a row that is looked at is clicked with its worth.
    """
    total = 0.0
    for order in permutations(range(len(s))):
        rows = list(order)
        click = theta * worth[rows]
        shown = chance(s[rows])
        for clicked in product((0.0, 1.0), repeat=len(s)):
            y = np.array(clicked)
            how_likely = shown * np.prod(np.where(y > 0, click, 1 - click))
            a, b = rows.index(i), rows.index(j)
            if y[a] != y[b]:
                winner, loser = (a, b) if y[a] > y[b] else (b, a)
                _, ds = both(s[rows], y, np.ones(len(s)), EXPLICIT, [(winner, loser, 1.0)])
                total += how_likely * -ds[a]
    return total


def test_clicks_of_any_position_bias_pull_equals_equally_and_the_better_one_up():
    s, theta = np.array([1.5, -0.5, 0.3, 0.0]), np.array([1.0, 0.4, 0.1, 0.05])
    worth = np.array([0.3, 0.3, 0.8, 0.1])
    naive = sum(
        chance(s[list(order)]) * 0.3 * (theta[order.index(0)] - theta[order.index(1)])
        for order in permutations(range(4))
    )
    assert naive > 0.05  # counted as they come, clicks favour row 0, which is shown above row 1
    assert expected_pull(s, worth, theta, 0, 1) == pytest.approx(0.0, abs=1e-15)
    assert expected_pull(s, worth, theta, 2, 0) > 1e-3 < expected_pull(s, worth, theta, 1, 3)
    assert expected_pull(s, worth, theta, 3, 2) < -1e-3


def test_a_click_counts_the_less_the_likelier_the_order_it_was_made_on():
    s, one = np.array([2.0, 0.0, -2.0]), np.ones(3)

    def pull(order, clicked):
        rows = list(order)
        return np.abs(both(s[rows], np.array([float(r == clicked) for r in rows]), one, BY_LABEL)[1]).max()

    for clicked in range(3):
        assert pull((0, 1, 2), clicked) < 0.3 * pull((2, 1, 0), clicked)


@pytest.mark.parametrize("far", [1e3, 1e300])
def test_far_apart_scores_overflow_nothing(far):
    y, c = np.array([0.0, 1.0, 0.0, 0.0]), np.ones(4)
    for s in permutations([far, 0.0, -far, 1.0]):
        value, ds = both(np.array(s), y, c, BY_LABEL)
        assert np.isfinite([value, *ds]).all()


@pytest.mark.parametrize("ahead", [300.0, 1e3, 1e5])
def test_the_weights_are_right_beside_a_row_that_is_far_ahead(ahead):
    def exactly(s):
        odds = [Decimal(float(v)).exp() for v in s]
        chance = Decimal(1)
        for p in range(len(odds)):
            chance *= odds[p] / sum(odds[p:])
        return chance

    rng = np.random.default_rng(1)
    for place, (i, j) in product(range(5), [(0, 4), (4, 0), (1, 2), (3, 1), (2, 3)]):
        s = rng.normal(size=5)
        s[place] += ahead
        turned = s.copy()
        turned[[i, j]] = s[[j, i]]
        with localcontext(prec=50):
            swapped = exactly(turned)
            expected = float(swapped / (swapped + exactly(s)))
        expected /= 1 + np.exp(np.clip(s[j] - s[i], -700, 700))
        value, ds = both(s, s, s, EXPLICIT, [(i, j, 1.0)])
        assert -value == pytest.approx(expected, abs=1e-12)
        assert np.isfinite(ds).all()


def test_a_sampled_order_has_its_plackett_luce_chance():
    s, n = np.array([1.0, 0.0, -0.7]), 12_000
    drawn = [tuple(plackett_luce(s, seed).tolist()) for seed in range(n)]
    chances = {order: chance(s[list(order)]) for order in permutations(range(3))}
    surprise = sum((drawn.count(o) - n * p) ** 2 / (n * p) for o, p in chances.items())
    assert surprise < 20.5  # chi-square of 5 degrees, 0.1 %
    assert drawn[:50] == [tuple(plackett_luce(s, seed).tolist()) for seed in range(50)]
