"""The batch estimator: every way to the optimum is the same, and choosing by validation pays."""

import numpy as np
import pytest
from scipy.sparse import csr_matrix

from streamrank.errors import ConfigError
from streamrank.kernels.misorder import PairwiseError
from streamrank.learners.rankrls import DIRECT, GRID, RankRLS
from streamrank.sources.dataset import Dataset


def letor_like(n_lists, seed, n=20):
    """Lists of 5 to 25 rows whose features share a mean within the list, graded 0..2 by a noisy taste."""
    rng = np.random.default_rng(seed)
    taste = np.random.default_rng(99).standard_normal(n) * np.logspace(0, -1.5, n)
    sizes = rng.integers(5, 26, n_lists)
    queries = np.repeat(np.arange(n_lists), sizes)
    X = rng.standard_normal((len(queries), n)) + 2.0 * rng.standard_normal((n_lists, n))[queries]
    hidden = X @ taste + 3.0 * rng.standard_normal(len(X))
    y = np.empty(len(X))
    for q in range(n_lists):
        rows = queries == q
        y[rows] = np.searchsorted(np.quantile(hidden[rows], [0.6, 0.85]), hidden[rows])
    return X, y, queries


def sparse_wide(m, seed, n=DIRECT + 300):
    rng = np.random.default_rng(seed)
    taste = np.random.default_rng(98).standard_normal(n) / np.sqrt(1.0 + np.arange(n))
    columns = (n * rng.random((m, 12)) ** 3).astype(np.int32)
    X = csr_matrix((rng.random(m * 12), (np.repeat(np.arange(m), 12), columns.ravel())), shape=(m, n))
    return X, (X @ taste + 0.3 * rng.standard_normal(m) > 0.2).astype(float)


def explicit(X, y, queries, lam):
    H, b = lam * np.eye(X.shape[1]), np.zeros(X.shape[1])
    for q in np.unique(queries):
        D = X[queries == q] - X[queries == q].mean(0)
        H += D.T @ D
        b += D.T @ y[queries == q]
    return np.linalg.solve(H, b)


TRAIN, VALID, TEST = letor_like(60, 1), letor_like(40, 2), letor_like(60, 3)


def error_of(model, data=TEST):
    X, y, queries = data
    return PairwiseError(y, np.r_[0, np.flatnonzero(np.diff(queries)) + 1, len(y)]).one(model.predict(X))


@pytest.mark.parametrize("solver", ["auto", "direct", "cg", "egdm", "gdm"])
def test_every_solver_reaches_the_explicit_optimum(solver):
    exact = explicit(*TRAIN, lam=5.0)
    model = RankRLS(5.0, solver=solver, rtol=1e-9).fit(*TRAIN)
    assert np.linalg.norm(model.weights - exact) < 1e-6 * np.linalg.norm(exact)
    assert (model.report.lam, model.report.converged) == (5.0, True)
    assert (model.report.n_iter > 0) == (solver in ("cg", "egdm", "gdm"))
    assert model.report.errors.shape == (0, 1)


