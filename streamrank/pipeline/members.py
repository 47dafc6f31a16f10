"""The shards that are reconciled together: where each stands, and its learner led through its lists again."""

import copy
from bisect import bisect_right
from collections.abc import Mapping, Sequence
from typing import NamedTuple, cast

import numpy as np

from ..config import Settings
from ..errors import ConfigError, SourceError
from ..features.batch import Floats, Ints
from ..features.columns import Vocabulary
from ..learners.base import Ranker
from ..state.base import Store
from ..state.values import decode
from .datasets import Data, n_learnt
from .learnt import cut, walk
from .memory import restore_learner
from .plan import sized
from .swap import Swap, new_learner, swaps_of
from .training import TrainingSet

PARTS = (0.70, 0.85)  # of the lists: to fit, to validate; the rest decides


class Member(NamedTuple):
    """A shard as it was noted, and its learner where each part ends."""

    shard: str
    end: int
    entries: Mapping[str, bytes]
    columns: Ints | None  # those in common of its own; None: the same
    swaps: list[Swap]
    stored: Ranker  # as it was noted
    learners: list[Ranker]


def noted(store: Store, shards: Sequence[str], settings: Settings, model: str) -> list[Member]:
    """Where each shard stands now, by its name."""
    if not shards:
        raise SourceError("the store is empty: learn something first")
    common = Vocabulary(limit=1 << 26)
    members: list[Member] = []
    for shard in sorted(shards):
        entries, end = store.read(
            shard, ("config", "counts", "source", "last", "features/names#", f"model/{model}/")
        )
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
            names = Vocabulary(limit=1 << 26)
            blocks = {key: decode(value) for key, value in entries.items() if key.startswith("features/")}
            names.from_state({key.removeprefix("features/"): cast(list[str], b) for key, b in blocks.items()})
            columns = np.array([common.add(names.name(j)) for j in range(len(names))], np.int64)
        stored = new_learner(settings, model)
        restore_learner(model, stored, {key: decode(value) for key, value in entries.items()})
        members.append(Member(shard, end, entries, columns, swaps_of(store, shard, model), stored, []))
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


def merged(members: Sequence[Member], moment: int, settings: Settings, model: str) -> Ranker:
    """What all shards together served at a moment, by the columns in common."""
    if len(members) == 1:
        return members[0].learners[moment]
    both = new_learner(settings, model)
    n = 1 << settings.features.bits
    for member in members:
        both.merge(member.learners[moment], np.arange(n) if member.columns is None else member.columns)
    return both


def weights_of(learner: Ranker) -> Floats | None:
    """The weights served; None where a learner has not one a column."""
    try:
        return learner.served_weights()
    except ConfigError:
        return None


def retraced(member: Member) -> bool:
    """Whether its learner, led through the lists again, came to what was stored.

    It does not where something was learnt that is not in the log in its place, such as dead letters taken
    later; what it was at earlier moments is then known about only.
    """
    found, stored = weights_of(member.learners[2]), weights_of(member.stored)
    return found is None or stored is None or np.array_equal(found, stored)


def together(weights: Sequence[Floats], members: Sequence[Member], spread: Floats) -> Floats:
    """Weights by each shard's columns as one vector; where several know a column the last one counts."""
    found = np.zeros(len(spread))
    for w, member in zip(weights, members, strict=True):
        columns = np.arange(len(w)) if member.columns is None else member.columns[: len(w)]
        known = columns < len(found)
        found[columns[known]] = w[: len(columns)][known]
    return found * spread


def own(w: Floats, member: Member) -> Floats:
    """Weights by the columns in common as one vector by the shard's own."""
    if member.columns is None:
        return w
    return sized(w, max(len(w), int(member.columns.max(initial=0)) + 1))[member.columns]
