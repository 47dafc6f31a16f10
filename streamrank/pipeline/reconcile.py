"""Reconciliation: how far the online model is from the full-batch optimum, and back where that helps."""

import copy
import tempfile
import time
from bisect import bisect_right
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import msgspec
import numpy as np

from ..config import Settings
from ..errors import SourceError
from ..features.batch import Floats, Ints
from ..features.columns import Vocabulary
from ..kernels.cg import cg
from ..learners.base import Ranker
from ..learners.egdm import EGDM
from ..state.base import Store
from ..state.values import decode
from .datasets import Data, n_learnt
from .judgements import HeldOut
from .learnt import cut, walk
from .memory import restore_learner
from .optimum import Optimum, Watch, optimum
from .plan import KEEP, REBASE, REPLACE, Plan, as_long, carry_out, report_of, sized, unfinished
from .swap import At, Swap, new_learner, swaps_of
from .training import DECIDE, FIT, VALIDATE, Problem, TrainingSet, client_of

PARTS = (0.70, 0.85)  # of the lists: to fit, to validate; the rest decides


class Member(NamedTuple):
    """A shard as it was noted, and its learner where each part ends."""

    shard: str
    end: int
    entries: Mapping[str, bytes]
    columns: Ints | None  # those in common of its own; None: the same
    swaps: list[Swap]
    learners: list[Ranker]


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

    Where the learner is not RankRLS itself the optimum is given the length of the online weights: the order
    is the same, and the learner's steps keep their proportion.
    """
    began = time.perf_counter()
    name = model or settings.models[0].name
    exact = isinstance(new_learner(settings, name), EGDM)
    at(1)
    if (left := unfinished(store, shards, name)) is not None:
        carry_out(store, left, settings, name, at)
        return report_of(left)
    members = _noted(store, shards, settings, name)
    at(2)
    with (
        tempfile.TemporaryDirectory(dir=settings.reconcile.folder or None) as folder,
        client_of(dask) as client,
    ):
        with TrainingSet(Path(folder), settings.reconcile.memory_mb, len(members)) as training:
            for member in members:
                lead(member, data, settings, name, training)
        spread, held_out = _checked(training, members)
        at(3)
        problem = training.problem(spread, client)
        if not problem.b.any() or not all(held.error.n_lists for held in held_out):
            raise SourceError("the lists learnt prefer nothing to anything: there is no optimum to find")
        start = _together([m.swaps[-1].optimum if m.swaps else np.zeros(0) for m in members], members, spread)
        best = optimum(problem, held_out[0], method, start, watch)
        at(4)
        n = training.n_columns
        earlier, online = (sized(_served(members, k, settings, name), n) * spread for k in range(2))
        star = best.w if exact else as_long(best.w, online)
        candidates = {KEEP: online, REPLACE: star, REBASE: star + online - earlier}
        measured = {kind: held_out[1].measure(w) for kind, w in candidates.items()}
        kind = min(measured, key=lambda k: measured[k].pairwise_error)  # of equal ones the first
        gain = measured[KEEP].pairwise_error - measured[kind].pairwise_error
        identity = f"{name}@{','.join(str(member.end) for member in members)}"
        made = any(one.id == identity for member in members for one in member.swaps)
        wanted = swap and kind != KEEP and gain >= settings.reconcile.margin and not made
        full = _brought_up(training, spread, best, problem, client) if wanted else best.w
    report = {
        "model": name,
        "method": method,
        "offset": sum(member.end for member in members),
        "offsets": {member.shard: member.end for member in members},
        "lists": dict(zip(("fit", "validation", "later"), training.n_lists, strict=True)),
        "drift": {
            "pairwise_error_online": measured[KEEP].pairwise_error,
            "pairwise_error_optimal": measured[REPLACE].pairwise_error,
            "ndcg@10_online": measured[KEEP].ndcg,
            "ndcg@10_optimal": measured[REPLACE].ndcg,
            "cosine": _cosine(online, best.w),
            "relative_norm": float(np.linalg.norm(online - best.w) / np.linalg.norm(best.w)),
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
            {m.shard: _own(full / spread, m) for m in members},
            {m.shard: m.learners[2].served_weights().copy() for m in members},
            msgspec.json.encode(report).decode(),
        )
        report["swapped"] = carry_out(store, plan, settings, name, at)
    report["seconds"] = time.perf_counter() - began
    return report


def _noted(store: Store, shards: Sequence[str], settings: Settings, model: str) -> list[Member]:
    common = Vocabulary(limit=1 << 26)
    members: list[Member] = []
    for shard in sorted(shards):
        entries, end = store.read(shard, ("config", "counts", "source", "last", "features/names#"))
        if not entries:
            raise SourceError(f"shard {shard!r} is empty: learn something first, by streamrank replay")
        config = decode(entries["config"])
        if members and config != decode(members[0].entries["config"]):
            raise SourceError(
                f"shards {members[0].shard!r} and {shard!r} were learnt under different settings: reconcile "
                "them one by one (--shard)"
            )
        columns = None
        if len(shards) > 1 and settings.features.mode == "vocabulary":
            own = Vocabulary(limit=1 << 26)
            own.from_state({k.removeprefix("features/"): decode(v) for k, v in entries.items() if "#" in k})  # type: ignore[misc]
            columns = np.array([common.add(own.name(j)) for j in range(len(own))], np.int64)
        members.append(Member(shard, end, entries, columns, swaps_of(store, shard, model), []))
    return members


def lead(member: Member, data: Data, settings: Settings, model: str, training: TrainingSet) -> None:
    """A new learner through a shard's lists, which go to their parts; its state where each part ends."""
    learner, learners = new_learner(settings, model), member.learners
    shard, first, total = member.shard, data.first(member.shard), n_learnt(member.entries)
    cuts = [first + round(part * (total - first)) for part in PARTS]
    due = {swap.offset: swap.after for swap in member.swaps}
    note, known = data.note(shard, cuts[0]), 0
    if note is not None:
        known = note.lists
        due = {offset: w for offset, w in due.items() if offset >= note.offset}  # earlier ones are in it
        restore_learner(model, learner, {key: decode(value) for key, value in note.entries.items()})
    lists = data.lists(shard, member.end, member.entries)
    for learnt in walk(lists, due, lambda offset: learner.take_weights(due[offset])):
        for piece in cut(learnt, [known, *cuts]):
            part = bisect_right(cuts, piece.first)
            while len(learners) < part:
                learners.append(copy.deepcopy(learner))
            training.add(part, shard, piece, member.columns)
            if piece.first >= known:
                learner.learn_batch(piece.batch)
    learners.extend([learner] * (3 - len(learners)))


