"""LinearRegressionRanker against closed forms, plain loops and scikit-learn."""

import numpy as np
import pytest
from river import datasets, evaluate, metrics, preprocessing
from sklearn.linear_model import Ridge

from streamrank.errors import ConfigError
from streamrank.features.batch import BY_LABEL, EVERY_OTHER, EXAMPLE, EXPLICIT, SCORED, BatchBuilder, Rows
from streamrank.kernels.pointwise import examples
from streamrank.kernels.ridge import solve
from streamrank.kernels.weights import decay
from streamrank.learners.basis import GaussianBasis
from streamrank.learners.checks import yield_checks
from streamrank.learners.regression import LinearRegressionRanker

N = 6
# a label says something by itself, so a list without a preference teaches; and a constant feature has a
# score, that of the intercept
ABSOLUTE = ["check_nothing_to_learn_changes_no_score", "check_constant_features_get_no_weight"]
# a square counts an outlier with its square; the implicit steps of sgd do not
SQUARED = ["check_one_outlier_does_no_lasting_harm"]
CASES = {
    "closed": ({}, SQUARED),
    "closed-through-0": ({"intercept": False}, SQUARED),
    # which columns count depends on how they are numbered
    "closed-16": ({"columns": 16}, [*SQUARED, "check_merging_by_columns"]),
    "sgd": ({"solver": "sgd"}, []),
    "sgd-fast": ({"solver": "sgd", "rate": 0.3, "horizon": 200}, []),
    "sgd-last": ({"solver": "sgd", "horizon": 1, "intercept": False}, []),
}
CHECKS = [
    pytest.param(check, id=f"{case}-{name}")
    for case, (params, skip) in CASES.items()
    for name, check in yield_checks(
        lambda params=params: LinearRegressionRanker(**params), skip=[*ABSOLUTE, *skip]
    )
]


@pytest.mark.parametrize("check", CHECKS)
def test_the_contract_of_rankers(check):
    check()


def data(m=200, n=N, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(m, n)) + 3.0
    return X, X @ rng.normal(size=n) + rng.normal(size=m) + 2.0


def batch_of(X, y, size=8, c=None, mode=BY_LABEL):
    builder = BatchBuilder()
    c = np.ones(len(y)) if c is None else c
    for a in range(0, len(X), size):
        part = X[a : a + size]
        rows = Rows(len(part), np.arange(X.shape[1], dtype=np.int32), part.ravel())
        builder.add(rows, y[a : a + size].tolist(), c[a : a + size].tolist(), mode)
    return builder.build()


@pytest.mark.parametrize("mode", [BY_LABEL, EXAMPLE])
def test_it_is_ridge_regression_with_a_free_intercept(mode):
    X, y = data()
    ranker = LinearRegressionRanker(lam=0.01)
    ranker.learn_batch(batch_of(X, y, 1 if mode == EXAMPLE else 8, mode=mode))
    expected = Ridge(alpha=0.01 * len(y)).fit(X, y)
    served = ranker.served()
    np.testing.assert_allclose(served.w[:N], expected.coef_, rtol=1e-10)
    assert served.intercept == pytest.approx(expected.intercept_)
    np.testing.assert_allclose(ranker.scores(batch_of(X, y)), expected.predict(X), rtol=1e-10)


def test_weights_of_examples_count():
    X, y = data()
    c = np.random.default_rng(1).uniform(0.1, 3.0, len(y))
    ranker = LinearRegressionRanker(lam=0.01)
    ranker.learn_batch(batch_of(X, y, 1, c, EXAMPLE))
    expected = Ridge(alpha=0.01 * c.sum()).fit(X, y, sample_weight=c)
    np.testing.assert_allclose(ranker.served().w[:N], expected.coef_, rtol=1e-9)


def test_behind_the_basis_without_an_intercept_it_is_the_paper_to_the_letter():
    X, y = data()
    P = GaussianBasis(M=4).fit(X).transform(X)
    ranker = LinearRegressionRanker(lam=1e-3, intercept=False)
    ranker.learn_batch(batch_of(P, y))
    expected = np.linalg.solve(1e-3 * len(y) * np.eye(5) + P.T @ P, P.T @ y)
    np.testing.assert_allclose(ranker.served().w[:5], expected, rtol=1e-8)


