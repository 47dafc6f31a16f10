"""A recommender refitted: many passes over all its clicks, put in if it finds later clicks better."""

import copy
import time
from collections.abc import Mapping
from typing import Any, NamedTuple, cast

import msgspec
import numpy as np
from numba import get_num_threads

from ..config import Settings
from ..errors import ConfigError, SourceError
from ..learners.latent import RoBiRankMF
from ..learners.registry import build_recommender
from ..state.base import Store
from ..state.values import decode, encode
from .clicks import Clicks
from .datasets import Data
from .memory import learner_entries, restore_learner
from .optimum import Watch
from .plan import KEEP, REPLACE
from .recommender import CUT, hits
from .swap import ROLLBACK, At, Writes, change

PARTS = (0.70, 0.85)  # of the clicks: to fit, to validate; the rest decides
LEAST = 100  # clicks to validate by, and to decide by
MEASURED = 2000  # clicks of a part that are ranked, evenly spread; all are learnt
PASSES, PATIENCE = 20, 3  # at most; and passes without a better one
STRATA = 2  # blocks of users and of items: as many threads may fit
CLICK_BYTES = 512  # of memory for each click that is fitted, half of it for the tables
NAMES = ("config", "counts", "source", "last")


class Refit(NamedTuple):
    """The last factors put in: under ``refit/NAME``; before and after are entries beside it."""

    id: str
    kind: str  # replace or rollback
    offset: int  # the shard stood here
    report: str  # what the run that made it said, as JSON, but for how long it took


def refit(
    store: Store,
    data: Data,
    settings: Settings,
    *,
    shard: str,
    model: str,
    swap: bool = True,
    watch: Watch = lambda *_: None,
    at: At = lambda _: None,
) -> dict[str, Any]:
    """Refit a recommender from all clicks of its shard, and put it in if that is better by the margin set.

    (1) Note where the shard stands. (2) Get its clicks, and lead the learner through them again, to know it
    as it was where the last 15 % begin. (3) A new one learns the first 70 % in order, then pass by pass, in
    strata; after each pass a copy goes on through the next 15 % as they came, and the pass that served them
    best is taken. (4) On the last 15 % the two meet, each learning as it goes: NDCG@10 of the clicked item
    among all, without those its user had clicked before unless it is one of them. If the new one is better
    by `reconcile.margin`, it learns what came meanwhile and is put in by one fenced commit, (5) to (8) of
    `change`: before (7) is done the shard has the old factors, after it the new ones, and every click once.
    """
    began = time.perf_counter()
    if store.shards() != [shard]:
        raise ConfigError(
            f"{model!r} is learnt in {len(store.shards())} shards, apart: only the recommender of a store of "
            "one shard can be refitted. Give it a topic of one partition, or a log."
        )
    at(1)
    entries, end = store.read(shard, (*NAMES, f"model/{model}/", f"refit/{model}"))
    if not entries:
        raise SourceError(f"shard {shard!r} is empty: learn something first, by streamrank replay")
    state = {key: decode(value) for key, value in entries.items()}
    last = _last(entries, model)
    identity = f"{model}@{end}"
    if last is not None and last.id == identity:  # nothing is new since
        found: dict[str, Any] = msgspec.json.decode(last.report)
        seconds = time.perf_counter() - began
        return {**found, "chosen": KEEP, "swapped": False, "already": True, "seconds": seconds}
    at(2)
    until = data.clicks(shard)
    clicks = _usable(until(end, entries))
    n = len(clicks.users)
    # what other factors made of earlier clicks says nothing of those at work now
    b = max(round(PARTS[1] * n), int(np.searchsorted(clicks.offset, last.offset)) if last else 0)
    a = b - round((PARTS[1] - PARTS[0]) * n)
    if n - b < LEAST or b - a < LEAST or a < LEAST:
        raise SourceError(
            f"there are {n} clicks, {n - b} to decide by: too few to fit, validate and decide. Learn more "
            "first."
        )
    live = _live(data, settings, shard, model, clicks.part(0, b), state, last)
    had = _had(clicks.part(0, a))
    at(3)
    best, passes, curve = _fitted(_described(settings, model, state), settings, clicks, a, b, had, watch)
    at(4)
    had = _had(clicks.part(0, b))
    rest = clicks.part(b, n)
    measured = {KEEP: _measured(live, rest, had), REPLACE: _measured(best, rest, had)}
    gain = measured[REPLACE]["ndcg"] - measured[KEEP]["ndcg"]
    wanted = swap and gain > 0 and gain >= settings.reconcile.margin
    report: dict[str, Any] = {
        "model": model,
        "method": "refit",
        "offset": end,
        "offsets": {shard: end},
        "clicks": {"fit": a, "validation": b - a, "later": n - b},
        "retraced": _same(live, model, entries),
        "drift": {
            f"{name}@{CUT}_{what}": measured[kind][name]
            for name in ("ndcg", "hr")
            for what, kind in (("online", KEEP), ("optimal", REPLACE))
        },
        "candidates": measured,
        "lambda": None,
        "passes": passes,
        "chosen": REPLACE if wanted else KEEP,
        "swapped": wanted,
        "already": False,
        "validation": {"passes": list(range(len(curve))), f"ndcg@{CUT}": curve},
    }
    if wanted:
        said = msgspec.json.encode(report).decode()

        def put(now: Mapping[str, bytes], offset: int) -> Writes | None:
            if (made := _last(now, model)) is not None and made.id == identity:
                return None  # by another run, at the same time
            more = until(offset, now)
            best.learn_batch(more.users, more.items, more.weights)
            if best.fields:
                best.describe_as(_stored(settings, model, {key: decode(value) for key, value in now.items()}))
            note = Refit(identity, REPLACE, offset, said)
            return _writes(now, model, learner_entries(f"model/{model}/", best), note)

        prefixes = (*NAMES, f"model/{model}/", f"refit/{model}")
        now, offset = store.read(shard, prefixes)
        more = until(offset, now)  # most of what came meanwhile, before anybody has to wait
        best.learn_batch(more.users, more.items, more.weights)
        report["swapped"] = change(store, shard, prefixes, put, at=at)
    report["seconds"] = time.perf_counter() - began
    return report


