"""Reconciliation: how far the online model is from the full-batch optimum, and back where that helps."""

import time
from collections.abc import Callable
from typing import Any

import numpy as np

from ..config import Settings
from ..errors import SourceError
from ..features.batch import Floats
from ..kernels.cg import cg
from ..learners.base import Ranker
from ..learners.egdm import EGDM
from ..sources.base import Source
from ..state.base import Store
from ..state.values import decode
from .flow import Flow
from .judgements import HeldOut, Judgements, Problem, spread_of
from .memory import check_source, hash_of
from .optimum import Optimum, Watch, optimum
from .swap import At, Swap, new_learner, put_in, swaps_of

PARTS = (0.70, 0.85)  # of the records: to fit, to validate; the rest decides
KEEP, REPLACE, REBASE = "keep", "replace", "rebase"


def reconcile(
    store: Store,
    source: Source,
    settings: Settings,
    *,
    shard: str = "0",
    model: str | None = None,
    method: str = "hybrid",
    watch: Watch = lambda *_: None,
    taken: Callable[[int, int], None] = lambda *_: None,
    at: At = lambda _: None,
) -> dict[str, Any]:
    """Measure the drift of a model, and swap its weights if that is better by the margin set.

    (1) Note where the shard stands, and its weights. (2) Rebuild the judged lists up to there by the same
    flow from the log, swaps applied where they were made, so online weights of earlier moments are known too.
    (3) Of the first 70 % of the records find the optimum, lambda and when to stop chosen on the next 15 %.
    (4) On the last 15 %, which none of them has seen, three meet: keep the online weights of that time,
    replace them by the optimum, or rebase (the optimum plus what the stream has taught since it was taken).
    If another than keep has a pairwise error lower by `reconcile.margin`, the optimum is brought up to the
    present on all lists and put in: (5) to (7) of `put_in`. Until then nothing is written, and the worker
    learns on; what it learnt meanwhile is in the shard, as its records are.

    Where the learner is not RankRLS itself the optimum is given the length of the online weights: the order
    is the same, and the learner's steps keep their proportion.
    """
    began = time.perf_counter()
    at(1)
    name = model or settings.models[0].name
    exact = isinstance(new_learner(settings, name), EGDM)
    entries, end = store.read(shard)
    if not entries:
        raise SourceError(f"shard {shard!r} is empty: learn something first, by streamrank replay")
    check_source(source.fingerprint(), entries)
    swaps = swaps_of(store, shard, name)
    at(2)
    flow, parts, weights = _rebuilt(source, settings, name, swaps, end, taken)
    if "last" in entries and hash_of(flow.last_value or b"") != decode(entries["last"]):
        raise SourceError(f"record {end - 1} of the log is not the one the store took last: another log")
    fit, valid, later = parts
    n = max(part.n_columns for part in parts)
    if not len(fit) or not len(valid) or not len(later):
        raise SourceError(
            f"the log holds {sum(map(len, parts))} judged lists up to record {end}: too few to fit, "
            "validate and decide. Learn more of it first."
        )
    at(3)
    fitted = fit.batch()
    spread = spread_of(fitted, n)
    problem = Problem(fitted, n, spread)
    validation, held_out = HeldOut(valid.last(), n, spread), HeldOut(later.last(), n, spread)
    if not problem.b.any() or not validation.error.n_lists or not held_out.error.n_lists:
        raise SourceError("the lists of the log prefer nothing to anything: there is no optimum to find")
    start = _sized(swaps[-1].optimum, n) * spread if swaps else np.zeros(n)
    best = optimum(problem, validation, method, start, watch)
    at(4)
    earlier, online = (_sized(w, n) * spread for w in weights[:2])
    star = best.w if exact else _as_long(best.w, online)
    candidates = {KEEP: online, REPLACE: star, REBASE: star + online - earlier}
    measured = {kind: held_out.measure(w) for kind, w in candidates.items()}
    kind = min(measured, key=lambda k: measured[k].pairwise_error)  # of equal ones the first
    gain = measured[KEEP].pairwise_error - measured[kind].pairwise_error
    identity, swapped = f"{name}@{end}", False
    made = any(swap.id == identity for swap in swaps)  # at this very offset, by a run before
    if kind != KEEP and gain >= settings.reconcile.margin and not made:
        full = _brought_up(fit + valid + later, n, spread, best, problem.n_rows) / spread
        snapshot = _sized(weights[2], n)

        def make(now: Floats) -> tuple[str, str, Floats, Floats]:
            now = _sized(now, n) if len(now) < n else now
            wide = _sized(full, len(now))
            target = wide if exact else _as_long(wide, now)
            if kind == REBASE:
                target = target + now - _sized(snapshot, len(now))
            return identity, kind, target, full

        swapped = put_in(store, shard, settings, name, make, at=at)
    optimal = measured[REPLACE]
    return {
        "model": name,
        "method": method,
        "offset": end,
        "lists": {"fit": len(fit), "validation": len(valid), "later": len(later)},
        "drift": {
            "pairwise_error_online": measured[KEEP].pairwise_error,
            "pairwise_error_optimal": optimal.pairwise_error,
            "ndcg@10_online": measured[KEEP].ndcg,
            "ndcg@10_optimal": optimal.ndcg,
            "cosine": _cosine(online, best.w),
            "relative_norm": float(np.linalg.norm(online - best.w) / np.linalg.norm(best.w)),
        },
        "candidates": {k: m._asdict() for k, m in measured.items()},
        "lambda": best.lam,
        "iterations": {"warm": best.warm, "cold": best.cold},
        "chosen": kind if swapped else KEEP,
        "swapped": swapped,
        "already": made,
        "validation": {
            "lambdas": best.lambdas.tolist(),
            "errors": best.errors.tolist(),  # a row a step; tikhonov: one row
        },
        "seconds": time.perf_counter() - began,
    }


