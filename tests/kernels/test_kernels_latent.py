import math

import numpy as np
import pytest

from streamrank.kernels.latent import BPR, ROBIRANK, Factors, learn_clicks, slopes


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

    def __init__(self, factors, seed, rate, B):
        self.U, self.V, self.gu, self.gv = (np.array(a) for a in factors[:4])
        self.state, self.rate, self.B = seed, rate, B

    def draw(self, n):
        mask = (1 << 64) - 1
        self.state = (self.state + 0x9E3779B97F4A7C15) & mask
        z = self.state
        z = ((z ^ (z >> 30)) * 0xBF58476D1CE4E5B9) & mask
        z = ((z ^ (z >> 27)) * 0x94D049BB133111EB) & mask
        return (((z ^ (z >> 31)) >> 32) * n) >> 32

    def learn(self, x, y):
        n, zs = len(self.V), []
        while len(zs) < self.B:
            z = self.draw(n)
            zs += [z] if z != y else []
        u, vy, vz = self.U[x].copy(), self.V[y].copy(), self.V[zs].copy()
        gaps = vy @ u - vz @ u
        S = (n - 1) * sigma(gaps).mean()
        e = (n - 1) / (self.B * np.log(2) * (1 + S)) / (1 + 2**gaps)
        for z, e_z in zip(zs, e, strict=True):
            self.gv[z] += (e_z * u) @ (e_z * u)
            self.V[z] -= self.rate / np.sqrt(self.gv[z]) * e_z * u
        self.gv[y] += (e.sum() * u) @ (e.sum() * u)
        self.V[y] += self.rate / np.sqrt(self.gv[y]) * e.sum() * u
        step = (e[:, None] * (vy - vz)).sum(axis=0)[1:]
        self.gu[x] += step @ step
        self.U[x, 1:] += self.rate / np.sqrt(self.gu[x]) * step


def test_the_kernel_is_its_plain_twin():
    rng = np.random.default_rng(3)
    U, V = rng.normal(size=(5, 4)), rng.normal(size=(9, 4))
    U[:, 0] = 1.0
    factors = Factors(
        U, V, np.ones(5), np.ones(9), np.zeros(5, int), np.zeros(9, int), np.zeros(5), np.zeros(5, int),
        np.zeros(9, int),
    )  # fmt: skip
    plain = Plain(factors, 11, 0.5, 6)
    users, items = rng.integers(0, 5, 200), rng.integers(0, 9, 200)
    marks = np.zeros(1, np.uint8)
    learn_clicks(
        factors, users, items, np.ones(200), np.arange(200), np.array([11], np.uint64), np.array([9, 9]), 0,
        1,
        6, ROBIRANK, 0.5, 1.0, 0.0, 1.0, 1, marks, marks.copy(),
    )  # fmt: skip
    for x, y in zip(users, items, strict=True):
        plain.learn(x, y)
    np.testing.assert_allclose(factors.U, plain.U, rtol=1e-9)
    np.testing.assert_allclose(factors.V, plain.V, rtol=1e-9)