def test_sparse_dense_dataset_and_two_threads_give_the_same_weights():
    X, y, queries = TRAIN
    lists = np.r_[0, np.flatnonzero(np.diff(queries)) + 1, len(y)]
    sparse = csr_matrix(X)
    dataset = Dataset(
        sparse.indptr.astype(np.int64),
        sparse.indices,
        sparse.data,
        y,
        lists,
        [str(q) for q in range(60)],
        [""] * len(y),
        [str(j) for j in range(20)],
    )
    exact = explicit(*TRAIN, lam=1.0)
    for fitted in (
        RankRLS(1.0).fit(sparse, y, queries),
        RankRLS(1.0).fit(dataset),
        RankRLS(1.0).fit(X.tolist(), list(y), [f"q{q:03}" for q in queries]),
        RankRLS(1.0, solver="cg", rtol=1e-10, n_threads=2).fit(dataset),
    ):
        np.testing.assert_allclose(fitted.weights, exact, rtol=1e-6, atol=1e-8)
        np.testing.assert_allclose(fitted.predict(dataset), X @ fitted.weights, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("kind", [np.asarray, csr_matrix])
def test_rows_of_a_query_need_not_stand_together(kind):
    X, y, queries = TRAIN
    order = np.random.default_rng(0).permutation(len(y))
    later = np.random.default_rng(1).permutation(len(VALID[1]))
    shuffled = RankRLS(GRID).fit(
        kind(X[order]), y[order], queries[order], valid=tuple(part[later] for part in VALID)
    )
    grouped = RankRLS(GRID).fit(*TRAIN, valid=VALID)
    np.testing.assert_allclose(shuffled.weights, grouped.weights, rtol=1e-9)
    np.testing.assert_allclose(shuffled.report.errors, grouped.report.errors)


def test_without_queries_all_rows_are_one_ranking():
    X, y, _ = TRAIN
    np.testing.assert_allclose(RankRLS(2.0).fit(X, y).weights, explicit(X, y, np.zeros(len(y)), 2.0))


def test_float32_rows_are_close():
    X, y, queries = TRAIN
    exact = explicit(*TRAIN, lam=1.0)
    for solver in ("direct", "cg"):
        single = RankRLS(1.0, solver=solver).fit(X.astype(np.float32), y, queries).weights
        assert np.linalg.norm(single - exact) < 1e-4 * np.linalg.norm(exact)


def test_all_pairs_with_ties_and_magnitudes_equal_the_judged_lists():
    X, y, queries = letor_like(8, 5)
    better, worse = np.nonzero((queries[:, None] == queries) & (y[:, None] >= y))
    once = (y[better] > y[worse]) | (better < worse)
    better, worse = better[once], worse[once]
    sizes = np.bincount(queries)[queries]
    pairs = RankRLS(3.0).fit_pairs(X, better, worse, 1.0 / sizes[better], y[better] - y[worse])
    np.testing.assert_allclose(pairs.weights, RankRLS(3.0).fit(X, y, queries).weights, rtol=1e-9)


def test_pairs_choose_lambda_by_the_share_they_contradict():
    X, y, queries = TRAIN
    rng = np.random.default_rng(0)
    i, j = rng.integers(len(y), size=(2, 4000))
    kept = (queries[i] == queries[j]) & (y[i] > y[j])
    V, y_v, q_v = VALID
    k, h = rng.integers(len(y_v), size=(2, 20000))
    later = (q_v[k] == q_v[h]) & (y_v[k] > y_v[h])
    model = RankRLS(GRID).fit_pairs(X, i[kept], j[kept], valid=(V, k[later], h[later]))
    scores = model.predict(V)
    share = (scores[k[later]] < scores[h[later]]).mean()
    assert model.report.errors[0].min() == pytest.approx(share)
    assert model.report.errors[0, GRID.index(model.report.lam)] == model.report.errors.min()
    hybrid = RankRLS(GRID, method="hybrid").fit_pairs(X, i[kept], j[kept], valid=(V, k[later], h[later]))
    assert hybrid.report.errors.min() <= model.report.errors.min()


def test_the_lambda_with_the_least_validation_error_is_taken():
    model = RankRLS(GRID).fit(*TRAIN, valid=VALID)
    errors = [error_of(RankRLS(lam).fit(*TRAIN), VALID) for lam in GRID]
    np.testing.assert_allclose(model.report.errors, [errors])
    assert model.report.lam == max(lam for lam, e in zip(GRID, errors, strict=True) if e == min(errors))


def test_hybrid_is_no_worse_than_tikhonov_and_early_stopping_is_close():
    tikhonov = RankRLS(GRID).fit(*TRAIN, valid=VALID)
    hybrid = RankRLS(GRID, method="hybrid").fit(*TRAIN, valid=VALID)
    early = RankRLS(method="early").fit(*TRAIN, valid=VALID)
    assert hybrid.report.errors.min() <= tikhonov.report.errors.min()
    assert hybrid.report.errors.min() <= early.report.errors.min()
    assert error_of(hybrid) < error_of(tikhonov) + 0.005
    assert error_of(early) < error_of(tikhonov) + 0.02 < 0.45  # 0.5 is chance
    assert (early.report.lam, early.report.solver) == (0.0, "krylov")
    assert early.report.n_iter == len(early.report.errors)


def test_many_columns_take_all_lambdas_from_one_run():
    X, y = sparse_wide(1500, 1)
    V, y_v = sparse_wide(800, 2)
    together = RankRLS(GRID, rtol=1e-9).fit(X, y, valid=(V, y_v))
    separate = RankRLS(GRID, solver="cg", rtol=1e-9).fit(X, y, valid=(V, y_v))
    assert (together.report.solver, separate.report.solver) == ("shifted cg", "cg")
    assert together.report.lam == separate.report.lam
    np.testing.assert_allclose(together.weights, separate.weights, rtol=1e-5, atol=1e-7)
    assert together.report.n_iter < separate.report.n_iter / 4
    hybrid = RankRLS(GRID, method="hybrid").fit(X, y, valid=(V, y_v))
    assert hybrid.report.n_iter < together.report.n_iter / 2
    assert hybrid.report.errors.min() <= 1.01 * together.report.errors.min()


def test_the_path_holds_the_optimum_of_each_lambda():
    model = RankRLS(1.0).fit(*TRAIN)
    for lam, w in zip((0.5, 4.0, 64.0), model.path((0.5, 4.0, 64.0)), strict=True):
        np.testing.assert_allclose(w, explicit(*TRAIN, lam=lam), rtol=1e-8, atol=1e-10)
    X, y = sparse_wide(600, 3)
    wide = RankRLS(1.0, rtol=1e-10).fit(X, y)
    np.testing.assert_allclose(wide.path([1.0])[0], wide.weights)
    D = X.toarray() - X.toarray().mean(0)
    np.testing.assert_allclose(
        wide.path([8.0])[0],
        np.linalg.solve(D.T @ D + 8.0 * np.eye(X.shape[1]), D.T @ y),
        rtol=1e-5,
        atol=1e-8,
    )


def test_sparse_rows_to_score_may_have_other_columns_dense_ones_may_not():
    model = RankRLS(1.0).fit(*TRAIN)
    X = TEST[0]
    wider = csr_matrix(np.hstack([X, np.ones((len(X), 3))]))
    np.testing.assert_allclose(model.predict(wider), X @ model.weights)
    np.testing.assert_allclose(model.predict(csr_matrix(X[:, :7])), X[:, :7] @ model.weights[:7])
    with pytest.raises(ValueError, match="7 columns"):
        model.predict(X[:, :7])


def test_running_out_of_steps_is_reported():
    assert not RankRLS(1e-3, solver="cg", max_iter=2).fit(*TRAIN).report.converged


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"lam": -1.0}, "lam is -1"),
        ({"lam": [1.0, np.nan]}, "lam is"),
        ({"lam": []}, "lam is"),
        ({"method": "ridge"}, "ridge"),
        ({"solver": "lu"}, "lu"),
        ({"method": "hybrid", "solver": "egdm"}, "solver must be"),
        ({"solver": "egdm", "lam": 0.0}, "lam > 0"),
        ({"rtol": 0.0}, "rtol"),
        ({"patience": 0}, "patience"),
        ({"max_iter": 0}, "max_iter"),
    ],
)
def test_settings_that_cannot_work_are_refused_at_construction(settings, message):
    with pytest.raises(ConfigError, match=message):
        RankRLS(**settings)


