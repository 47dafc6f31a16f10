import math

import numpy as np
import pytest

from streamrank.kernels.factors import RECENT, Factors, taste_of
from streamrank.kernels.latent import BPR, ROBIRANK, Stratum, draw_items, learn_clicks, slopes
from streamrank.kernels.traits import Step


def sigma(t):
    return np.log2(1.0 + 2.0 ** -np.asarray(t))


def loss_of(f_y, f, n, s, loss):
    if loss == BPR:
        return s * np.mean(np.log1p(np.exp(f - f_y)))
    return s * np.log2(1.0 + (n - 1) * np.mean(sigma(f_y - f)))


@pytest.mark.parametrize("loss", [ROBIRANK, BPR])
def test_slopes_are_those_of_the_loss_by_finite_differences(loss):
    rng = np.random.default_rng(0)
    f, f_y, e, h = rng.normal(size=7), 0.3, np.empty(7), 1e-6
    slopes(f_y, f, 40, 1.7, loss, 1.0, 0.0, e)
    by_difference = [
        (loss_of(f_y, f + h * unit, 40, 1.7, loss) - loss_of(f_y, f - h * unit, 40, 1.7, loss)) / (2 * h)
        for unit in np.eye(7)
    ]
    np.testing.assert_allclose(e, by_difference, atol=1e-8)
    of_y = (loss_of(f_y + h, f, 40, 1.7, loss) - loss_of(f_y - h, f, 40, 1.7, loss)) / (2 * h)
    assert -e.sum() == pytest.approx(of_y, abs=1e-8)


@pytest.mark.parametrize("far", [80.0, 1e4, -80.0, -1e4])
def test_far_scores_give_finite_slopes(far):
    e = np.empty(3)
    S = slopes(far, np.zeros(3), 10, 1.0, ROBIRANK, 1.0, 0.0, e)
    assert np.isfinite(e).all()
    assert math.isfinite(S)
    assert pytest.approx(9 * max(-far, 0.0), abs=1e-9) == S


def test_the_linearised_loss_bounds_the_loss_and_is_tight_at_the_closed_form():
    rng = np.random.default_rng(1)
    for S in rng.exponential(50.0, 50):
        for xi in rng.uniform(1e-3, 2.0, 50):
            assert -np.log2(xi) + (xi * (S + 1) - 1) / np.log(2) >= np.log2(1 + S) - 1e-12
        xi = 1 / (1 + S)
        assert -np.log2(xi) + (xi * (S + 1) - 1) / np.log(2) == pytest.approx(np.log2(1 + S), abs=1e-12)


def test_at_a_given_xi_the_sampled_slope_is_unbiased():
    # a moving average that takes nothing of the sample holds xi fixed
    rng = np.random.default_rng(2)
    n, B, draws = 50, 4, 40_000
    f, f_y, S = rng.normal(size=n - 1), 0.4, 12.0
    full = 1.0 / (np.log(2) * (1 + S)) / (1 + 2 ** (f_y - f))
    total, squares, e = np.zeros(n - 1), np.zeros(n - 1), np.empty(B)
    for z in rng.integers(0, n - 1, (draws, B)):
        slopes(f_y, f[z], n, 1.0, ROBIRANK, 0.0, S, e)
        one = np.bincount(z, e, n - 1)
        total += one
        squares += one**2
    mean = total / draws
    error = np.sqrt((squares / draws - mean**2) / draws)
    assert np.all(np.abs(mean - full) < 4.2 * error)  # 49 slopes at once: 4.2 is 3 for one
    sums = np.abs(mean.sum() - full.sum())
    assert sums < 3 * np.sqrt((error**2).sum())


class Plain:
    """The step, read off its equations."""

    def __init__(self, factors, seed, how):
        one = np.ones((len(factors.users), 1))
        self.U, self.gu = np.hstack([one, factors.users[:, :3]]), factors.users[:, 3].copy()
        self.V, self.gv = factors.items[:, [3, 0, 1, 2]], factors.items[:, 4].copy()
        self.W, self.gw = np.hstack([np.zeros((9, 1)), factors.items[:, 5:8]]), factors.items[:, 8].copy()
        self.recent = [[] for _ in self.U]
        self.state, self.how = seed, how

    def draw(self, n):
        mask = (1 << 64) - 1
        self.state = (self.state + 0x9E3779B97F4A7C15) & mask
        z = self.state
        z = ((z ^ (z >> 30)) * 0xBF58476D1CE4E5B9) & mask
        z = ((z ^ (z >> 27)) * 0x94D049BB133111EB) & mask
        return (((z ^ (z >> 31)) >> 32) * n) >> 32

    def learn(self, x, y):
        n, zs, how, rate = len(self.V), [], self.how, self.how.rate
        while len(zs) < how.B:
            z = self.draw(n)
            zs += [z] if z != y else []
        last = self.recent[x][:3]
        taste = self.U[x] + sum((how.decay**k * self.W[i] for k, i in enumerate(last)), np.zeros(4))
        vy, vz = self.V[y].copy(), self.V[zs].copy()
        gaps = vy @ taste - vz @ taste
        S = (n - 1) * sigma(gaps).mean()
        e = (n - 1) / (how.B * np.log(2) * (1 + S)) / (1 + 2**gaps)
        for z, e_z in zip(zs, e, strict=True):
            self.gv[z] += (e_z * taste) @ (e_z * taste)
            self.V[z] -= rate / np.sqrt(self.gv[z]) * e_z * taste
        self.gv[y] += (e.sum() * taste) @ (e.sum() * taste)
        self.V[y] += rate / np.sqrt(self.gv[y]) * e.sum() * taste
        step = (e[:, None] * (vy - vz)).sum(axis=0)[1:]
        self.gu[x] += step @ step
        self.U[x, 1:] += rate / np.sqrt(self.gu[x]) * step
        for k, i in enumerate(last):
            self.gw[i] += how.decay ** (2 * k) * (step @ step)
            self.W[i, 1:] += rate / np.sqrt(self.gw[i]) * how.decay**k * step
        if self.recent[x][:1] != [y]:
            self.recent[x].insert(0, y)