def test_shards_add_up_to_one_and_any_ridge_can_be_asked_for_afterwards():
    X, y = data()
    whole, merged = LinearRegressionRanker(), LinearRegressionRanker()
    whole.learn_batch(batch_of(X, y))
    for k in range(5):
        shard = LinearRegressionRanker()
        shard.learn_batch(batch_of(X[k::5], y[k::5]))
        merged.merge(shard)
    for lam in (1e-4, 0.1):
        np.testing.assert_allclose(merged.solve(lam).w, whole.solve(lam).w, rtol=1e-9)
        expected = Ridge(alpha=lam * len(y)).fit(X, y)
        assert merged.solve(lam).intercept == pytest.approx(expected.intercept_)


def test_a_large_common_part_does_not_drown_what_a_column_tells():
    X, y = data()
    shifted = X + np.array([1e8, 0, 0, 0, 0, 1e6])
    one, two = LinearRegressionRanker(), LinearRegressionRanker()
    one.learn_batch(batch_of(X, y))
    two.learn_batch(batch_of(shifted, y))
    np.testing.assert_allclose(two.served().w, one.served().w, rtol=1e-5, atol=1e-7)


@pytest.mark.parametrize("n", [1, 5, 40])
def test_the_solution_is_that_of_numpy_and_of_columns_alike_one_is_taken(n):
    rng = np.random.default_rng(n)
    Z = rng.normal(size=(3 * n, n)) * np.geomspace(1e-3, 1e3, n)
    A, b = Z.T @ Z, rng.normal(size=n)
    np.testing.assert_allclose(solve(A, b, 0.1), np.linalg.solve(A + 0.1 * np.eye(n), b), rtol=1e-7)
    twice = np.block([[A, A], [A, A]])
    w = solve(twice, np.concatenate([b, b]), 1e-300)
    assert np.isfinite(w).all()
    np.testing.assert_allclose(w[:n] + w[n:], np.linalg.solve(A, b), rtol=1e-5)


def test_with_many_columns_the_solution_is_seldom_but_never_far_behind():
    X, y = data(m=600, n=200)
    ranker = LinearRegressionRanker(lam=1e-3)
    ranker.learn_batch(batch_of(X, y, 1, mode=EXAMPLE))
    since = ranker.to_state()["numbers"][3]
    assert 0 <= since < 9
    ahead = LinearRegressionRanker(lam=1e-3)
    stop = int(600 - since)
    ahead.learn_batch(batch_of(X[:stop], y[:stop], 1, mode=EXAMPLE))
    np.testing.assert_array_equal(ranker.served().w, ahead.served().w)
    np.testing.assert_allclose(ranker.solve().w, Ridge(alpha=0.6).fit(X, y).coef_, rtol=1e-8)


def test_sgd_is_its_plain_twin():
    X, y = data()
    ranker = LinearRegressionRanker(solver="sgd", rate=0.01, lam=0.02, horizon=50)
    ranker.learn_batch(batch_of(X, y))
    Z = np.column_stack([np.ones(len(y)), X])
    free = np.array([0.0] + [1.0] * N)  # the ridge leaves the intercept alone
    w, average = np.zeros(N + 1), np.zeros(N + 1)
    for step, (z, label) in enumerate(zip(Z, y, strict=True), start=1):
        eta = 0.01 / (1 + 0.01 * (z @ z + 0.02))
        w += eta * ((label - w @ z) * z - 0.02 * free * w)
        average += max(3 / (step + 2), 1 / 50) * (w - average)
    served = ranker.served()
    np.testing.assert_allclose([served.intercept, *served.w[:N]], average, rtol=1e-10)


def test_an_average_that_rests_while_its_column_is_not_seen_is_that_of_every_step():
    ranker = LinearRegressionRanker(solver="sgd", rate=0.1, horizon=30)
    rng = np.random.default_rng(0)
    w = average = 0.0
    for step in range(1, 101):
        seen = step % 7 == 0
        x = {"a": float(rng.normal())} if seen else {}
        ranker.learn_one(x, 1.0)
        w = ranker._learnt._weights.w[0]
        average += max(3 / (step + 2), 1 / 30) * (w - average)
    assert ranker.served().w[0] == pytest.approx(average)
    assert decay(7, 8, 30) == pytest.approx(1 - 3 / 10)


def test_both_solvers_meet_where_the_stream_is_long():
    X, y = data(m=20_000)
    X = (X - 3.0) / 2
    closed, sgd = LinearRegressionRanker(lam=0.05), LinearRegressionRanker(solver="sgd", lam=0.05, rate=0.02)
    for ranker in (closed, sgd):
        ranker.learn_batch(batch_of(X, y))
    np.testing.assert_allclose(sgd.served().w[:N], closed.served().w[:N], atol=0.05)
    assert sgd.served().intercept == pytest.approx(closed.served().intercept, abs=0.05)


