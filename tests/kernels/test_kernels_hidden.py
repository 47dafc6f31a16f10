"""Slopes through the scorers against differences of the loss, and the hidden layer against a plain twin."""

import math

import numpy as np
import pytest

from streamrank.features.batch import BatchBuilder, Rows, sparse_rows
from streamrank.kernels.losses import SONG as SONG_LOSS
from streamrank.kernels.losses import loss_of
from streamrank.kernels.losses.song import song
from streamrank.learners.registry import build

N = 5  # columns
LEARNERS = {
    "ranknet": {},
    "listnet": {},
    "listmle": {},
    "lambdarank": {},
    "approxndcg": {},
    "neuralndcg": {},
    "song": {"gamma": 1.0},
    "ksong": {"gamma": 1.0, "k": 2},
}


def rows_of(X):
    return sparse_rows([{j: v for j, v in enumerate(x) if v != 0.0} for x in X])


def some_list(rng, n=6):
    X = rng.normal(size=(n, N)) * (rng.random((n, N)) < 0.7)
    y = np.concatenate([[2.0, 1.0, 0.0], rng.integers(0, 3, n - 3)])
    return X, y, rng.uniform(0.3, 2.0, n)


def batch_of(lists, mode=0):
    builder = BatchBuilder()
    for X, y, c in lists:
        builder.add(rows_of(X), y.tolist(), c.tolist(), mode)
    return builder.build()


def forward(X, W, units):
    """Scores of rows: linear without units."""
    if units is None:
        return X @ W
    z = X @ W + units[0]
    return (z / (1 + np.abs(z))) @ units[1]


def value(ranker, s, y, c, mode):
    ds = np.empty(len(s))
    if ranker._loss == SONG_LOSS:
        unknown = np.array([np.nan, np.nan, 0.0])
        return song(s, y, c, mode, ranker._song, len(s), np.zeros(len(s)), unknown, ds)
    return loss_of(ranker._loss, ranker._knob, s, y, c, mode, ds)


@pytest.mark.parametrize("mode", [0, 1, 3])
@pytest.mark.parametrize("hidden", [0, 3])
@pytest.mark.parametrize("learner", LEARNERS)
def test_a_step_goes_down_the_slope_of_the_loss(learner, hidden, mode):
    rng = np.random.default_rng(hidden)
    X, y, c = some_list(rng)
    ranker = build(learner, {**LEARNERS[learner], "scale": False, "hidden": hidden, "horizon": 1})
    scorer = ranker._scorer
    scorer.steps = scorer.steps._replace(adam=False, rate=1e-3)  # w - rate g/10: what is left of g is seen
    scorer.grow(N)
    scorer.weights.w[:N] = rng.normal(size=(N, hidden) if hidden else N)
    units = rng.normal(size=(2, hidden)) if hidden else None
    if hidden:
        scorer.units.w[:] = units
    W = scorer.weights.w[:N].copy()

    def loss(W, units):
        return value(ranker, forward(X, W, units), y, c, mode)

    def differences(array, call):
        out = np.empty_like(array)
        for at in np.ndindex(array.shape):
            e = np.zeros_like(array)
            e[at] = 1e-4
            near, far = call(array + e) - call(array - e), call(array + 2 * e) - call(array - 2 * e)
            out[at] = (8 * near - far) / 1.2e-3
        return out

    ranker.learn_batch(batch_of([(X, y, c)], mode))
    # the kernel's slopes know nothing of tau2 (the mean of ds is taken out): see test_kernels_song
    atol = 1e-3 if learner == "ksong" else 1e-8
    slope = (W - scorer.weights.w[:N]) / 1e-4
    np.testing.assert_allclose(slope, differences(W, lambda v: loss(v, units)), rtol=0, atol=atol)
    assert np.abs(slope).max() > 1e-2
    if hidden:
        slope = (units - scorer.units.w) / 1e-4
        np.testing.assert_allclose(slope, differences(units, lambda v: loss(W, v)), rtol=0, atol=atol)


