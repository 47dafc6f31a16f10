"""RankRLS in batch: the full-batch optimum that the streaming learners are measured against."""

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, Self

import numpy as np

from ..errors import ConfigError
from ..features.batch import Floats
from ..kernels.cg import CGResult, cg, shifted_cg
from ..kernels.csr import Matrix
from ..kernels.gdm import GDMResult, egdm, gdm
from ..kernels.krylov import eigh_path, krylov_select
from ..kernels.misorder import PairwiseError
from ..kernels.operators import PairOperator, ScoreOperator
from ..kernels.power import largest
from .judged import judged

GRID = tuple(2.0**k for k in range(-10, 11))
DIRECT = 500  # columns: up to here X'LX is formed and decomposed, which costs less than a hundred products

METHODS = ("tikhonov", "early", "hybrid")
SOLVERS = ("auto", "cg", "egdm", "gdm", "direct")


_CONSTANT = "y is constant in every query: there is nothing to rank; check y and queries"


class Product(Protocol):
    """v -> X'LXv, whole or in blocks."""

    def __call__(self, v: Floats, /) -> Floats: ...

    def gram(self) -> Floats:
        """X'LX itself."""


class BlockedProduct(Product, Protocol):
    """A product that has its labels with its rows."""

    shape: tuple[int, int]

    def rhs(self) -> Floats:
        """X'Ly."""


@dataclass(frozen=True, slots=True)
class FitReport:
    """How the weights were found.

    ``errors`` are validation errors: a column for each lambda, a row for each step (early, hybrid) or one row
    (tikhonov); no row without validation. ``n_iter`` counts products with the data, 0 for a direct solution.
    ``converged`` is False also where early stopping was asked for: it does not wait for convergence.
    """

    lam: float
    n_iter: int
    seconds: float
    errors: Floats
    solver: str
    converged: bool


@dataclass(frozen=True, slots=True)
class _Validation:
    scores: Callable[[Floats], Floats]
    errors: Callable[[Floats], Floats]