def take_back(store: Store, shard: str, model: str) -> Refit | None:
    """Put the factors back that were there before the last refit; returns it, None if there is none.

    What was clicked since is no longer in them.
    """
    undone: Refit | None = None

    def put(now: Mapping[str, bytes], offset: int) -> Writes | None:
        nonlocal undone
        undone = standing_refit(now, model)
        if undone is None:
            return None
        prefix, back = f"refit/{model}/before/", f"model/{model}/"
        before = {
            back + key.removeprefix(prefix): value for key, value in now.items() if key.startswith(prefix)
        }
        note = Refit(f"{undone.id}-", ROLLBACK, offset, undone.report)
        return _writes(now, model, before, note)

    prefixes = (f"model/{model}/", f"refit/{model}")
    if standing_refit(store.read(shard, prefixes)[0], model) is not None:
        change(store, shard, prefixes, put)
    return undone


def standing_refit(entries: Mapping[str, bytes], model: str) -> Refit | None:
    """The last refit, if it was not taken back."""
    last = _last(entries, model)
    return None if last is None or last.kind == ROLLBACK else last


def _last(entries: Mapping[str, bytes], model: str) -> Refit | None:
    stored = entries.get(f"refit/{model}")
    return None if stored is None else Refit(*cast(list[Any], decode(stored)))


def _writes(now: Mapping[str, bytes], model: str, after: Mapping[str, bytes], note: Refit) -> Writes:
    """New factors in the place of the old, which are kept, as the new ones are: to be led on from."""
    learnt = f"model/{model}/"
    old = {key: value for key, value in now.items() if key.startswith(learnt)}
    kept = {f"refit/{model}/before/{key.removeprefix(learnt)}": value for key, value in old.items()}
    kept |= {f"refit/{model}/after/{key.removeprefix(learnt)}": value for key, value in after.items()}
    gone = {key for key in now if key.startswith((learnt, f"refit/{model}/"))} - {*after, *kept}
    return {**dict.fromkeys(gone), **after, **kept, f"refit/{model}": encode(list(note))}


def _usable(clicks: Clicks) -> Clicks:
    """Those that teach."""
    held = np.flatnonzero(np.isfinite(clicks.weights) & (clicks.weights > 0.0))
    places = held.tolist()
    users, items = [clicks.users[t] for t in places], [clicks.items[t] for t in places]
    return Clicks(users, items, clicks.weights[held], clicks.offset[held], clicks.first)


