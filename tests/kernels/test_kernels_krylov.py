"""All lambdas and all stops from one run, against one run of CG for each."""

import numpy as np
import pytest

from streamrank.kernels.cg import cg
from streamrank.kernels.krylov import eigh_path, krylov_select, lanczos

LAMBDAS = 2.0 ** np.arange(-10, 11)


def problem(n=60, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((200, n)) * np.logspace(0, -0.5, n)
    w = rng.standard_normal(n)
    y = X @ w + 2.0 * rng.standard_normal(200)
    later = rng.standard_normal((150, n)) * np.logspace(0, -0.5, n)
    return X.T @ X, X.T @ y, later, later @ w


def squared(wanted):
    return lambda scores: ((scores - wanted[:, None]) ** 2).mean(axis=0)


@pytest.mark.parametrize("seed", range(3))
def test_w_of_lambda_and_t_is_t_steps_of_cg_at_lambda(seed):
    A, b, _, _ = problem(seed=seed)
    for t, krylov in enumerate(lanczos(lambda v: A @ v, b, 15), start=1):
        W = krylov.V.T @ krylov.coefficients(LAMBDAS)
        for j, lam in enumerate(LAMBDAS):
            steps = cg(lambda v, s=lam: A @ v + s * v, b, rtol=1e-300, max_iter=t).x
            assert np.linalg.norm(W[:, j] - steps) < 1e-6 * np.linalg.norm(steps)


def test_the_basis_stays_orthonormal_to_the_end():
    A, b, _, _ = problem()
    *_, last = lanczos(lambda v: A @ v, b, 1000)
    assert len(last.V) == 60
    np.testing.assert_allclose(last.V @ last.V.T, np.eye(60), atol=1e-12)
    np.testing.assert_allclose(np.linalg.norm(last.V @ A @ last.V.T), np.linalg.norm(A), rtol=1e-10)


def test_the_run_ends_when_the_space_is_exhausted():
    A, b = np.diag([3.0, 3.0, 1.0, 1.0]), np.ones(4)  # two distinct eigenvalues
    assert len(list(lanczos(lambda v: A @ v, b, 100))) == 2
    assert list(lanczos(lambda v: A @ v, np.zeros(4), 100)) == []


def test_select_finds_the_best_of_every_lambda_and_every_step():
    A, b, later, wanted = problem()
    found = krylov_select(lambda v: A @ v, b, LAMBDAS, lambda v: later @ v, squared(wanted), patience=10)
    error = squared(wanted)
    explicit = np.empty_like(found.errors)
    for t in range(len(explicit)):
        for j, lam in enumerate(LAMBDAS):
            w = cg(lambda v, s=lam: A @ v + s * v, b, rtol=1e-300, max_iter=t + 1).x
            explicit[t, j] = error((later @ w)[:, None])[0]
    np.testing.assert_allclose(found.errors, explicit, rtol=1e-6)
    assert error((later @ found.w)[:, None])[0] == pytest.approx(explicit.min(), rel=1e-6)
    assert found.errors[found.t - 1, LAMBDAS.tolist().index(found.lam)] == found.errors.min()
    assert found.n_matvecs == len(found.errors)


def test_the_run_ends_after_patience_steps_without_improvement():
    A, b, later, _ = problem()
    steps = iter(range(100))

    def worsening_from_five(scores):
        k = next(steps)
        return np.full(scores.shape[1], abs(k - 4.0))

    found = krylov_select(
        lambda v: A @ v, b, [0.5, 2.0, 1.0], lambda v: later @ v, worsening_from_five, patience=3
    )
    assert (found.t, found.n_matvecs, found.lam) == (5, 8, 2.0)  # equal errors: the largest lambda


def test_one_lambda_that_still_improves_keeps_the_run_going():
    A, b, later, _ = problem()
    steps = iter(range(100))

    def one_improves(scores):
        return np.array([0.1, 1.0 - 0.01 * next(steps)])

    found = krylov_select(
        lambda v: A @ v, b, [1.0, 2.0], lambda v: later @ v, one_improves, max_iter=17, patience=3
    )
    assert (found.lam, found.t, found.n_matvecs) == (1.0, 1, 17)


def test_select_without_a_gradient_returns_zero():
    found = krylov_select(lambda v: v, np.zeros(3), [1.0], lambda v: v, squared(np.ones(3)))
    assert (found.t, found.n_matvecs, found.errors.shape) == (0, 0, (0, 1))
    assert not found.w.any()


def test_one_decomposition_gives_every_lambda_and_the_least_norm_at_zero():
    A, b, _, _ = problem()
    for lam, w in zip(LAMBDAS, eigh_path(A, b, LAMBDAS), strict=True):
        separate = cg(lambda v, s=lam: A @ v + s * v, b, rtol=1e-12, max_iter=5000).x
        assert np.linalg.norm(w - separate) < 1e-8 * np.linalg.norm(separate)
    singular = np.outer([1.0, 1.0], [1.0, 1.0])
    np.testing.assert_allclose(eigh_path(singular, np.array([2.0, 2.0]), [0.0]), [[1.0, 1.0]])