X4, Y4, Q4 = np.eye(4), np.arange(4.0), np.array([0, 0, 1, 1])


@pytest.mark.parametrize(
    ("data", "message"),
    [
        ((X4, Y4[:3]), "one label for each row"),
        ((X4, Y4, Q4[:3]), "one id for each row"),
        ((X4, np.array([0.0, np.nan, 1.0, 2.0])), r"y\[1\] is not finite"),
        ((np.full((4, 4), np.inf), Y4), "NaN or infinity"),
        ((X4, np.array([1.0, 1.0, 2.0, 2.0]), Q4), "constant in every query"),
        ((X4[:0], Y4[:0]), "no rows"),
        ((X4, None), "y is missing"),
    ],
)
def test_data_that_cannot_be_ranked_is_refused_with_the_reason(data, message):
    with pytest.raises(ValueError, match=message):
        RankRLS().fit(*data)


def test_a_dataset_with_an_empty_list_is_refused():
    sparse = csr_matrix(X4)
    empty = Dataset(
        sparse.indptr.astype(np.int64),
        sparse.indices,
        sparse.data,
        Y4,
        np.array([0, 2, 2, 4]),
        [],
        [],
        list("abcd"),
    )
    with pytest.raises(ValueError, match="list 1 is empty"):
        RankRLS().fit(empty)


def test_what_chooses_by_validation_asks_for_it():
    for model in (RankRLS(method="early"), RankRLS(GRID), RankRLS(method="hybrid")):
        with pytest.raises(ValueError, match="give valid="):
            model.fit(X4, Y4)
    with pytest.raises(ValueError, match="two different labels"):
        RankRLS(GRID).fit(X4, Y4, valid=(X4, np.ones(4), None))
    with pytest.raises(ValueError, match="no preferences"):
        RankRLS().fit_pairs(X4, [], [])


def test_row_numbers_are_whole_and_predict_comes_after_fit():
    for better in ([0.5, 1.0], np.array([True, False])):
        with pytest.raises(ValueError, match="better must be row numbers"):
            RankRLS().fit_pairs(X4, better, [1, 2])
    floats = RankRLS().fit_pairs(X4, [0.0, 1.0], [2.0, 3.0])
    np.testing.assert_array_equal(floats.weights, RankRLS().fit_pairs(X4, [0, 1], [2, 3]).weights)
    with pytest.raises(ValueError, match="nothing was learnt yet"):
        RankRLS().predict(X4)
