"""Gradient descent with momentum for A w = b, and eGDM: the same with near-optimal step and momentum.

    w+ = w - (1 - mu) eta g + mu (w - w_prev),   g = A w - b          [1] (7)

The gradient norm of a stable run may grow for a while before it falls, the more the larger the momentum; so
divergence is called only far beyond that.

References
----------
[1] Large scale ranking using stochastic gradient descent (Tas), Algorithm 2 (with the w and the H it lacks).
"""

import math
from dataclasses import dataclass

import numpy as np

from .cg import CONVERGED, MAX_ITER, NOT_FINITE, STOPPED, Callback, Floats, MatVec
from .csr import inner

DIVERGED = "the gradient grows without end: kappa_1 is too low, or eta too high"
GROWTH = 1e10  # above any transient of a stable run, which stays below about sqrt(C) times the start


@dataclass(frozen=True, slots=True)
class GDMResult:
    """A solution and how it was reached; the fields mean what those of `CGResult` mean."""

    x: Floats
    n_iter: int
    residual_norm: float
    converged: bool
    reason: str


def egdm(
    matvec: MatVec,
    b: Floats,
    *,
    kappa_1: float,
    kappa_n: float,
    w0: Floats | None = None,
    rtol: float = 1e-6,
    max_iter: int = 100_000,
    callback: Callback | None = None,
) -> GDMResult:
    """[1] Algorithm 2: heavy ball with the step and momentum of (11).

    (1 - mu) eta = 4/(sqrt k1 + sqrt kn)^2 and mu = ((sqrt k1 - sqrt kn)/(sqrt k1 + sqrt kn))^2. Ends at
    |A w - b| <= rtol |b| after about (1/2) sqrt(C) ln(1/rtol) steps and a little, C = kappa_1/kappa_n.

    Parameters
    ----------
    kappa_1
        Not below the largest eigenvalue of A: see `streamrank.kernels.power.largest`, or take a norm.
    kappa_n
        The smallest one; lambda is always safe.

    Examples
    --------
    >>> A = np.diag([4.0, 1.0])
    >>> result = egdm(lambda v: A @ v, np.ones(2), kappa_1=4.0, kappa_n=1.0)
    >>> result.x.round(4), result.reason
    (array([0.25, 1.  ]), 'converged')
    """
    if not 0.0 < kappa_n <= kappa_1 < math.inf:
        raise ValueError(f"kappa_1 is {kappa_1}, kappa_n {kappa_n}: need 0 < kappa_n <= kappa_1 < infinity")
    high, low = math.sqrt(kappa_1), math.sqrt(kappa_n)
    step, mu = 4.0 / (high + low) ** 2, ((high - low) / (high + low)) ** 2
    return _heavy_ball(matvec, b, step, mu, w0, rtol, max_iter, callback)


def gdm(
    matvec: MatVec,
    b: Floats,
    *,
    eta: float,
    mu: float = 0.9,
    w0: Floats | None = None,
    rtol: float = 1e-6,
    max_iter: int = 100_000,
    callback: Callback | None = None,
) -> GDMResult:
    """[1] (7) with a given learning rate and momentum; stable for (1 - mu) eta kappa_1 < 2 (1 + mu).

    Examples
    --------
    >>> A = np.diag([4.0, 1.0])
    >>> gdm(lambda v: A @ v, np.ones(2), eta=0.5).x.round(4)
    array([0.25, 1.  ])
    """
    if not (eta > 0.0 and 0.0 <= mu < 1.0):
        raise ValueError(f"eta is {eta}, mu {mu}: need eta > 0 and 0 <= mu < 1")
    return _heavy_ball(matvec, b, (1.0 - mu) * eta, mu, w0, rtol, max_iter, callback)


def _heavy_ball(
    matvec: MatVec,
    b: Floats,
    step: float,
    mu: float,
    w0: Floats | None,
    rtol: float,
    max_iter: int,
    callback: Callback | None,
) -> GDMResult:
    b = np.asarray(b, np.float64)
    w = np.zeros(len(b)) if w0 is None else np.array(w0, np.float64)
    move = np.zeros(len(b))  # w - w_prev
    tolerance = rtol * math.sqrt(inner(b, b))
    limit = math.inf
    with np.errstate(over="ignore", invalid="ignore"):  # what overflows is reported as the reason
        for k in range(max_iter + 1):
            g = matvec(w) - b
            norm = math.sqrt(inner(g, g))
            if k == 0:
                limit = GROWTH * norm
            if norm <= tolerance:
                return GDMResult(w, k, norm, True, CONVERGED)
            if not math.isfinite(norm) or norm > limit:
                return GDMResult(w, k, norm, False, NOT_FINITE if k == 0 else DIVERGED)
            if k == max_iter:
                break
            move *= mu
            move -= step * g
            w += move
            if callback is not None and callback(k + 1, w):
                return GDMResult(w, k + 1, norm, False, STOPPED)
    return GDMResult(w, max_iter, norm, False, MAX_ITER)