def some_factors(rng):
    users, items = np.ones((5, 5)), np.ones((9, 9))  # d = 3
    users[:, :3], items[:, :4], items[:, 5:8] = rng.normal(size=(5, 3)), rng.normal(size=(9, 4)), 0.1
    users[:, 4] = 0.0
    items[:, 5:8] = rng.normal(size=(9, 3))
    user_marks = np.zeros((5, 5), int)
    user_marks[:, RECENT:] = -1
    none = np.empty((9, 0), int)
    return Factors(
        users, items, user_marks, np.zeros((9, 2), int), none[:5], none, np.empty((0, 6)), *[none] * 3
    )


def learn(factors, users, items, how, *, streams=True):
    n, marks = len(users), np.zeros(1, np.uint8)
    learn_clicks(
        factors, users, items, np.ones(n), np.arange(n), np.array([11], np.uint64), np.array([9, 9]),
        Stratum(0, 1, 0), how, streams, 0, np.empty(0, int), marks, marks.copy(), marks.copy(),
    )  # fmt: skip


HOW = Step(6, ROBIRANK, 0.5, 1.0, 0.0, 1.0, 0.8)


def test_the_kernel_is_its_plain_twin():
    rng = np.random.default_rng(3)
    factors = some_factors(rng)
    plain = Plain(factors, 11, HOW)
    users, items = rng.integers(0, 5, 200), rng.integers(0, 9, 200)
    learn(factors, users, items, HOW)
    for x, y in zip(users, items, strict=True):
        plain.learn(x, y)
    np.testing.assert_allclose(factors.users[:, :3], plain.U[:, 1:], rtol=1e-9)
    np.testing.assert_allclose(factors.items[:, [3, 0, 1, 2]], plain.V, rtol=1e-9)
    np.testing.assert_allclose(factors.items[:, 5:8], plain.W[:, 1:], rtol=1e-9)
    assert factors.user_marks[:, RECENT:].tolist() == [rows[:3] for rows in plain.recent]


def test_outside_a_stream_what_was_clicked_last_counts_and_stays():
    rng = np.random.default_rng(4)
    factors = some_factors(rng)
    factors.user_marks[:, RECENT] = 7
    W, U = factors.items[:, 5:].copy(), factors.users.copy()
    learn(factors, rng.integers(0, 5, 50), rng.integers(0, 9, 50), HOW, streams=False)
    assert (factors.items[:, 5:] == W).all()
    assert (factors.user_marks[:, RECENT] == 7).all()
    assert (factors.users != U)[:, :3].all()
    taste = np.empty(3)
    taste_of(factors, 2, 0.8, taste)
    np.testing.assert_allclose(taste, factors.users[2, :3] + W[7, :3])


def test_every_item_of_a_stratum_is_drawn_alike_and_no_other():
    used = np.zeros((1000, 2), np.int64)
    used[[3, 70]] = -1
    drawn, generator = np.empty(100_000, np.int64), np.array([5], np.uint64)
    for block in (0, 1, 2):
        assert draw_items(generator, Stratum(block, 3, 6), 1000, used, 130, drawn)
        mine = [k for k in range(1000) if (k >> 6) % 3 == block and k not in (3, 70, 130)]
        counts = np.bincount(drawn, minlength=1000)
        assert counts.sum() == counts[mine].sum()
        expected = len(drawn) / len(mine)
        assert np.abs(counts[mine] - expected).max() < 5 * np.sqrt(expected)


def test_a_block_without_others_is_passed_over():
    used = np.full((8, 2), -1)
    used[2] = 0
    drawn, generator = np.empty(4, np.int64), np.zeros(1, np.uint64)
    assert not draw_items(generator, Stratum(0, 1, 0), 8, used, 2, drawn)
    assert not draw_items(generator, Stratum(1, 2, 6), 8, used, 2, drawn)
