"""eGDM and GDM: where they converge to, how fast, and what makes eGDM diverge."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from streamrank.kernels.cg import cg
from streamrank.kernels.gdm import egdm, gdm
from streamrank.kernels.power import largest, printed_algorithm_1


def matrix(values, seed=0):
    rng = np.random.default_rng(seed)
    Q = np.linalg.qr(rng.standard_normal((len(values), len(values))))[0]
    return (Q * values) @ Q.T, rng.standard_normal(len(values))


@settings(max_examples=25)
@given(st.integers(2, 60), st.floats(0, 4), st.integers(0, 10**6))
def test_egdm_cg_and_the_direct_solution_agree(n, log_condition, seed):
    values = np.logspace(0, -log_condition, n)
    H, b = matrix(values, seed)
    exact = np.linalg.solve(H, b)
    # a residual of 1e-11 leaves at most C x 1e-11 in w
    fast = egdm(lambda v: H @ v, b, kappa_1=1.0, kappa_n=values.min(), rtol=1e-11)
    assert fast.converged
    for x in (fast.x, cg(lambda v: H @ v, b, rtol=1e-11).x):
        assert np.linalg.norm(x - exact) < 1e-6 * np.linalg.norm(exact)


def iterations(solve):
    """Over five lambdas, on a spectrum that reaches down to 0 and a b that excites all of it."""
    H, b = matrix(np.linspace(0.0, 1.0, 80))
    found = []
    for lam in (0.02, 0.01, 0.005, 0.002, 0.001):
        result = solve(lambda v, s=lam: H @ v + s * v, b, 1.0 + lam, lam)
        assert result.converged
        found.append(((1.0 + lam) / lam, result.n_iter))
    return np.array(found).T


def test_egdm_takes_a_multiple_of_the_root_of_the_condition():
    C, steps = iterations(lambda A, b, k1, kn: egdm(A, b, kappa_1=k1, kappa_n=kn, rtol=1e-8))
    assert ((steps / np.sqrt(C) > 8) & (steps / np.sqrt(C) < 16)).all()
    assert np.polyfit(np.log(C), np.log(steps), 1)[0] == pytest.approx(0.5, abs=0.07)


def test_gdm_takes_a_multiple_of_the_condition():
    C, steps = iterations(lambda A, b, k1, _: gdm(A, b, eta=2.0 / k1, rtol=1e-8))
    assert np.polyfit(np.log(C), np.log(steps), 1)[0] == pytest.approx(1.0, abs=0.12)


@settings(max_examples=25)
@given(st.integers(2, 40), st.floats(0, 8), st.integers(0, 10**6))
def test_egdm_never_diverges_with_the_frobenius_norm(n, log_condition, seed):
    rng = np.random.default_rng(seed)
    values = 10.0 ** rng.uniform(-log_condition, 0, n)
    H, b = matrix(values, seed)
    result = egdm(
        lambda v: H @ v, b, kappa_1=np.linalg.norm(H), kappa_n=10.0**-log_condition, rtol=1e-9, max_iter=3000
    )
    assert result.reason in ("converged", "max_iter")


def clustered():
    """60 eigenvalues in [.9, 1] beside one of 1/900."""
    rng = np.random.default_rng(11)
    return matrix(np.r_[rng.uniform(0.9, 1.0, 60), 1 / 900], seed=11)


def test_the_kappa_of_the_printed_algorithm_makes_egdm_diverge_on_a_cluster():
    H, b = clustered()
    kappa_1, _ = printed_algorithm_1(lambda v: H @ v, 61, n_iter=20)
    control = egdm(lambda v: H @ v, b, kappa_1=kappa_1, kappa_n=1 / 900)
    assert not control.converged
    assert control.reason.startswith("the gradient grows")
    sound = largest(lambda v: H @ v, 61, n_iter=20).value
    assert egdm(lambda v: H @ v, b, kappa_1=sound, kappa_n=1 / 900).converged
    assert egdm(lambda v: H @ v, b, kappa_1=np.linalg.norm(H), kappa_n=1 / 900).converged


def test_a_start_at_the_solution_costs_nothing_and_is_not_written_to():
    H, b = matrix(np.linspace(0.1, 1.0, 10))
    exact = np.linalg.solve(H, b)
    start = exact.copy()
    assert egdm(lambda v: H @ v, b, kappa_1=1.0, kappa_n=0.1, w0=start).n_iter == 0
    egdm(lambda v: H @ v, b, kappa_1=1.0, kappa_n=0.1, w0=start, rtol=1e-300, max_iter=5)
    assert np.array_equal(start, exact)


def test_the_first_two_steps_are_those_of_the_formula():
    H, b = matrix(np.linspace(0.1, 1.0, 10))
    step, mu = 0.1 * 0.7, 0.9
    w1 = step * b
    w2 = w1 - step * (H @ w1 - b) + mu * w1
    np.testing.assert_allclose(gdm(lambda v: H @ v, b, eta=0.7, max_iter=2).x, w2, rtol=1e-14)
    seen = []
    result = gdm(lambda v: H @ v, b, eta=0.7, callback=lambda k, w: seen.append(w.copy()) or k == 2)
    np.testing.assert_allclose(seen, [w1, w2], rtol=1e-14)
    assert (result.n_iter, result.reason) == (2, "stopped by the callback")


def test_the_limit_divergence_and_nan_are_told_apart():
    H, b = matrix(np.linspace(0.01, 1.0, 10))
    assert gdm(lambda v: H @ v, b, eta=1.0, max_iter=3).reason == "max_iter"
    assert gdm(lambda v: H @ v, b, eta=100.0).reason.startswith("the gradient grows")
    assert gdm(lambda v: v * np.nan, b, eta=1.0).reason == "a product is not finite"
    assert gdm(lambda v: v, np.zeros(3), eta=1.0).reason == "converged"


@pytest.mark.parametrize(("kappa_1", "kappa_n"), [(1.0, 0.0), (1.0, 2.0), (np.inf, 1.0), (np.nan, 1.0)])
def test_impossible_eigenvalues_are_refused(kappa_1, kappa_n):
    with pytest.raises(ValueError, match="kappa_n"):
        egdm(lambda v: v, np.ones(2), kappa_1=kappa_1, kappa_n=kappa_n)


@pytest.mark.parametrize(("eta", "mu"), [(0.0, 0.5), (1.0, 1.0), (1.0, -0.1)])
def test_impossible_rates_are_refused(eta, mu):
    with pytest.raises(ValueError, match="mu"):
        gdm(lambda v: v, np.ones(2), eta=eta, mu=mu)
