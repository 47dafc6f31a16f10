"""EGDM against closed forms: the statistics are exact, the bounds hold, the moves arrive."""

import numpy as np
import pytest

from streamrank.errors import ConfigError
from streamrank.features.batch import EXAMPLE, EXPLICIT, BatchBuilder, Rows
from streamrank.kernels.statistics import KAPPA_1, KAPPA_N, ROWS, Statistics, move
from streamrank.learners.checks import yield_checks
from streamrank.learners.egdm import EGDM

N = 12
SETTINGS = [{}, {"scale": False}, {"half_life": 50.0}, {"moves": 5, "lam": 0.01}]


CHECKS = [
    pytest.param(check, id=f"{name} {params}")
    for params in SETTINGS
    # a square counts an outlier with its square, as least squares does: the learner's docstring says so
    for name, check in yield_checks(
        lambda params=params: EGDM(**params), skip=["check_one_outlier_does_no_lasting_harm"]
    )
]


@pytest.mark.parametrize("check", CHECKS)
def test_the_contract_of_rankers(check):
    check()


def lists(seed=0, n_lists=40, spread=1.0):
    rng = np.random.default_rng(seed)
    taste = rng.normal(size=N)
    for _ in range(n_lists):
        X = rng.normal(size=(int(rng.integers(2, 9)), N)) * spread + 3.0
        yield X, np.round(X @ taste / 2 + rng.normal(size=len(X)))


def learnt(ranker, data, **more):
    for X, y in data:
        builder = BatchBuilder()
        builder.add(Rows(len(X), np.arange(N, dtype=np.int32), X.ravel()), y.tolist(), [1.0] * len(X), **more)
        ranker.learn_batch(builder.build())
    return ranker


def centred(data, weights=None):
    data = [(X, y) for X, y in data if len(set(y)) > 1]
    H, b, rows = np.zeros((N, N)), np.zeros(N), 0.0
    for k, (X, y) in enumerate(data):
        L = np.eye(len(X)) - 1 / len(X)
        c = 1.0 if weights is None else weights[k]
        H, b, rows = H + c * X.T @ L @ X, b + c * X.T @ L @ y, rows + c * len(X)
    return H, b, rows


def seen(ranker):
    s = ranker._statistics
    return s.H[:N, :N], s.b[:N], s.numbers[ROWS]


def test_the_statistics_are_those_of_the_full_batch():
    for one, two in zip(seen(learnt(EGDM(), lists())), centred(lists()), strict=True):
        np.testing.assert_allclose(one, two, rtol=1e-12)


def test_single_examples_of_interleaved_queries_give_the_same_as_whole_lists():
    data = [(X, y) for X, y in lists(1, n_lists=10) if len(set(y)) > 1]
    rows = [(q, x, label) for q, (X, y) in enumerate(data) for x, label in zip(X, y, strict=True)]
    np.random.default_rng(0).shuffle(rows)
    ranker = EGDM()
    for q, x, label in rows:
        builder = BatchBuilder()
        builder.add(Rows(1, np.arange(N, dtype=np.int32), x), [label], [1.0], EXAMPLE, query=f"q{q}")
        ranker.learn_batch(builder.build())
    H, b, _ = centred(data)
    np.testing.assert_allclose(seen(ranker)[0], H, rtol=1e-10)
    np.testing.assert_allclose(seen(ranker)[1], b, rtol=1e-10)


def test_all_pairs_of_a_query_with_weight_one_over_its_size_give_its_h():
    ranker, expected = EGDM(), np.zeros((N, N))
    for X, _ in lists(2, n_lists=10):
        m = len(X)
        pairs = [(i, j, 1 / m) for i in range(m) for j in range(i)]
        builder = BatchBuilder()
        rows = Rows(m, np.arange(N, dtype=np.int32), X.ravel())
        builder.add(rows, [0.0] * m, [1.0] * m, EXPLICIT, pairs)
        ranker.learn_batch(builder.build())
        expected += X.T @ (np.eye(m) - 1 / m) @ X
    np.testing.assert_allclose(seen(ranker)[0], expected, rtol=1e-10)


@pytest.mark.parametrize("scale", [False, True])
def test_one_pass_and_a_direct_solve_is_the_full_batch_optimum(scale):
    ranker = learnt(EGDM(scale=scale, lam=0.01), lists())
    H, b, rows = centred(lists())
    ridge = 0.01 * (np.diag(np.diag(H)) if scale else rows * np.eye(N))
    np.testing.assert_allclose(ranker.solve()[:N], np.linalg.solve(H + ridge, b), rtol=1e-10)


@pytest.mark.parametrize("scale", [False, True])
def test_the_moves_arrive_at_the_optimum_when_the_stream_rests(scale):
    ranker = learnt(EGDM(scale=scale, moves=20), lists())
    H, b, rows = (x.copy() for x in seen(ranker))
    for _ in range(200):
        move(ranker._statistics, ranker.lam, 20, scale)
    ridge = ranker.lam * (np.diag(np.diag(H)) if scale else rows * np.eye(N))
    np.testing.assert_allclose(ranker._statistics.w[:N], np.linalg.solve(H + ridge, b), rtol=1e-6)


def test_forgetting_is_a_batch_with_weights_halved_every_half_life():
    data = [(X, y) for X, y in lists(3) if len(set(y)) > 1]
    weights = [0.5 ** ((len(data) - 1 - k) / 7) for k in range(len(data))]
    for one, two in zip(seen(learnt(EGDM(half_life=7.0), data)), centred(data, weights), strict=True):
        np.testing.assert_allclose(one, two, rtol=1e-10)


