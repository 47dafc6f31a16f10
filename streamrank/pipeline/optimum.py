"""The full-batch optimum of judged lists: lambda and the moment to stop chosen on later ones."""

import itertools
from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from ..features.batch import Floats
from ..kernels.cg import cg, shifted_cg
from ..kernels.krylov import krylov_select
from .judgements import HeldOut
from .training import Problem

POWERS = range(-16, 5)  # lambdas are 2^k a row
EXACT = 1e-10  # tikhonov solves to convergence
ENOUGH = 1e-3  # early and hybrid stop on validation, at the latest here
PATIENCE = 10

Watch = Callable[[int, float], None]


class Optimum(NamedTuple):
    """The weights, over each column's spread, and how they were found.

    ``errors`` are validation errors: a row a step (tikhonov: one row), a column for each of ``lambdas``.
    """

    w: Floats
    lam: float
    warm: int  # steps of CG from the last reconciled weights
    cold: int  # and from 0
    lambdas: Floats
    errors: Floats


def optimum(
    problem: Problem,
    held_out: HeldOut,
    method: str,
    start: Floats,
    watch: Watch = lambda *_: None,
) -> Optimum:
    """Solve (H + lam) w = b.

    "tikhonov" takes the lambda whose solution orders the held-out lists best, and solves for it to the end.
    "early" takes lam = 0 and "hybrid" the best of all lambdas and all steps of one Krylov run; then CG from
    `start` goes on while the held-out error falls, and the better of the two is taken.
    """
    b = problem.b
    lambdas = np.zeros(1) if method == "early" else problem.n_rows * 2.0 ** np.array(POWERS)

    def at(lam: float) -> Callable[[Floats], Floats]:
        return lambda v: problem(v) + lam * v

    if method == "tikhonov":
        path = shifted_cg(problem, b, lambdas, rtol=1e-6)
        errors = held_out.error(np.stack([held_out.scores(w) for w in path.X], axis=1))
        lam = float(lambdas[np.flatnonzero(errors == np.nanmin(errors))[-1]])  # of equal ones the largest
        cold, warm = cg(at(lam), b, rtol=EXACT), cg(at(lam), b, start, rtol=EXACT)
        watch(warm.n_iter, float(np.nanmin(errors)))
        return Optimum(warm.x, lam, warm.n_iter, cold.n_iter, lambdas, errors[None])

    steps = itertools.count(1)

    def validate(scores: Floats) -> Floats:
        errors = held_out.error(scores)
        watch(next(steps), float(np.nanmin(errors)))
        return errors

    found = krylov_select(problem, b, lambdas, held_out.scores, validate, patience=PATIENCE)
    best, best_error, improved = found.w, held_out.error.one(held_out.scores(found.w)), 0
    first = held_out.error.one(held_out.scores(start)) if start.any() else np.inf

    def stop(step: int, w: Floats) -> bool:
        nonlocal best, best_error, improved, first
        error = held_out.error.one(held_out.scores(w))
        watch(step, error)
        if error < first:
            first, improved = error, step
            if error < best_error:
                best, best_error = w.copy(), error
        return step - improved >= PATIENCE

    cg(at(found.lam), b, start, rtol=ENOUGH, callback=stop)
    return Optimum(best, found.lam, improved, found.t, lambdas, found.errors)
