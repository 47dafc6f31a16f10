"""The extreme eigenvalues of a symmetric positive definite matrix given by its product.

Heavy ball ([1] (11)) is stable only while its step is below 2 (1 + mu)/kappa_1, a margin of 1 + 1/C: an
estimate of kappa_1 that is a little low makes it diverge. So `largest` errs upwards, and `smallest` may err
upwards too, which costs iterations but no stability.

References
----------
[1] Large scale ranking using stochastic gradient descent (Tas), Algorithm 1.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice

import numpy as np
from scipy.linalg import eigh_tridiagonal

from .cg import Floats, MatVec
from .krylov import lanczos


@dataclass(frozen=True, slots=True)
class PowerResult:
    """``value`` with the ``vector`` to start from next time; ``residual`` = |A v - (v'Av) v|."""

    value: float
    vector: Floats
    residual: float
    n_iter: int


def largest(
    matvec: MatVec, n: int, *, v0: Floats | None = None, n_iter: int = 20, bound: float | None = None
) -> PowerResult:
    """kappa_1 from above, from `n_iter` products: the largest Ritz value plus the largest Ritz residual.

    |A v| of power iteration approaches kappa_1 from below, and theta + |A v - theta v| may still miss it
    when v leans towards a near second eigenvector. The Krylov space of the same products knows more.

    Parameters
    ----------
    v0
        Where to start, such as the `vector` of an earlier result. A tenth of a fixed random vector is added,
        as a start that is an eigenvector would see nothing else.
    bound
        Caps the estimate: the Frobenius norm, or the trace.

    Examples
    --------
    >>> A = np.diag([3.0, 2.9, 1.0])
    >>> found = largest(lambda v: A @ v, 3)
    >>> round(found.value, 9), found.vector.round(6) ** 2
    (3.0, array([1., 0., 0.]))
    """
    start = _unit(None, n, 1)
    if v0 is not None and v0.any():
        start = _unit(v0, n, 1) + 0.1 * start
    *_, krylov = lanczos(matvec, start, n_iter)
    t = len(krylov.diagonal)
    values, Q = eigh_tridiagonal(krylov.diagonal, krylov.off)
    theta, vector, residual = float(values[-1]), krylov.V.T @ Q[:, -1], 0.0
    value = theta
    if 1 < t == n_iter < n:  # else the space is exhausted, and theta exact
        values, Q = eigh_tridiagonal(krylov.diagonal[:-1], krylov.off[:-1])
        residual = float(krylov.off[-1] * abs(Q[-1, -1]))
        value = max(theta, float(values[-1] + krylov.off[-1] * np.abs(Q[-1]).max()))
    return PowerResult(value if bound is None else min(value, bound), vector, residual, t)


def smallest(
    matvec: MatVec, n: int, kappa_1: float, *, v0: Floats | None = None, floor: float, n_iter: int = 20
) -> PowerResult:
    """kappa_n by the spectral shift v <- N((A - kappa_1) v), [1] (13); never below `floor`, which is lambda.

    The Rayleigh quotient approaches kappa_n from above, on real data slowly (1x to 4800x after 20 steps).

    Examples
    --------
    >>> A = np.diag([3.0, 2.0, 0.5])
    >>> round(smallest(lambda v: A @ v, 3, 3.0, floor=0.1, n_iter=60).value, 6)
    0.5
    """
    v = _unit(v0, n, 2)
    q = matvec(v)
    for _ in range(n_iter):
        shifted = q - kappa_1 * v
        size = float(np.linalg.norm(shifted))
        if size == 0.0:
            break
        v = shifted / size
        q = matvec(v)
    value = float(v @ q)
    return PowerResult(max(value, floor), v, float(np.linalg.norm(q - value * v)), n_iter)


def algorithm_1(matvec: MatVec, n: int) -> Iterator[tuple[float, float]]:
    """(kappa_1, kappa_n) after each step of [1] Algorithm 1, without end.

    kappa_1 = |A v| comes from below, kappa_n = omega'A omega from above. Whether A is centred is the caller's
    to say: the printed algorithm leaves the centring out.

    Examples
    --------
    >>> A = np.diag([3.0, 2.0, 0.5])
    >>> for k, (kappa_1, kappa_n) in enumerate(algorithm_1(lambda v: A @ v, 3)):
    ...     if k == 40:
    ...         break
    >>> round(kappa_1, 6), round(kappa_n, 6)
    (3.0, 0.5)
    """
    v, omega = _unit(None, n, 1), _unit(None, n, 2)
    image = matvec(omega)
    while True:
        v = matvec(v)
        kappa_1 = float(np.linalg.norm(v))
        v = v / kappa_1
        shifted = image - kappa_1 * omega
        size = float(np.linalg.norm(shifted))
        if size > 0.0:  # else omega is an eigenvector of kappa_1 itself
            omega = shifted / size
            image = matvec(omega)
        yield kappa_1, float(omega @ image)


def printed_algorithm_1(matvec: MatVec, n: int, *, n_iter: int = 20) -> tuple[float, float]:
    """(kappa_1, kappa_n) as [1] Algorithm 1 prints it, but for its counter, which never grows.

    For comparison only: kappa_1 comes from below, so that eGDM diverges on clustered spectra.

    Examples
    --------
    >>> A = np.diag([3.0, 2.9, 1.0])
    >>> printed_algorithm_1(lambda v: A @ v, 3, n_iter=5)[0] < 3.0
    True
    """
    return next(islice(algorithm_1(matvec, n), n_iter - 1, None))


def _unit(v0: Floats | None, n: int, seed: int) -> Floats:
    v = np.random.default_rng(seed).standard_normal(n) if v0 is None or not v0.any() else v0
    return np.asarray(v / np.linalg.norm(v))
