"""Conjugate gradients for A x = b, and for (A + shift) x = b with many shifts from one run."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from .csr import inner
from .jit import jit

Floats = npt.NDArray[np.float64]
MatVec = Callable[[Floats], Floats]
Callback = Callable[[int, Floats], bool | None]

CONVERGED = "converged"
MAX_ITER = "max_iter"
STOPPED = "stopped by the callback"
INDEFINITE = "the matrix is not positive definite"
NOT_FINITE = "a product is not finite"


@dataclass(frozen=True, slots=True)
class CGResult:
    """A solution and how it was reached.

    ``reason`` is "converged", "max_iter", "stopped by the callback", "the matrix is not positive definite" or
    "a product is not finite"; in the last two cases x is the last iterate.
    """

    x: Floats
    n_iter: int
    residual_norm: float
    converged: bool
    reason: str


@dataclass(frozen=True, slots=True)
class ShiftedResult:
    """Row j of X solves (A + shifts[j]) x = b; ``n_iter`` is also the number of products with A."""

    X: Floats
    n_iter: int
    iterations: npt.NDArray[np.int64]
    residual_norms: Floats
    converged: npt.NDArray[np.bool_]
    reason: str


def cg(
    matvec: MatVec,
    b: Floats,
    x0: Floats | None = None,
    *,
    rtol: float = 1e-6,
    max_iter: int | None = None,
    callback: Callback | None = None,
) -> CGResult:
    """Solve A x = b for a symmetric positive definite A given by its product.

    Stops at |b - A x| <= rtol |b|: relative to b and not to the first residual, so that a good start is worth
    what it should be. A singular A is fine while b lies in its range.

    Parameters
    ----------
    matvec
        v -> A v.
    x0
        Start; 0 if not given.
    max_iter
        10 times the length of b if not given.
    callback
        Called with (k, x) after step k; True ends the run. x is reused: copy it to keep it.

    Examples
    --------
    >>> A = np.array([[4.0, 1.0], [1.0, 3.0]])
    >>> result = cg(lambda v: A @ v, np.array([1.0, 2.0]), rtol=1e-12)
    >>> result.n_iter, result.reason, (11 * result.x).round(6)
    (2, 'converged', array([1., 7.]))
    """
    b = np.asarray(b, np.float64)
    x = np.zeros(len(b)) if x0 is None else np.array(x0, np.float64)
    r = b - matvec(x) if x.any() else b.copy()
    p = r.copy()
    rr = inner(r, r)
    tolerance = rtol**2 * inner(b, b)
    limit = 10 * len(b) if max_iter is None else max_iter
    k = 0
    while True:
        if not np.isfinite(rr):
            return CGResult(x, k, float(np.sqrt(rr)), False, NOT_FINITE)
        if rr <= tolerance:
            return CGResult(x, k, float(np.sqrt(rr)), True, CONVERGED)
        if k >= limit:
            return CGResult(x, k, float(np.sqrt(rr)), False, MAX_ITER)
        q = matvec(p)
        curvature = inner(p, q)
        if not np.isfinite(curvature) or curvature <= 0.0:
            reason = INDEFINITE if np.isfinite(curvature) else NOT_FINITE
            return CGResult(x, k, float(np.sqrt(rr)), False, reason)
        alpha = rr / curvature
        x += alpha * p
        r -= alpha * q
        rr_after = inner(r, r)
        p *= rr_after / rr
        p += r
        rr = rr_after
        k += 1
        if callback is not None and callback(k, x):
            done = rr <= tolerance
            return CGResult(x, k, float(np.sqrt(rr)), done, CONVERGED if done else STOPPED)


@jit
def _advance(x: Floats, p: Floats, r: Floats, step: float, zeta: float, beta: float) -> None:
    for i in range(len(x)):  # one walk over memory for the three vector operations of a shift
        x[i] += step * p[i]
        p[i] = zeta * r[i] + beta * p[i]


def shifted_cg(
    matvec: MatVec,
    b: Floats,
    shifts: Sequence[float] | Floats,
    *,
    rtol: float = 1e-6,
    max_iter: int | None = None,
) -> ShiftedResult:
    """Solve (A + s I) x = b for all s in `shifts` with the products of the smallest one alone.

    All shifts share the Krylov space of b. CG runs on the smallest; the residual of another one is a multiple
    zeta of its residual r, where with steps a_k, b_k of the run and s counted from the smallest,
        zeta+ = zeta zeta- a- / (a b- (zeta- - zeta) + zeta- a- (1 + s a))
    and its steps are a zeta+/zeta and b (zeta+/zeta)^2. A shift that has converged is frozen. There is no
    warm start: another start would leave the shared space. Memory: 2 x len(shifts) x len(b).

    Examples
    --------
    >>> A = np.diag([1.0, 2.0])
    >>> result = shifted_cg(lambda v: A @ v, np.ones(2), [0.0, 2.0], rtol=1e-12)
    >>> result.X.round(6), result.n_iter
    (array([[1.  , 0.5 ],
           [0.3333..., 0.25  ]]), 2)
    """
    s, b = np.asarray(shifts, np.float64), np.asarray(b, np.float64)
    base = float(s.min())
    s = s - base
    X = np.zeros((len(s), len(b)))
    P = np.tile(b, (len(s), 1))
    r, p = b.copy(), b.copy()
    zeta, zeta_before = np.ones(len(s)), np.ones(len(s))
    rr = inner(r, r)
    norms = np.full(len(s), np.sqrt(rr))
    tolerance = rtol * float(np.sqrt(inner(b, b)))
    iterations = np.zeros(len(s), np.int64)
    limit = 10 * len(b) if max_iter is None else max_iter
    a_before, beta, k, reason = 1.0, 0.0, 0, CONVERGED
    while not (norms <= tolerance).all():
        if k >= limit:
            reason = MAX_ITER
            break
        q = matvec(p) + base * p
        curvature = inner(p, q)
        if not np.isfinite(curvature) or curvature <= 0.0:
            reason = INDEFINITE if np.isfinite(curvature) else NOT_FINITE
            break
        a = rr / curvature
        r -= a * q
        rr_after = inner(r, r)
        beta_after = rr_after / rr
        k += 1
        for j in np.flatnonzero(norms > tolerance):
            slack = a * beta * (zeta_before[j] - zeta[j])
            after = zeta[j] * zeta_before[j] * a_before
            after /= slack + zeta_before[j] * a_before * (1.0 + s[j] * a)
            ratio = after / zeta[j]
            _advance(X[j], P[j], r, a * ratio, after, beta_after * ratio * ratio)
            zeta_before[j], zeta[j] = zeta[j], after
            norms[j] = abs(after) * np.sqrt(rr_after)
            iterations[j] = k
        p *= beta_after
        p += r
        rr, a_before, beta = rr_after, a, beta_after
    return ShiftedResult(X, k, iterations, norms, norms <= tolerance, reason)
