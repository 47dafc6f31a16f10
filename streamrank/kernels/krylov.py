"""The choice of lambda and of the moment to stop, for all of them at once from one Krylov run."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from scipy.linalg import eigh, eigh_tridiagonal

from .cg import Floats, MatVec


@dataclass(frozen=True, slots=True)
class SelectResult:
    """The best of all (lam, t): ``errors[t - 1, j]`` is that of lambdas[j] after t steps."""

    lam: float
    t: int
    w: Floats
    errors: Floats
    n_matvecs: int


@dataclass(frozen=True, slots=True)
class Tridiagonal:
    """What t steps of Lanczos know: rows of V are orthonormal, V A V' = T, and ``beta`` leads to the next."""

    V: Floats
    diagonal: Floats
    off: Floats
    norm: float

    def coefficients(self, lambdas: Floats) -> Floats:
        """C (t x L) with w(lam, t) = V'C: (T + lam)^-1 |b| e_1, by the eigenvalues of T."""
        values, Q = eigh_tridiagonal(self.diagonal, self.off)
        first: Floats = Q[0] * self.norm
        return np.asarray(Q @ _filtered(values, first, lambdas))


def lanczos(matvec: MatVec, b: Floats, max_iter: int) -> Iterator[Tridiagonal]:
    """The Krylov space of b, one more step each time, fully reorthogonalised; ends when it is exhausted."""
    norm = float(np.linalg.norm(b))
    V, diagonal, off = np.empty((8, len(b))), [0.0] * 0, [0.0] * 0
    if norm == 0.0:
        return
    V[0] = b / norm
    for t in range(1, min(max_iter, len(b)) + 1):
        q = matvec(V[t - 1])
        diagonal.append(float(V[t - 1] @ q))
        yield Tridiagonal(V[:t], np.array(diagonal), np.array(off), norm)
        for _ in range(2):  # twice is enough: what rounding leaves the first time, the second takes
            q = q - V[:t].T @ (V[:t] @ q)
        beta = float(np.linalg.norm(q))
        if not beta > 1e-13 * max(map(abs, diagonal)):
            return
        off.append(beta)
        if t == len(V):
            V = np.concatenate([V, np.empty_like(V)])
        V[t] = q / beta


def krylov_select(
    matvec: MatVec,
    b: Floats,
    lambdas: Sequence[float] | Floats,
    scores: MatVec,
    validate: Callable[[Floats], Floats],
    *,
    max_iter: int | None = None,
    patience: int = 10,
) -> SelectResult:
    """All lambdas and all early stops from one run: [1]'s hybrid method for the price of one solve.

    w(lam, t) = V_t (T_t + lam)^-1 |b| e_1 is what t steps of CG on (A + lam) w = b from 0 give. Validation
    rows are scored through S = X_val V_t, which grows by one column a step. Ends when no lambda has improved
    on its own best for `patience` steps, or the space is exhausted. Equal errors: the earliest step, then the
    largest lambda. Memory: steps x (len(b) + validation rows).

    Parameters
    ----------
    matvec
        v -> A v, without lambda.
    scores
        v -> X_val v.
    validate
        Scores (validation rows x lambdas) -> one error for each lambda.

    Examples
    --------
    >>> A, X = np.diag([4.0, 1.0]), np.eye(2)
    >>> wanted = np.array([0.2, 0.5])
    >>> def distance(s):
    ...     return np.abs(s - wanted[:, None]).sum(axis=0)
    >>> found = krylov_select(lambda v: A @ v, np.ones(2), [0.0, 1.0, 9.0], lambda v: X @ v, distance)
    >>> found.lam, found.t, found.w
    (1.0, 2, array([0.2, 0.5]))

    References
    ----------
    [1] Large scale training methods for linear RankRLS (Airola, Pahikkala, Salakoski), section 3.4.
    """
    lam = np.asarray(lambdas, np.float64)
    limit = len(b) if max_iter is None else max_iter
    best, best_of = np.inf, np.full(len(lam), np.inf)
    chosen = SelectResult(float(lam.max()), 0, np.zeros(len(b)), np.zeros((0, len(lam))), 0)
    errors: list[Floats] = []
    columns: list[Floats] = []
    improved = t = 0
    for t, krylov in enumerate(lanczos(matvec, b, limit), start=1):
        columns.append(scores(krylov.V[-1]))
        C = krylov.coefficients(lam)
        error = np.asarray(validate((C.T @ np.stack(columns)).T))  # rows of one lambda stay contiguous
        errors.append(error)
        if (error < best_of).any():
            improved = t
        best_of = np.fmin(best_of, error)
        if np.nanmin(error) < best:
            best = float(np.nanmin(error))
            j = max(np.flatnonzero(error == best), key=lambda at: lam[at])
            chosen = SelectResult(float(lam[j]), t, krylov.V.T @ C[:, j], chosen.errors, t)
        if t - improved >= patience:
            break
    return SelectResult(chosen.lam, chosen.t, chosen.w, np.array(errors).reshape(-1, len(lam)), t)


def eigh_path(H: Floats, b: Floats, lambdas: Sequence[float] | Floats) -> Floats:
    """w(lam) = Q (Q'b / (eigenvalue + lam)), a row for each lambda, from one decomposition of H.

    Where eigenvalue + lam is 0 up to rounding the direction is left out: the solution of least norm.

    Examples
    --------
    >>> eigh_path(np.diag([1.0, 3.0]), np.ones(2), [0.0, 1.0])
    array([[1.  , 0.3333...],
           [0.5 , 0.25 ]])
    """
    values, Q = eigh(H)
    return np.asarray((Q @ _filtered(values, Q.T @ b, np.asarray(lambdas, np.float64))).T)


def _filtered(values: Floats, coordinates: Floats, lambdas: Floats) -> Floats:
    total = values[:, None] + lambdas
    sound = total > 1e-14 * np.abs(values).max()
    return np.where(sound, coordinates[:, None] / np.where(sound, total, 1.0), 0.0)
