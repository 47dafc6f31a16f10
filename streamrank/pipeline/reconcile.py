"""Reconciliation: how far the online model is from the full-batch optimum, and back where that helps."""

import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import msgspec
import numpy as np

from ..config import Settings
from ..errors import ConfigError, SourceError
from ..features.batch import Floats
from ..kernels.cg import cg
from ..learners.base import Ranker
from ..learners.egdm import EGDM
from ..state.base import Store
from .datasets import Data
from .judgements import HeldOut, Measured
from .members import Member, lead, merged, noted, own, retraced, together, weights_of
from .optimum import Optimum, Watch, optimum
from .plan import KEEP, REBASE, REPLACE, Plan, as_long, carry_out, report_of, sized, unfinished
from .refit import refit
from .swap import At, new_learner
from .training import DECIDE, FIT, VALIDATE, Problem, TrainingSet, client_of


def reconcile(
    store: Store,
    data: Data,
    settings: Settings,
    *,
    shards: Sequence[str] = ("0",),
    model: str | None = None,
    method: str = "hybrid",
    dask: str | None = None,
    swap: bool = True,
    watch: Watch = lambda *_: None,
    at: At = lambda _: None,
) -> dict[str, Any]:
    """Measure the drift of a model, and swap its weights if that is better by the margin set.

    (1) Note where each shard stands. (2) Get the lists it had learnt by then, and lead a new learner through
    them, swaps made where they were made, so that the online weights of earlier moments are known too. (3) Of
    the first 70 % of the lists find the optimum, lambda and when to stop chosen on the next 15 %. (4) On the
    last 15 %, which none of them has seen, three meet: keep the online weights of that time, replace them by
    the optimum, or rebase (the optimum plus what the stream has taught since it was taken). If another than
    keep has a pairwise error lower by `reconcile.margin`, the optimum is brought up to the present on all
    lists and put in: (5) to (8) of `put_in` for each shard, (9) of `carry_out`. Until then nothing is
    written, and the workers learn on; what they learnt meanwhile is in the shards, as their records are. A
    run that finds a swap which died midway completes it, and says what it would have said.

    Where the learner is not RankRLS itself (SONG, RankNet, ...) the drift is from RankRLS on the same lists,
    and the optimum is given the length of the online weights: the order is the same, and the learner's steps
    keep their proportion. One with hidden units is measured only: it has no weights to swap. A recommender is
    refitted instead: `refit`.
    """
    began = time.perf_counter()
    name = model or settings.models[0].name
    if name in [one.name for one in settings.recommenders]:
        if len(shards) != 1:
            raise ConfigError(
                f"{name!r} is a recommender of {len(shards)} shards: only that of one is refitted"
            )
        return refit(store, data, settings, shard=shards[0], model=name, swap=swap, watch=watch, at=at)
    exact = isinstance(new_learner(settings, name), EGDM)
    at(1)
    if (left := unfinished(store, shards, name)) is not None:
        carry_out(store, left, settings, name, at)
        return report_of(left)
    members = noted(store, shards, settings, name)
    at(2)
    with (
        tempfile.TemporaryDirectory(dir=settings.reconcile.folder or None) as folder,
        client_of(dask) as client,
    ):
        with TrainingSet(Path(folder), settings.reconcile.memory_mb, len(members)) as training:
            for member in members:
                lead(member, data, settings, name, training)
        spread, (validation, later) = _checked(training, members)
        at(3)
        problem = training.problem(spread, client)
        if not problem.b.any() or not validation.error.n_lists or not later.error.n_lists:
            raise SourceError("the lists learnt prefer nothing to anything: there is no optimum to find")
        start = together([m.swaps[-1].optimum if m.swaps else np.zeros(0) for m in members], members, spread)
        best = optimum(problem, validation, method, start, watch)
        at(4)
        earlier, online = (merged(members, k, settings, name) for k in range(2))
        measured, near = _compared(later, earlier, online, best, exact)
        kind = min(measured, key=lambda k: measured[k].pairwise_error)  # of equal ones the first
        gain = measured[KEEP].pairwise_error - measured[kind].pairwise_error
        identity = f"{name}@{','.join(str(member.end) for member in members)}"
        made = any(one.id == identity for member in members for one in member.swaps)
        linear = weights_of(online) is not None
        wanted = swap and linear and kind != KEEP and gain >= settings.reconcile.margin and not made
        full = _brought_up(training, spread, best, problem, client) if wanted else best.w
    report = {
        "model": name,
        "method": method,
        "offset": sum(member.end for member in members),
        "offsets": {member.shard: member.end for member in members},
        "lists": dict(zip(("fit", "validation", "later"), training.n_lists, strict=True)),
        "retraced": all(map(retraced, members)),
        "drift": {
            "pairwise_error_online": measured[KEEP].pairwise_error,
            "pairwise_error_optimal": measured[REPLACE].pairwise_error,
            "ndcg@10_online": measured[KEEP].ndcg,
            "ndcg@10_optimal": measured[REPLACE].ndcg,
            **near,
        },
        "candidates": {k: m._asdict() for k, m in measured.items()},
        "lambda": best.lam,
        "iterations": {"warm": best.warm, "cold": best.cold},
        "chosen": kind if wanted else KEEP,
        "swapped": wanted,
        "already": made,
        "validation": {
            "lambdas": best.lambdas.tolist(),
            "errors": best.errors.tolist(),  # a row a step; tikhonov: one row
        },
        "seconds": time.perf_counter() - began,
    }
    if wanted:
        plan = Plan(
            identity,
            kind,
            exact,
            {m.shard: own(full / spread, m) for m in members},
            {m.shard: m.stored.served_weights().copy() for m in members},
            msgspec.json.encode(report).decode(),
        )
        report["swapped"] = carry_out(store, plan, settings, name, at)
    report["seconds"] = time.perf_counter() - began
    return report