class RankRLS:
    """Least squares on all pairs of each query, by one linear system.

    The weights minimise 1/2 sum_q (X_q w - y_q)' L_q (X_q w - y_q) + (lam/2) |w|^2, where L_q takes away the
    mean over query q: (X'LX + lam) w = X'Ly, [1] (8). From preferences: (X'MM'X + lam) w = X'M1, [1] 3.5.
    Both agree when every pair of a query is given with weight 1/(rows of the query) and magnitude y_i - y_j,
    ties included.

    Parameters
    ----------
    lam
        Regularisation, >= 0; a sequence of them is chosen from by validation error. `GRID` is 2^-10 .. 2^10.
    method
        "tikhonov" solves to convergence. "early" takes lam = 0 and stops when validation says so. "hybrid"
        looks at every lambda after every step, all from one Krylov run: as good as either and faster.
    solver
        "cg", "egdm", "gdm" ([2]), "direct", or "auto": direct up to 500 columns, beyond that CG, all
        lambdas from one run. A named solver solves for one lambda after the other. Early and hybrid: CG only.
    rtol
        Convergence: |gradient| <= rtol |X'Ly|.
    max_iter
        Bound on the products for each lambda; ten times the columns if not given (egdm, gdm: 100000).
    patience
        Early, hybrid: steps without improvement before the end.
    n_threads
        Threads of the sparse products.

    Examples
    --------
    >>> X = np.array([[1.0, 0.0], [0.0, 1.0], [1.0, 1.0], [0.0, 0.0]])
    >>> model = RankRLS(lam=1.0).fit(X, y=[2.0, 0.0, 1.0, 0.0], queries=["a", "a", "b", "b"])
    >>> model.weights.round(4), model.report.solver
    (array([ 0.75, -0.25]), 'direct')
    >>> model.predict(X).round(4)
    array([ 0.75, -0.25,  0.5 ,  0.  ])

    References
    ----------
    [1] Large scale training methods for linear RankRLS (Airola, Pahikkala, Salakoski).
    [2] Large scale ranking using stochastic gradient descent (Tas).
    """

    weights: Floats
    report: FitReport

    def __init__(
        self,
        lam: float | Sequence[float] = 1.0,
        method: str = "tikhonov",
        solver: str = "auto",
        rtol: float = 1e-6,
        max_iter: int | None = None,
        patience: int = 10,
        n_threads: int = 1,
    ) -> None:
        self.lam, self.method, self.solver, self.rtol = lam, method, solver, rtol
        self.max_iter, self.patience, self.n_threads = max_iter, patience, n_threads
        lambdas = np.atleast_1d(np.asarray(lam, np.float64))
        if lambdas.ndim != 1 or not len(lambdas) or not (np.isfinite(lambdas) & (lambdas >= 0)).all():
            raise ConfigError(f"lam is {lam}: give a number >= 0, or several to choose from")
        if method not in METHODS or solver not in SOLVERS:
            raise ConfigError(f"method {method!r}, solver {solver!r}: give one of {METHODS} and of {SOLVERS}")
        if method != "tikhonov" and solver not in ("auto", "cg"):
            raise ConfigError(f"method {method!r} stops along a Krylov run: solver must be 'cg' or 'auto'")
        if solver in ("egdm", "gdm") and not (lambdas > 0).all():
            raise ConfigError(
                f"solver {solver!r} needs lam > 0: its speed is that of the smallest eigenvalue"
            )
        if not rtol > 0 or patience < 1 or n_threads < 1 or (max_iter is not None and max_iter < 1):
            raise ConfigError("rtol must be above 0; patience, n_threads and max_iter at least 1")
        self._lambdas = np.zeros(1) if method == "early" else lambdas

    def fit(self, X: Any, y: Any = None, queries: Any = None, valid: Any = None) -> Self:
        """Learn from judged rows.

        Parameters
        ----------
        X
            Rows x columns: array, scipy sparse matrix, or a `Dataset`.
        y
            One label for each row. Left out for a `Dataset`, which brings its own, and its lists.
        queries
            An id for each row; rows are compared within a query. None: one ranking of all. Ids that do not
            come in runs cost a sorted copy of X.
        valid
            (X, y, queries) or a `Dataset` to choose lambda and the moment to stop on.
        """
        data = judged(X, y, queries)
        operator = ScoreOperator(Matrix(data.ordered_rows(), n_threads=self.n_threads), data.lists)
        labels = data.ordered(data.y)
        if not operator.centred(labels).any():
            raise ValueError(_CONSTANT)
        return self._fit(operator, operator.rhs(labels), self._validation(valid, operator.shape[0]))

    def fit_blocks(self, operator: BlockedProduct, valid: Any = None) -> Self:
        """Learn from rows in blocks, on disk or on a cluster: `BlockedOperator`, `DaskOperator`.

        Parameters
        ----------
        valid
            As for `fit`; in memory.
        """
        b = operator.rhs()
        if not b.any():
            raise ValueError(_CONSTANT)
        return self._fit(operator, b, self._validation(valid, operator.shape[0]))

    def _validation(self, valid: Any, n: int) -> _Validation | None:
        if valid is None:
            return None
        later = judged(*(valid if isinstance(valid, tuple) else (valid,)))
        error = PairwiseError(later.ordered(later.y), later.lists)
        if not error.n_lists:
            raise ValueError("valid has no query with two different labels: it cannot tell models apart")
        scorer = _scorer(later.X, n, self.n_threads)
        return _Validation(scorer, lambda scores: error(later.ordered(scores)))

    def fit_pairs(
        self,
        X: Any,
        better: Any,
        worse: Any,
        weights: Any = None,
        magnitudes: Any = None,
        valid: tuple[Any, Any, Any] | None = None,
    ) -> Self:
        """Learn from preferences: row ``better[h]`` of X should score above row ``worse[h]``.

        Parameters
        ----------
        weights, magnitudes
            How much each preference counts, and by how much the scores should differ; 1 if not given.
        valid
            (X, better, worse); the error is the share of these that the scores contradict, ties 1/2.
        """
        if not len(better):
            raise ValueError("no preferences were given")
        operator = PairOperator(Matrix(X, n_threads=self.n_threads), better, worse, weights, magnitudes)
        validation = None
        if valid is not None:
            scorer = _scorer(valid[0], operator.shape[0], self.n_threads)
            high, low = np.asarray(valid[1]), np.asarray(valid[2])
            validation = _Validation(scorer, lambda s: 0.5 - 0.5 * np.sign(s[high] - s[low]).mean(axis=0))
        return self._fit(operator, operator.rhs(), validation)

    def predict(self, X: Any) -> Floats:
        """The score of each row; columns of a sparse X that were not seen in training weigh 0."""
        if not hasattr(self, "weights"):
            raise ValueError("nothing was learnt yet: call fit, fit_pairs or fit_blocks first")
        return _scorer(X, len(self.weights), self.n_threads)(self.weights)

    def path(self, lambdas: Sequence[float]) -> Floats:
        """The weights for each of `lambdas` on the data of the last fit, a row each."""
        return self._path(np.asarray(lambdas, np.float64))[0]

    def _fit(self, operator: Product, b: Floats, validation: _Validation | None) -> Self:
        if validation is None and (self.method != "tikhonov" or len(self._lambdas) > 1):
            what = f"method {self.method!r} with {len(self._lambdas)} lambda(s)"
            raise ValueError(f"{what} chooses by validation error: give valid=(X, y, queries)")
        self._operator, self._b = operator, b
        began = time.perf_counter()
        if validation is not None and self.method != "tikhonov":
            found = krylov_select(
                operator,
                b,
                self._lambdas,
                validation.scores,
                validation.errors,
                max_iter=self.max_iter,
                patience=self.patience,
            )
            self.weights = found.w
            lam, n_iter, errors, solver, converged = found.lam, found.n_matvecs, found.errors, "krylov", False
        else:
            W, n_iter, solver, converged = self._path(self._lambdas)
            errors, best = np.zeros((0, len(W))), 0
            if validation is not None:
                errors = validation.errors(np.stack([validation.scores(w) for w in W]).T)[None]
                ties = np.flatnonzero(errors[0] == np.nanmin(errors[0]))
                best = int(max(ties, key=lambda at: self._lambdas[at]))
            self.weights, lam = W[best], float(self._lambdas[best])
        self.report = FitReport(lam, n_iter, time.perf_counter() - began, errors, solver, converged)
        return self

    def _path(self, lambdas: Floats) -> tuple[Floats, int, str, bool]:
        """Weights a lambda, products, solver, converged."""
        operator, b = self._operator, self._b
        if self.solver == "direct" or (self.solver == "auto" and len(b) <= DIRECT):
            return eigh_path(operator.gram(), b, lambdas), 0, "direct", True
        if self.solver == "auto":
            all_at_once = shifted_cg(operator, b, lambdas, rtol=self.rtol, max_iter=self.max_iter)
            return all_at_once.X, all_at_once.n_iter, "shifted cg", bool(all_at_once.converged.all())
        results = [self._solve(lam) for lam in lambdas]
        n_iter = sum(result.n_iter for result in results)
        return np.stack([r.x for r in results]), n_iter, self.solver, all(r.converged for r in results)

    def _solve(self, lam: float) -> CGResult | GDMResult:
        operator, b = self._operator, self._b

        def matvec(v: Floats) -> Floats:
            return operator(v) + lam * v

        if self.solver == "cg":
            return cg(matvec, b, rtol=self.rtol, max_iter=self.max_iter)
        kappa_1 = largest(matvec, len(b)).value
        limit = 100_000 if self.max_iter is None else self.max_iter
        if self.solver == "egdm":
            return egdm(matvec, b, kappa_1=kappa_1, kappa_n=min(lam, kappa_1), rtol=self.rtol, max_iter=limit)
        return gdm(matvec, b, eta=2.0 / kappa_1, rtol=self.rtol, max_iter=limit)


def _scorer(X: Any, n: int, n_threads: int) -> Callable[[Floats], Floats]:
    matrix = Matrix(X, n_threads=n_threads)
    columns = matrix.shape[1]
    if columns != n and not hasattr(X, "indptr"):
        raise ValueError(f"X has {columns} columns, the training rows {n}")

    def scores(w: Floats) -> Floats:
        return matrix.scores(np.concatenate([w, np.zeros(max(columns - n, 0))])[:columns])

    return scores