class Plain:
    """RankNet by label with a hidden layer, everything kept dense and moved by the book."""

    def __init__(self, hidden, rate, horizon):
        self.rate, self.horizon, self.t = rate / math.sqrt(hidden), horizon, 0
        b = (2 * (np.arange(hidden) // 2) + 1) / (hidden // 2) - 1
        units = np.stack([b, (-1.0) ** np.arange(hidden) / math.sqrt(hidden)])
        self.p = [np.zeros((N, hidden)), units]
        self.average = [p.copy() for p in self.p]
        self.m = [np.zeros_like(p) for p in self.p]
        self.v = [np.zeros_like(p) for p in self.p]
        self.touches = [np.zeros((N, 1)), np.zeros((2, 1))]

    def learn(self, X, y, c):
        W, (b, v) = self.p
        a = X @ W + b
        a /= 1 + np.abs(a)
        s = a @ v
        ds = np.zeros(len(s))
        for i in range(len(s)):
            for j in range(len(s)):
                if y[i] > y[j]:
                    p = c[i] / (1 + math.exp(s[i] - s[j])) / len(s)
                    ds[i] -= p
                    ds[j] += p
        dz = ds[:, None] * v * (1 - np.abs(a)) ** 2
        self.t += 1
        move = max(3 / (self.t + 2), 1 / self.horizon)
        held = (X != 0).any(axis=0)[:, None], np.ones((2, 1), bool)
        for k, g in enumerate((X.T @ dz, np.stack([dz.sum(axis=0), ds @ a]))):
            on = held[k]
            self.touches[k] += on
            g = np.where(np.abs(g) < 1e-15, 0.0, g)  # what rounding leaves of nothing
            most = np.sqrt(1000 * self.v[k])
            g = np.where(most > 0, np.clip(g, -most, most), g)
            self.m[k] += on * 0.1 * (g - self.m[k])
            self.v[k] += on * 0.001 * (g * g - self.v[k])
            count = np.maximum(self.touches[k], 1)
            step = self.m[k] / (1 - 0.9**count) / (np.sqrt(self.v[k] / (1 - 0.999**count)) + 1e-8)
            self.p[k] = self.p[k] - on * self.rate * step
            self.average[k] = self.average[k] + move * (self.p[k] - self.average[k])


@pytest.mark.parametrize("horizon", [1, 7, 5000])
def test_many_lists_are_learnt_as_a_plain_twin_learns_them(horizon):
    rng = np.random.default_rng(horizon)
    lists = [some_list(rng) for _ in range(60)]
    ranker = build("ranknet", {"hidden": 4, "scale": False, "horizon": horizon, "rate": 0.05})
    plain = Plain(4, 0.05, horizon)
    before = []
    for X, y, c in lists:
        before.append(forward(X, plain.average[0], plain.average[1]))
        plain.learn(X, y, c)
    scores = ranker.learn_batch(batch_of(lists))
    np.testing.assert_allclose(scores, np.concatenate(before), rtol=1e-9, atol=1e-12)
    np.testing.assert_allclose(ranker._scorer.weights.w[:N], plain.p[0], rtol=1e-9, atol=1e-12)
    np.testing.assert_allclose(ranker._scorer.units.w, plain.p[1], rtol=1e-9)
    X, y, c = some_list(rng)
    served = ranker.scores(batch_of([(X, y, c)]))
    np.testing.assert_allclose(served, forward(X, *plain.average), rtol=1e-9, atol=1e-12)


def test_the_share_of_a_value_is_what_the_score_loses_without_it():
    rng = np.random.default_rng(0)
    ranker = build("listnet", {"hidden": 6, "rate": 0.1})
    ranker.learn_batch(batch_of([some_list(rng) for _ in range(50)]))
    batch = batch_of([some_list(rng)])
    whole, shares = ranker.scores(batch), ranker.explain_columns(batch)
    for k in range(len(batch.values)):
        less = batch.values.copy()
        less[k] = 0.0
        r = np.searchsorted(batch.indptr, k, side="right") - 1
        assert shares[k] == pytest.approx((whole - ranker.scores(batch._replace(values=less)))[r], abs=1e-12)


def test_hidden_units_learn_what_no_linear_score_can():
    def lists(n, seed):
        rng = np.random.default_rng(seed)
        builder = BatchBuilder()
        for _ in range(n):
            X = rng.normal(size=(8, 2))
            relevant = X[:, 0] * X[:, 1] > 0.3
            builder.add(Rows(8, np.arange(2, dtype=np.int32), X.ravel()), relevant.tolist(), [1.0] * 8)
        return builder.build()

    def wrong(ranker, batch):
        s = ranker.scores(batch).reshape(-1, 8)
        y = batch.y.reshape(-1, 8)
        pairs = y[:, :, None] > y[:, None, :]
        return (pairs & (s[:, :, None] <= s[:, None, :])).sum() / pairs.sum()

    linear, hidden = build("ranknet", {}), build("ranknet", {"hidden": 8, "rate": 0.05})
    for ranker in (linear, hidden):
        ranker.learn_batch(lists(3000, 0))
    test = lists(300, 1)
    assert wrong(linear, test) > 0.4
    assert wrong(hidden, test) < 0.05


@pytest.mark.parametrize("hidden", [1, 2, 3, 5, 8])
def test_every_unit_learns_something_of_its_own_however_many_there_are(hidden):
    rng = np.random.default_rng(hidden)
    ranker = build("ranknet", {"hidden": hidden})
    X = rng.normal(size=(6, N))
    np.testing.assert_allclose(ranker.scores(batch_of([(X, X[:, 0], np.ones(6))])), 0.0, atol=1e-15)
    ranker.learn_batch(batch_of([some_list(rng) for _ in range(50)]))
    W = ranker._scorer.weights.w[:N]
    assert (np.abs(W).max(axis=0) > 1e-3).all()
    units = np.concatenate([W, ranker._scorer.units.w])
    for h in range(hidden):
        for other in range(h):
            assert np.abs(units[:, h] - units[:, other]).max() > 1e-3
