"""Conjugate gradients, plain and shifted, against direct solutions."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from streamrank.kernels.cg import cg, shifted_cg


def problem(n=40, condition=1e4, seed=0):
    """A symmetric matrix with eigenvalues spread evenly in logarithm from 1 down to 1/condition."""
    rng = np.random.default_rng(seed)
    Q = np.linalg.qr(rng.standard_normal((n, n)))[0]
    return (Q * np.logspace(0, -np.log10(condition), n)) @ Q.T, rng.standard_normal(n)


class Counted:
    def __init__(self, A):
        self.A, self.calls = A, 0

    def __call__(self, v):
        self.calls += 1
        return self.A @ v


@settings(max_examples=30)
@given(st.integers(1, 60), st.floats(0, 4), st.integers(0, 10**6))
def test_cg_reaches_the_direct_solution(n, log_condition, seed):
    A, b = problem(n, 10**log_condition, seed)
    result = cg(lambda v: A @ v, b, rtol=1e-11)
    exact = np.linalg.solve(A, b)
    assert result.converged
    assert np.linalg.norm(result.x - exact) < 1e-6 * np.linalg.norm(exact)
    assert np.linalg.norm(b - A @ result.x) <= 1e-9 * np.linalg.norm(b)


def test_the_residual_is_measured_against_b_so_a_good_start_costs_nothing():
    A, b = problem()
    exact = np.linalg.solve(A, b)
    start = exact + 1e-9 * np.random.default_rng(1).standard_normal(40)
    counted = Counted(A)
    warm = cg(counted, b, start, rtol=1e-6)
    assert (warm.n_iter, warm.reason, counted.calls) == (0, "converged", 1)
    near = cg(counted, b, exact + 1e-4, rtol=1e-6)
    assert 0 < near.n_iter < cg(counted, b, rtol=1e-6).n_iter
    assert np.array_equal(
        start, exact + 1e-9 * np.random.default_rng(1).standard_normal(40)
    )  # not written to


def test_each_step_costs_one_product_and_the_limit_is_kept():
    A, b = problem()
    counted = Counted(A)
    result = cg(counted, b, rtol=1e-14, max_iter=7)
    assert (result.n_iter, counted.calls, result.converged, result.reason) == (7, 7, False, "max_iter")


def test_the_last_allowed_step_may_converge():
    A = np.diag([1.0, 2.0])
    result = cg(lambda v: A @ v, np.ones(2), rtol=1e-12, max_iter=2)
    assert (result.n_iter, result.converged) == (2, True)


def test_a_callback_sees_every_iterate_and_can_stop():
    A, b = problem()
    seen = []

    def stop(k, x):
        seen.append((k, x.copy()))
        return k == 5

    result = cg(lambda v: A @ v, b, rtol=1e-12, callback=stop)
    assert [k for k, _ in seen] == [1, 2, 3, 4, 5]
    assert (result.n_iter, result.converged, result.reason) == (5, False, "stopped by the callback")
    assert np.array_equal(seen[-1][1], result.x)
    assert np.array_equal(seen[2][1], cg(lambda v: A @ v, b, rtol=1e-12, max_iter=3).x)


def test_zero_has_the_solution_zero():
    assert cg(lambda v: v, np.zeros(3)).reason == "converged"
    assert shifted_cg(lambda v: v, np.zeros(3), [0.0, 1.0]).converged.all()


def test_a_singular_matrix_is_solved_when_b_lies_in_its_range():
    A = np.diag([2.0, 1.0, 0.0])
    np.testing.assert_allclose(cg(lambda v: A @ v, np.array([2.0, 3.0, 0.0])).x, [1.0, 3.0, 0.0], atol=1e-9)


def test_an_indefinite_matrix_is_named_and_the_iterate_is_finite():
    A = np.diag([1.0, -1.0, 0.5])
    for b in (np.array([1.0, 2.0, 3.0]), np.array([1.0, 1.0, 0.0])):  # the second: curvature exactly 0
        result = cg(lambda v: A @ v, b)
        assert (result.converged, result.reason) == (False, "the matrix is not positive definite")
        assert np.isfinite(result.x).all()
    assert shifted_cg(lambda v: A @ v, np.array([1.0, 2.0, 3.0]), [0.0]).reason == result.reason


def test_nan_is_named_and_never_reaches_the_iterate():
    A, b = problem()
    calls = iter(range(100))

    def breaking(v):
        return A @ v if next(calls) < 4 else np.full(40, np.nan)

    result = cg(breaking, b, rtol=1e-12)
    assert (result.n_iter, result.reason) == (4, "a product is not finite")
    assert np.isfinite(result.x).all()
    assert shifted_cg(lambda v: v * np.nan, b, [1.0]).reason == "a product is not finite"
    assert cg(lambda v: v * np.nan, b, np.ones(40)).reason == "a product is not finite"


@pytest.mark.parametrize("seed", range(4))
def test_all_shifts_equal_separate_solves_for_the_products_of_the_smallest(seed):
    A, b = problem(80, 1e5, seed)
    shifts = np.random.default_rng(seed).permutation(2.0 ** np.arange(-10, 11))
    counted, alone = Counted(A), Counted(A)
    together = shifted_cg(counted, b, shifts, rtol=1e-10)
    assert together.converged.all()
    for j, shift in enumerate(shifts):
        separate = cg(lambda v, s=shift: A @ v + s * v, b, rtol=1e-10)
        assert np.linalg.norm(together.X[j] - separate.x) < 1e-8 * np.linalg.norm(separate.x)
        assert together.iterations[j] == pytest.approx(separate.n_iter, rel=0.1, abs=1)
    smallest = shifts.min()
    cg(lambda v: alone(v) + smallest * v, b, rtol=1e-10)
    assert counted.calls == together.n_iter
    assert abs(counted.calls - alone.calls) <= 1


def test_shifts_stop_at_the_limit_and_say_which_converged():
    A, b = problem(80, 1e6)
    result = shifted_cg(lambda v: A @ v, b, [0.0, 100.0], rtol=1e-8, max_iter=20)
    assert (result.converged.tolist(), result.reason, result.n_iter) == ([False, True], "max_iter", 20)
    assert result.iterations[1] < 20  # frozen when it converged