def _rebuilt(
    source: Source,
    settings: Settings,
    model: str,
    swaps: list[Swap],
    end: int,
    taken: Callable[[int, int], None],
) -> tuple[Flow, list[Judgements], list[Floats]]:
    """The judged lists of each part of the records, and the online weights at its end."""
    flow = Flow(settings)
    learner = next(one.learner for one in flow.models if one.name == model)
    stops = [*(round(part * end) for part in PARTS), end]
    due = {swap.offset: swap.after for swap in swaps}
    records = source.records(0)
    parts, weights, n = [], [], 0
    for stop in stops:
        parts.append(Judgements())
        flow.recorder = parts[-1]
        while flow.offset < stop:  # offsets may have gaps, or count bytes
            _take_due(flow, learner, due)
            record = next(records, None)
            if record is None:
                raise SourceError(
                    f"the log ends at record {flow.offset}, and the store stands at {end}: give the whole "
                    "log it was learnt from"
                )
            flow.step(record)
            n += 1
            if n % 500 == 0:
                taken(flow.offset, end)
        flow.learn()
        weights.append(learner.served_weights().copy())
    _take_due(flow, learner, due)
    weights[-1] = learner.served_weights().copy()
    source.close()
    return flow, parts, weights


def _take_due(flow: Flow, learner: Ranker, due: dict[int, Floats]) -> None:
    if flow.offset in due:
        flow.learn()
        learner.take_weights(due.pop(flow.offset))


def _brought_up(lists: Judgements, n: int, spread: Floats, best: Optimum, n_fitted: int) -> Floats:
    """The optimum on all lists, under the same lambda a row, by as many steps from the one found."""
    problem = Problem(lists.batch(), n, spread)
    lam = best.lam / n_fitted * problem.n_rows
    return cg(lambda v: problem(v) + lam * v, problem.b, best.w, max_iter=max(best.cold, 1)).x


def _sized(w: Floats, n: int) -> Floats:
    return np.concatenate([w, np.zeros(max(n - len(w), 0))])[:n]


def _as_long(w: Floats, like: Floats) -> Floats:
    norm, wanted = np.linalg.norm(w), np.linalg.norm(like)
    return w * (wanted / norm) if norm > 0 and wanted > 0 else w


def _cosine(a: Floats, b: Floats) -> float:
    product = float(np.linalg.norm(a) * np.linalg.norm(b))
    return float(a @ b) / product if product else 0.0