def _live(
    data: Data,
    settings: Settings,
    shard: str,
    model: str,
    clicks: Clicks,
    state: Mapping[str, Any],
    last: Refit | None,
) -> RoBiRankMF:
    """The learner as it was after these clicks, but for traits: those are as they stand."""
    learner = _described(settings, model, state)
    if last is not None:
        after = {
            key.removeprefix(f"refit/{model}/after/"): value
            for key, value in state.items()
            if key.startswith(f"refit/{model}/after/")
        }
        restore_learner(model, learner, {f"model/{model}/{key}": value for key, value in after.items()})
        known = last.offset
    elif (note := data.clicks_note(shard, clicks.end)) is not None:
        restore_learner(model, learner, {key: decode(value) for key, value in note.entries.items()})
        known = note.offset
    else:
        known = 0
    start = int(np.searchsorted(clicks.offset, known))
    learner.learn_batch(clicks.users[start:], clicks.items[start:], clicks.weights[start:])
    return learner


def _fitted(
    learner: RoBiRankMF,
    settings: Settings,
    clicks: Clicks,
    a: int,
    b: int,
    had: Mapping[str, set[str]],
    watch: Watch,
) -> tuple[RoBiRankMF, int, list[float]]:
    """A new learner fitted to the clicks before a and led on to b, its passes, and NDCG there by passes."""
    fit, validation = clicks.part(0, a), clicks.part(a, b)
    learner.learn_batch(fit.users, fit.items, fit.weights)
    fit = clicks.part(a - (settings.reconcile.memory_mb << 20) // CLICK_BYTES, a)  # as there is memory for
    held = np.flatnonzero(learner.holds(fit.users, fit.items)).tolist()  # the others were evicted
    users, items = [fit.users[t] for t in held], [fit.items[t] for t in held]
    best, passes, curve = learner, 0, list[float]()
    for k in range(PASSES + 1):
        if k:
            learner.fit(users, items, workers=STRATA, threads=get_num_threads() > 1, y=fit.weights[held])
        one = copy.deepcopy(learner)
        curve.append(_measured(one, validation, had)["ndcg"])
        watch(k, 1.0 - curve[-1])
        if curve[-1] > max(curve[:-1], default=-1.0):
            best, passes = one, k
        elif k - passes >= PATIENCE:
            break
    return best, passes, curve


def _measured(learner: RoBiRankMF, clicks: Clicks, before: Mapping[str, set[str]]) -> dict[str, float]:
    """Clicks ranked as they come, `MEASURED` of them, and all learnt; `before` is what each user had."""
    had = {user: set(items) for user, items in before.items()}
    ranked, done = [], 0
    picked = np.unique(np.linspace(0, len(clicks.users) - 1, MEASURED).astype(np.int64)).tolist()
    for k in [*picked, len(clicks.users)]:
        learner.learn_batch(clicks.users[done:k], clicks.items[done:k], clicks.weights[done:k])
        for user, item in zip(clicks.users[done:k], clicks.items[done:k], strict=True):
            had.setdefault(user, set()).add(item)
        done = k
        if k < len(clicks.users):
            user, item = clicks.users[k], clicks.items[k]
            mine = had.get(user, set())
            ranked.append(learner.place_of(user, item, () if item in mine else mine))
    hit, gain = hits(np.array(ranked, np.int64))
    return {"ndcg": float(gain.mean()), "hr": float(hit.mean())}


def _had(clicks: Clicks) -> dict[str, set[str]]:
    had: dict[str, set[str]] = {}
    for user, item in zip(clicks.users, clicks.items, strict=True):
        had.setdefault(user, set()).add(item)
    return had


def _same(live: RoBiRankMF, model: str, entries: Mapping[str, bytes]) -> bool:
    """Whether the learner, led through the clicks again, came to what was stored."""
    found = learner_entries(f"model/{model}/", live)
    return found == {key: value for key, value in entries.items() if key in found}


def _described(settings: Settings, model: str, state: Mapping[str, Any]) -> RoBiRankMF:
    """A new learner that has been told of all users and items what the stored one was."""
    learner = _new(settings, model)
    if learner.fields:
        learner.describe_as(_stored(settings, model, state))
    return learner


def _stored(settings: Settings, model: str, state: Mapping[str, Any]) -> RoBiRankMF:
    learner = _new(settings, model)
    restore_learner(model, learner, state)
    return learner


def _new(settings: Settings, model: str) -> RoBiRankMF:
    one = next(one for one in settings.recommenders if one.name == model)
    return build_recommender(one.learner, one.params)