def _checked(training: TrainingSet, members: Sequence[Member]) -> tuple[Floats, list[HeldOut]]:
    if not all(training.n_lists):
        ends = ", ".join(f"{m.shard} up to record {m.end}" for m in members)
        raise SourceError(
            f"there are {sum(training.n_lists)} judged lists ({ends}): too few to fit, validate and decide. "
            "Learn more first."
        )
    spread = training.spread
    return spread, [training.held_out(part, spread) for part in (VALIDATE, DECIDE)]


def _served(members: Sequence[Member], moment: int, settings: Settings, model: str) -> Floats:
    """The weights that all shards together served at a moment, by the columns in common."""
    if len(members) == 1:
        return members[0].learners[moment].served_weights()
    merged = new_learner(settings, model)
    for member in members:
        learner = member.learners[moment]
        columns = member.columns
        merged.merge(learner, np.arange(len(learner.served_weights())) if columns is None else columns)
    return merged.served_weights()


def _together(weights: Sequence[Floats], members: Sequence[Member], spread: Floats) -> Floats:
    """Weights by each shard's columns as one vector; where several know a column the last one counts."""
    found = np.zeros(len(spread))
    for w, member in zip(weights, members, strict=True):
        columns = np.arange(len(w)) if member.columns is None else member.columns[: len(w)]
        known = columns < len(found)
        found[columns[known]] = w[: len(columns)][known]
    return found * spread


def _own(w: Floats, member: Member) -> Floats:
    if member.columns is None:
        return w
    return sized(w, max(len(w), int(member.columns.max(initial=0)) + 1))[member.columns]


def _brought_up(training: TrainingSet, spread: Floats, best: Optimum, fitted: Problem, client: Any) -> Floats:
    """The optimum on all lists, under the same lambda a row, by as many steps from the one found."""
    problem = training.problem(spread, client, (FIT, VALIDATE, DECIDE))
    lam = best.lam / fitted.n_rows * problem.n_rows
    return cg(lambda v: problem(v) + lam * v, problem.b, best.w, max_iter=max(best.cold, 1)).x


def _cosine(a: Floats, b: Floats) -> float:
    product = float(np.linalg.norm(a) * np.linalg.norm(b))
    return float(a @ b) / product if product else 0.0