@pytest.mark.parametrize("scale", [False, True])
def test_kappa_1_is_never_an_underestimate_nor_above_the_frobenius_norm(scale):
    """Also when one feature is suddenly thirty times as large and old data are forgotten quickly."""
    ranker = EGDM(half_life=10.0, scale=scale)
    for k, (X, y) in enumerate(lists(4, n_lists=120)):
        if k >= 60:
            X[:, 3] *= 30.0
        learnt(ranker, [(X, y)])
        H, _, rows = seen(ranker)
        root = 1 / np.sqrt(np.diag(H) / rows) if scale else np.ones(N)
        A = H * np.outer(root, root) + ranker.lam * rows * np.eye(N)
        eigenvalues = np.linalg.eigvalsh(A)
        numbers = ranker._statistics.numbers
        assert numbers[KAPPA_1] >= eigenvalues[-1] * (1 - 1e-9)
        assert numbers[KAPPA_1] <= (np.linalg.norm(A) + ranker.lam * rows) * (1 + 1e-5)
        assert numbers[KAPPA_N] >= ranker.lam * rows * (1 - 1e-9)
        assert np.abs(ranker._statistics.w).max() < 50


def test_the_bound_is_tight_where_one_direction_leads():
    ranker = learnt(EGDM(scale=False), lists(5, n_lists=300, spread=np.geomspace(3.0, 0.1, N)))
    H, _, rows = seen(ranker)
    largest = np.linalg.eigvalsh(H)[-1] + ranker.lam * rows
    assert ranker._statistics.numbers[KAPPA_1] < 1.1 * largest


@pytest.mark.parametrize("condition", [1e2, 1e5, 1e8])
def test_the_moves_never_diverge(condition):
    rng = np.random.default_rng(int(np.log10(condition)))
    for spread in ("even", "clustered"):
        Q, _ = np.linalg.qr(rng.normal(size=(60, 60)))
        values = np.geomspace(1 / condition, 1, 60) if spread == "even" else rng.uniform(0.9, 1.0, 60)
        H = (Q * values) @ Q.T
        H = (H + H.T) / 2
        b, zeros = H @ rng.normal(size=60), [np.zeros(60) for _ in range(4)]
        statistics = Statistics(H, b, *zeros, np.zeros(7))
        statistics.numbers[ROWS] = 1.0
        for _ in range(2000):
            move(statistics, 1 / condition, 1, False)
        residual = np.linalg.norm(H @ statistics.w + statistics.w / condition - b)
        assert residual < np.linalg.norm(b)


def test_eight_shards_add_up_to_one():
    data = list(lists(6, n_lists=80))
    whole, merged = learnt(EGDM(), data), EGDM()
    for k in range(8):
        merged.merge(learnt(EGDM(), data[k::8]))
    for one, two in zip(seen(merged), seen(whole), strict=True):
        np.testing.assert_allclose(one, two, rtol=1e-9)
    np.testing.assert_allclose(merged.solve(), whole.solve(), rtol=1e-9)


def test_a_query_open_in_two_shards_is_pooled_exactly():
    X, y = next(lists(7))
    whole, one, two = EGDM(), EGDM(), EGDM()
    for k, (x, label) in enumerate(zip(X, y, strict=True)):
        features = {f"f{j}": v for j, v in enumerate(x)}
        for ranker in (whole, (one, two)[k % 2]):
            ranker.learn_one(features, float(label), query="q")
    one.merge(two)
    np.testing.assert_allclose(one._statistics.H, whole._statistics.H, rtol=1e-9, atol=1e-12)
    np.testing.assert_allclose(one._statistics.b, whole._statistics.b, rtol=1e-9, atol=1e-12)


def test_columns_beyond_the_limit_count_nothing_and_cost_nothing():
    ranker = EGDM(columns=16, mode="statistics")
    builder = BatchBuilder()
    builder.add(
        Rows(2, np.array([3, 10**6], dtype=np.int32), np.array([1.0, 5.0, 0.0, 9.0])), [1.0, 0.0], [1.0, 1.0]
    )
    ranker.learn_batch(builder.build())
    assert len(ranker._statistics.b) == 16
    assert ranker._statistics.w[3] > 0


@pytest.mark.parametrize("params", [{"lam": 0.0}, {"half_life": 0.0}, {"moves": 0}, {"columns": 0}])
def test_bad_parameters_are_refused_at_construction(params):
    with pytest.raises(ConfigError, match=next(iter(params))):
        EGDM(**params)


def test_it_follows_a_taste_that_turns_when_it_may_forget():
    rng = np.random.default_rng(0)
    taste = rng.normal(size=N)

    def stream(sign, n):
        for _ in range(n):
            X = rng.normal(size=(10, N))
            yield X, (sign * X @ taste > 0).astype(float)

    follows, remembers = EGDM(half_life=30.0), EGDM()
    for ranker in (follows, remembers):
        learnt(ranker, stream(1.0, 300))
        learnt(ranker, stream(-1.0, 100))
    assert follows._statistics.w[:N] @ -taste > 0 > remembers._statistics.w[:N] @ -taste


def test_after_one_click_what_was_clicked_comes_first():
    """Heavy ball from rest would go past the optimum and back beyond 0."""
    ranker = EGDM()
    xs = [{"space": 1.0} if k in (3, 5, 9) else {"history": 1.0} for k in range(12)]
    ranker.learn_list(xs, [float(k == 9) for k in range(12)])
    gap = ranker.predict_one({"space": 1.0}) - ranker.predict_one({"history": 1.0})
    w = ranker.solve()
    assert gap == pytest.approx(w[1] - w[0], rel=0.05)
    assert gap > 0.3
