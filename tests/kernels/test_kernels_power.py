"""Estimates of the extreme eigenvalues: above where that is safe."""

import numpy as np
import pytest

from streamrank.kernels.power import largest, printed_algorithm_1, smallest

SPECTRA = {
    "even": lambda rng, n: rng.random(n),
    "many decades": lambda rng, n: 10.0 ** rng.uniform(-8, 0, n),
    "clustered at the top": lambda rng, n: rng.uniform(0.9, 1.0, n),
    "one above the rest": lambda _, n: np.r_[1.0, np.full(n - 1, 0.5)],
    "two near the top": lambda rng, n: np.r_[1.0, 0.999, rng.random(n - 2) / 2],
}


def matrix(values, rng):
    Q = np.linalg.qr(rng.standard_normal((len(values), len(values))))[0]
    return (Q * values) @ Q.T


@pytest.mark.parametrize("spectrum", SPECTRA)
def test_kappa_1_is_never_underestimated_nor_far_off(spectrum):
    rng = np.random.default_rng(0)
    for n in (2, 5, 20, 60, 120):
        for _ in range(3):
            values = SPECTRA[spectrum](rng, n)
            H = matrix(values, rng)
            for n_iter in (10, 20):
                ratio = largest(lambda v, H=H: H @ v, n, n_iter=n_iter).value / values.max()
                assert 1.0 - 1e-12 < ratio < 1.5


def test_the_printed_algorithm_underestimates_a_cluster():
    rng = np.random.default_rng(1)
    H = matrix(rng.uniform(0.9, 1.0, 60), rng)
    exact = np.linalg.eigvalsh(H)
    kappa_1, kappa_n = printed_algorithm_1(lambda v: H @ v, 60, n_iter=20)
    assert kappa_1 < 0.99 * exact[-1]
    assert kappa_n >= exact[0]


def test_the_bound_caps_the_estimate():
    H = np.diag(np.linspace(0.5, 1.0, 50))
    loose = largest(lambda v: H @ v, 50, n_iter=5).value
    assert largest(lambda v: H @ v, 50, n_iter=5, bound=1.01).value == 1.01 < loose


def test_a_warm_start_is_nearer_and_one_in_an_eigenvector_is_not_blind():
    rng = np.random.default_rng(2)
    H = matrix(rng.random(100), rng)
    cold = largest(lambda v: H @ v, 100, n_iter=15)
    moved = H + 1e-3 * np.diag(rng.random(100))
    warm = largest(lambda v: moved @ v, 100, n_iter=4, v0=cold.vector)
    again = largest(lambda v: moved @ v, 100, n_iter=4)
    assert warm.residual < again.residual
    low = np.eye(100)[0]
    D = np.diag(np.r_[0.1, np.linspace(0.2, 1.0, 99)])
    assert largest(lambda v: D @ v, 100, n_iter=15, v0=low).value >= 1.0
    assert largest(lambda v: D @ v, 100, n_iter=15, v0=np.zeros(100)).value >= 1.0


def test_the_vector_is_a_unit_eigenvector_when_the_run_is_long():
    rng = np.random.default_rng(3)
    H = matrix(np.r_[2.0, rng.random(30)], rng)
    found = largest(lambda v: H @ v, 31, n_iter=25)
    np.testing.assert_allclose(H @ found.vector, 2.0 * found.vector, atol=1e-6)


def test_kappa_n_comes_from_above_and_never_falls_below_lambda():
    rng = np.random.default_rng(4)
    values = np.r_[0.05, rng.uniform(0.3, 1.0, 40)]
    H = matrix(values, rng)
    found = smallest(lambda v: H @ v, 41, values.max(), floor=0.01, n_iter=200)
    assert found.value == pytest.approx(0.05, rel=1e-6)
    assert smallest(lambda v: H @ v, 41, values.max(), floor=0.01, n_iter=3).value > 0.05
    assert smallest(lambda v: H @ v, 41, values.max(), floor=0.2, n_iter=200).value == 0.2
    warm = smallest(lambda v: H @ v, 41, values.max(), floor=0.01, n_iter=3, v0=found.vector)
    assert warm.value == pytest.approx(0.05, rel=1e-6)


def test_a_multiple_of_the_identity_is_exact():
    assert largest(lambda v: 3.0 * v, 7).value == pytest.approx(3.0)
    assert smallest(lambda v: 3.0 * v, 7, 3.0, floor=0.1).value == pytest.approx(3.0)
    assert largest(lambda v: 0.0 * v, 7).value == 0.0
