"""Weights put into a shard from outside its worker: by one fenced commit, noted, and taken back.

An entry ``swaps/MODEL`` of the shard holds the last few, oldest first. The worker does not touch it.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple, cast

import numpy as np

from ..config import Settings
from ..errors import ConfigError, Fenced, OffsetMismatch
from ..features.batch import Floats
from ..learners.base import Ranker
from ..learners.registry import build
from ..state.base import Store
from ..state.values import decode, encode
from .checkpoint import SWAP
from .memory import learner_changes, restore_learner

ROLLBACK = "rollback"
TRIES = 5

At = Callable[[int], None]
Writes = Mapping[str, bytes | None]


class Made(NamedTuple):
    """What to serve from now on."""

    id: str
    kind: str
    weights: Floats
    optimum: Floats


class Swap(NamedTuple):
    """What was put in, when, and instead of what; weights are on raw values, one a column."""

    id: str
    kind: str  # replace, rebase or rollback
    offset: int  # the shard stood here: the weights hold from this record on
    before: Floats
    after: Floats
    optimum: Floats  # the full-batch weights of that moment: where the next solver starts
    undone: bool = False


def new_learner(settings: Settings, model: str) -> Ranker:
    """A model's learner, before it has learnt anything."""
    for one in settings.models:
        if one.name == model:
            return build(one.learner, one.params)
    names = [one.name for one in settings.models] + [one.name for one in settings.recommenders]
    raise ConfigError(f"there is no model {model!r}; there are: {', '.join(names)}")


def swaps_of(store: Store, shard: str, model: str) -> list[Swap]:
    """The swaps kept, oldest first."""
    stored = store.get(shard, f"swaps/{model}")
    return [] if stored is None else [Swap(*swap) for swap in cast(list[Any], decode(stored))]


def change(
    store: Store,
    shard: str,
    prefixes: Sequence[str],
    make: Callable[[Mapping[str, bytes], int], Writes | None],
    *,
    at: At = lambda _: None,
) -> bool:
    """Change entries of a shard from outside its worker, by one fenced commit; False if there is nothing to.

    (5) Acquire the shard, which fences the worker: it makes way for a moment, reloads and goes on from the
    stored offset; (6) read the entries that begin with `prefixes` and let `make` say, from those and the
    offset, what to write; (7) commit it, the offset unchanged; (8) let go. A worker that did not make way has
    fenced us in turn: all again. `at` is called before each step, for tests to fail there.
    """
    for left in reversed(range(TRIES)):
        try:
            return _change(store, shard, prefixes, make, at)
        except (Fenced, OffsetMismatch):
            if not left:
                raise
    raise AssertionError


def _change(
    store: Store,
    shard: str,
    prefixes: Sequence[str],
    make: Callable[[Mapping[str, bytes], int], Writes | None],
    at: At,
) -> bool:
    at(5)
    epoch = store.acquire(shard, owner=SWAP)
    try:
        at(6)
        entries, offset = store.read(shard, prefixes)
        writes = make(entries, offset)
        if writes is None:
            return False
        at(7)
        store.commit(shard, epoch, writes, start=offset, end=offset)
        at(8)
        return True
    finally:
        if store.standing(shard).epoch == epoch:
            store.acquire(shard)  # nobody's now: the worker need not wait


def put_in(
    store: Store,
    shard: str,
    settings: Settings,
    model: str,
    make: Callable[[Floats], Made | None],
    *,
    at: At = lambda _: None,
    writes: Mapping[str, bytes | None] = {},
) -> bool:
    """Change the weights of a model in one shard; False if `make` finds nothing to do.

    By the steps of `change`: `make` says, from the weights of that moment, what to serve instead; weights,
    note and `writes` are one transaction. Before (7) is done the shard serves the old weights, after it the
    new ones. A swap whose id is known was made already: only `writes` are written.
    """
    swapped = False

    def swapped_in(entries: Mapping[str, bytes], offset: int) -> Writes | None:
        nonlocal swapped
        learner = new_learner(settings, model)
        restore_learner(model, learner, {key: decode(value) for key, value in entries.items()})
        before = learner.served_weights().copy()
        made, swaps = make(before), swaps_of(store, shard, model)
        swapped = made is not None and all(swap.id != made.id for swap in swaps)
        if made is None or not swapped:
            return writes or None
        identity, kind, after, optimum = made
        if not np.isfinite(after).all():
            raise ConfigError(f"the weights for model {model!r} are not finite: nothing was changed")
        learner.take_weights(after)
        if kind == ROLLBACK:  # what it takes back is not taken back again
            swaps = [swap._replace(undone=swap.undone or swap.id == identity[:-1]) for swap in swaps]
        swaps.append(Swap(identity, kind, offset, before, after, optimum))
        note = encode([list(swap) for swap in swaps[-settings.reconcile.keep :]])
        return learner_changes(model, learner) | {f"swaps/{model}": note, **writes}

    new_learner(settings, model)  # a name that is wrong disturbs nobody
    change(store, shard, (f"model/{model}/",), swapped_in, at=at)
    return swapped


def standing_swap(store: Store, shard: str, model: str) -> Swap | None:
    """The last swap that was not taken back."""
    standing = [s for s in swaps_of(store, shard, model) if s.kind != ROLLBACK and not s.undone]
    return standing[-1] if standing else None


def roll_back(store: Store, shard: str, settings: Settings, model: str) -> Swap | None:
    """Take back the last swap that was not taken back yet; returns it, None if there is none.

    The weights are again those before it. What the stream taught since is in the statistics and moments,
    which stay, but no longer in the weights.
    """
    swap = standing_swap(store, shard, model)
    if swap is None:
        return None
    back = Made(f"{swap.id}-", ROLLBACK, swap.before, swap.optimum)
    # nor is a swap of several shards completed that is taken back in this one
    put_in(store, shard, settings, model, lambda _: back, writes={f"plan/{model}": None})
    return swap
