"""What the papers draw, measured on the data at hand: numbers here, charts in `pictures`.

Of RankRLS: the error against iterations for several lambdas ([003] figures 1 and 2), the estimates of the
extreme eigenvalues ([000] figures 1 and 2), and how many steps GDM, eGDM and CG take ([000] section 3).

References
----------
[000] Large scale ranking using stochastic gradient descent (Tas).
[003] Large scale training methods for linear RankRLS (Airola, Pahikkala, Salakoski).
"""

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import islice

import numpy as np

from ..errors import ConfigError
from ..features.batch import Floats
from ..kernels.cg import Callback, CGResult, MatVec, cg
from ..kernels.csr import Matrix
from ..kernels.gdm import GDMResult, egdm, gdm
from ..kernels.krylov import krylov_select
from ..kernels.misorder import PairwiseError
from ..kernels.operators import ScoreOperator
from ..kernels.power import algorithm_1, largest
from ..learners.rankrls import DIRECT, GRID
from ..sources.dataset import Dataset
from .evaluate import linear_scores

SOLVERS = ("cg", "egdm", "gdm")
STEPS = 100  # drawn of a Krylov run and of the power iteration
ALGORITHM_1 = 20  # steps that [000] gives it
BOUND_AT = (2, 3, 5, 8, 12, 20, 30, 50, 100)  # each is a run of its own
LAMBDAS = 6  # drawn, and beside them 0 and the chosen one
HELD_OUT_ROWS = 20_000
CONDITIONS = 8
EASIEST, HARDEST = 10**0.5, 1e4  # condition numbers compared, if X'LX is singular; else fewer are reached
FIT_FROM = 100.0  # below, the pace of GDM is set by its momentum .9, not by the condition
RTOL = 1e-8
MAX_ITER = 200_000
SECONDS = 20.0  # for each solver over all lambdas, where products go through the rows
SHORT, REPEATS = 0.05, 3  # seconds: a shorter run is timed as the best of some

Tell = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class ErrorPath:
    """``errors[t - 1, j]``: the pairwise error of lambdas[j] after t steps of CG on rows held out."""

    lambdas: Floats
    errors: Floats
    best_lam: float
    best_t: int


@dataclass(frozen=True, slots=True)
class Estimates:
    """kappa_1 and kappa_n of X'LX + lam, a row for each step of Algorithm 1.

    ``corrected`` is with the centring L, ``printed`` without. ``bound`` holds rows (products, kappa_1) of the
    estimate from above that streamrank uses. ``exact`` is (kappa_1, kappa_n) where the matrix is small.
    ``n_iter`` tells for each way of knowing them what eGDM takes: None where it does not converge.
    """

    lam: float
    corrected: Floats
    printed: Floats
    bound: Floats
    exact: tuple[float, float] | None
    used: dict[str, tuple[float, float]]
    n_iter: dict[str, int | None]


@dataclass(frozen=True, slots=True)
class Comparison:
    """Iterations and seconds of each solver at each lambda, NaN where it did not converge.

    ``exponents`` are those of iterations ~ C^exponent over the conditions from `FIT_FROM` up, None with fewer
    than three of them, or all near each other. ``formed``: the products were with X'LX itself, else through
    the rows.
    """

    lambdas: Floats
    conditions: Floats
    n_iter: dict[str, Floats]
    seconds: dict[str, Floats]
    exponents: dict[str, float | None]
    formed: bool


class Problem:
    """(X'LX + lam) w = X'Ly of a set of judged lists; X'LX is formed and decomposed where it is small."""

    def __init__(self, train: Dataset) -> None:
        self.operator = ScoreOperator(Matrix(train), train.lists)
        self.b = self.operator.rhs(train.y)
        self.n = len(self.b)
        self.H = self.operator.gram() if self.n <= DIRECT else None
        if self.H is not None:
            values = np.linalg.eigvalsh(self.H)
            self.s_1, self.s_n = float(values[-1]), max(float(values[0]), 0.0)
        else:
            self.s_1, self.s_n = largest(self.operator, self.n).value, 0.0
        if not self.s_1 > 0:
            raise ConfigError("no column differs within any list of the training set: nothing to draw")
        self.operator(self.b)  # compiles
        began = time.perf_counter()
        self.operator(self.b)
        self.seconds = time.perf_counter() - began  # of a product through the rows

    def product(self, lam: float) -> MatVec:
        """v -> (X'LX + lam) v, the fastest way."""
        if self.H is None:
            return lambda v: self.operator(v) + lam * v
        A = self.H + lam * np.eye(self.n)
        return lambda v: A @ v

    def uncentred(self, lam: float) -> MatVec:
        """v -> (X'X + lam) v, which the printed Algorithm 1 takes for the Hessian."""
        matrix = self.operator.matrix
        return lambda v: matrix.back(matrix.scores(v)) + lam * v

    def steps(self, products: int) -> int:
        """Steps to draw, of so many products each: fewer where a product takes long."""
        return int(np.clip(SECONDS / 2 / (products * self.seconds), ALGORITHM_1, STEPS))