def _compared(
    later: HeldOut, earlier: Ranker, online: Ranker, best: Optimum, exact: bool
) -> tuple[dict[str, Measured], dict[str, float | None]]:
    """The candidates on later lists; and how near the online weights are to the optimum, where it has any."""
    now, then = weights_of(online), weights_of(earlier)
    if now is None or then is None:
        measured = {KEEP: later.measure_scores(online.scores(later.batch)), REPLACE: later.measure(best.w)}
        return measured, {"cosine": None, "relative_norm": None}
    w, before = (sized(one, len(best.w)) * later.spread for one in (now, then))
    star = best.w if exact else as_long(best.w, w)
    candidates = {KEEP: w, REPLACE: star, REBASE: star + w - before}
    norm = float(np.linalg.norm(w - best.w) / np.linalg.norm(best.w))
    near: dict[str, float | None] = {"cosine": _cosine(w, best.w), "relative_norm": norm}
    return {kind: later.measure(one) for kind, one in candidates.items()}, near


def _checked(training: TrainingSet, members: Sequence[Member]) -> tuple[Floats, list[HeldOut]]:
    if not all(training.n_lists):
        ends = ", ".join(f"{m.shard} up to record {m.end}" for m in members)
        raise SourceError(
            f"there are {sum(training.n_lists)} judged lists ({ends}): too few to fit, validate and decide. "
            "Learn more first."
        )
    spread = training.spread
    return spread, [training.held_out(part, spread) for part in (VALIDATE, DECIDE)]


def _brought_up(training: TrainingSet, spread: Floats, best: Optimum, fitted: Problem, client: Any) -> Floats:
    """The optimum on all lists, under the same lambda a row, by as many steps from the one found."""
    problem = training.problem(spread, client, (FIT, VALIDATE, DECIDE))
    lam = best.lam / fitted.n_rows * problem.n_rows
    return cg(lambda v: problem(v) + lam * v, problem.b, best.w, max_iter=max(best.cold, 1)).x


def _cosine(a: Floats, b: Floats) -> float:
    product = float(np.linalg.norm(a) * np.linalg.norm(b))
    return float(a @ b) / product if product else 0.0