@pytest.mark.parametrize("rate", [0.1, 10.0, 1e6])
def test_sgd_does_not_diverge_whatever_the_rate(rate):
    X, y = data()
    ranker = LinearRegressionRanker(solver="sgd", rate=rate)
    scores = ranker.learn_batch(batch_of(100 * X, y))
    assert np.abs(scores[-100:] - y[-100:]).max() < 50


# -- lists as examples ---------------------------------------------------------------------------------------


def converted(mode, y, c, pairs=()):
    builder = BatchBuilder()
    builder.add(Rows(len(y), np.zeros(1, np.int32), np.ones(len(y))), y, c, mode, pairs)
    arrays = builder.build().arrays
    target, weight, refused = examples(arrays[0], *arrays[2:])
    return target.tolist(), weight.tolist(), refused.tolist()


def test_a_list_is_an_example_a_row():
    assert converted(BY_LABEL, [2.0, 0.0, 0.0], [0.5] * 3) == ([2.0, 0.0, 0.0], [0.5] * 3, [False])
    assert converted(BY_LABEL, [1.0], [1.0]) == ([1.0], [1.0], [False])


def test_a_click_counts_as_much_as_all_it_beats():
    target, weight, _ = converted(BY_LABEL, [0.0, 1.0, 0.0], [0.0, 3.0, 0.0])
    assert (target, weight) == ([0.0, 1.0, 0.0], [1.5, 3.0, 1.5])
    # the earlier click was learnt when it came
    assert converted(BY_LABEL, [1.0, 1.0, 0.0], [0.0, 2.0, 0.0])[1] == [0.0, 1.0, 1.0]


def test_every_other_scored_and_listed_pairs():
    assert converted(EVERY_OTHER, [1.0, 0.0, 1.0], [2.0, 0.0, 4.0])[:2] == ([1.0, 0.0, 1.0], [4.0, 3.0, 5.0])
    assert converted(SCORED, [1.0, 0.0], [5.0, 9.0])[:2] == ([5.0, 0.0], [1.0, 1.0])
    pairs = [(0, 1, 2.0), (1, 2, 2.0), (0, 2, 0.0)]
    assert converted(EXPLICIT, [0.0] * 3, [1.0] * 3, pairs)[:2] == ([1.0, 0.5, 0.0], [1.0, 2.0, 1.0])


def test_a_list_beyond_all_sense_is_refused_whole():
    assert converted(BY_LABEL, [1.0, 1e21], [1.0, 1.0]) == ([0.0, 0.0], [0.0, 0.0], [True])
    assert converted(BY_LABEL, [], [])[2] == [True]


# -- the rest ------------------------------------------------------------------------------------------------


def test_predictions_are_labels_so_progressive_validation_makes_sense():
    model = preprocessing.StandardScaler() | LinearRegressionRanker()
    metric = evaluate.progressive_val_score(datasets.TrumpApproval(), model, metrics.MAE())
    assert metric.get() < 1.0  # percent; the mean alone has 1.6


def test_the_shares_of_a_score_and_the_intercept_are_the_score():
    X, y = data()
    for solver in ("closed", "sgd"):
        ranker = LinearRegressionRanker(solver=solver)
        for x, label in zip(X, y, strict=True):
            ranker.learn_one({f"f{j}": float(v) for j, v in enumerate(x)}, float(label))
        x = {f"f{j}": float(v) for j, v in enumerate(X[0])}
        total = sum(ranker.explain(x).values()) + ranker.served().intercept
        assert total == pytest.approx(ranker.predict_one(x))


@pytest.mark.parametrize(
    "params",
    [{"solver": "newton"}, {"lam": 0.0}, {"rate": -1.0}, {"horizon": 0}, {"columns": 0}, {"horizon": 1.5}],
)
def test_bad_parameters_are_refused_at_construction(params):
    with pytest.raises(ConfigError, match=next(iter(params))):
        LinearRegressionRanker(**params)


def test_what_does_not_fit_together_is_refused():
    with pytest.raises(ConfigError, match="sgd"):
        LinearRegressionRanker().merge(LinearRegressionRanker(solver="sgd"))
    with pytest.raises(ValueError, match="closed"):
        LinearRegressionRanker(solver="sgd").solve()