def error_path(
    problem: Problem, held_out: Dataset, chosen: float, lambdas: Sequence[float] | Floats = GRID
) -> ErrorPath:
    """[003] figures 1 and 2: all lambdas from one Krylov run, whose t-th step is that of CG."""
    end = max(int(np.searchsorted(held_out.lists, HELD_OUT_ROWS, side="right")) - 1, 1)
    rows = int(held_out.lists[end])
    error = PairwiseError(held_out.y[:rows], held_out.lists[: end + 1])
    if not error.n_lists:
        raise ConfigError("no list held out has two different labels: there is no error to draw")
    some = np.linspace(0, len(lambdas) - 1, min(LAMBDAS, len(lambdas))).round().astype(int)
    shown = np.unique([0.0, chosen, *np.sort(lambdas)[some]])
    steps = problem.steps(1)
    found = krylov_select(
        problem.operator,
        problem.b,
        shown,
        lambda w: linear_scores(held_out, w)[:rows],
        error,
        max_iter=steps,
        patience=steps,
    )
    return ErrorPath(shown, found.errors, found.lam, found.t)


def eigenvalue_estimates(problem: Problem, lam: float) -> Estimates:
    """[000] figures 1 and 2, by Algorithm 1 corrected and as printed."""
    steps, n = problem.steps(6), problem.n
    centred = problem.product(lam)
    corrected = np.array(list(islice(algorithm_1(centred, n), steps)))
    printed = np.array(list(islice(algorithm_1(problem.uncentred(lam), n), steps)))
    bound = np.array([(k, largest(centred, n, n_iter=k).value) for k in BOUND_AT if k <= steps])
    exact = None if problem.H is None else (problem.s_1 + lam, problem.s_n + lam)
    at = ALGORITHM_1 - 1
    used = {
        "corrected Algorithm 1": (float(corrected[at, 0]), float(corrected[at, 1])),
        "printed Algorithm 1": (float(printed[at, 0]), float(printed[at, 1])),
        "bound from above, and lambda": (float(bound[bound[:, 0] == ALGORITHM_1, 1][0]), lam),
    }
    if exact is not None:
        used = {"exact": exact, **used}
    n_iter: dict[str, int | None] = {}
    for name, (kappa_1, kappa_n) in used.items():
        run = egdm(
            centred,
            problem.b,
            kappa_1=kappa_1,
            kappa_n=min(kappa_n, kappa_1),
            rtol=RTOL,
            max_iter=MAX_ITER,
            callback=_until(time.perf_counter() + SECONDS / 4),
        )
        n_iter[name] = run.n_iter if run.converged else None
    return Estimates(lam, corrected, printed, bound, exact, used, n_iter)


def compare_solvers(problem: Problem, tell: Tell = lambda _: None) -> Comparison:
    """[000] section 3: the same systems by each solver, from a well to an ill conditioned one.

    A solver that fails on one lambda is not tried on smaller ones, which are harder.
    """
    lambdas = problem.s_1 / (np.geomspace(EASIEST, HARDEST, CONDITIONS) - 1.0)
    conditions = (problem.s_1 + lambdas) / (problem.s_n + lambdas)
    n_iter = {name: np.full(CONDITIONS, np.nan) for name in SOLVERS}
    seconds = {name: np.full(CONDITIONS, np.nan) for name in SOLVERS}
    for name in SOLVERS:
        left = SECONDS
        for k, lam in enumerate(lambdas):
            tell(f"{name}, condition {conditions[k]:.0f}")
            took = np.inf
            for _ in range(REPEATS):
                began = time.perf_counter()
                result = _solve(name, problem, lam, began + left)
                took = min(took, time.perf_counter() - began)
                if took > SHORT:
                    break
            left -= took
            if not result.converged:
                break
            n_iter[name][k], seconds[name][k] = result.n_iter, took
    exponents = {name: exponent(conditions, n_iter[name]) for name in SOLVERS}
    return Comparison(lambdas, conditions, n_iter, seconds, exponents, problem.H is not None)


def exponent(conditions: Floats, n_iter: Floats) -> float | None:
    """Of n_iter ~ conditions^exponent, by least squares on their logarithms.

    >>> conditions = np.array([10.0, 100.0, 1000.0, 10000.0])
    >>> round(exponent(conditions, np.array([99.0, 40.0, 400.0, 4000.0])), 6)
    1.0
    """
    used = (conditions >= 0.999 * FIT_FROM) & np.isfinite(n_iter)
    if used.sum() < 3 or np.ptp(np.log(conditions[used])) < np.log(4.0):
        return None
    return float(np.polyfit(np.log(conditions[used]), np.log(n_iter[used]), 1)[0])


def _solve(name: str, problem: Problem, lam: float, deadline: float) -> CGResult | GDMResult:
    matvec, b, late = problem.product(lam), problem.b, _until(deadline)
    if name == "cg":
        return cg(matvec, b, rtol=RTOL, max_iter=MAX_ITER, callback=late)
    kappa_1 = largest(matvec, problem.n).value
    if name == "egdm":
        low = min(problem.s_n + lam, kappa_1)
        return egdm(matvec, b, kappa_1=kappa_1, kappa_n=low, rtol=RTOL, max_iter=MAX_ITER, callback=late)
    return gdm(matvec, b, eta=2.0 / kappa_1, rtol=RTOL, max_iter=MAX_ITER, callback=late)


def _until(deadline: float) -> Callback:
    return lambda _k, _w: time.perf_counter() > deadline
