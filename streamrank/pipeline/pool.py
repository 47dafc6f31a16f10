"""Recommenders of several shards are kept together: each takes in, now and then, what the others learnt."""

import logging
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, cast

import msgspec

from ..config import Settings
from ..errors import StoreError
from ..learners.pooling import Taught
from ..learners.registry import build_recommender
from ..state.base import Store
from ..state.values import decode
from .memory import restore_learner
from .shard import Shard

SHARED = ("item", "trait")  # what the names of entries begin with that shards teach each other

log = logging.getLogger(__name__)

All = Mapping[str, Mapping[str, Taught]]  # by recommender, by table


class Pool:
    """Every `pool.every_seconds`: reads items (not users) of all shards of the store, and adds what is new.

    Nobody writes another's state: a shard's own rows change, in memory, and its next commit writes them with
    its offset under its own epoch. Each click so stays learnt exactly once, whatever dies. But a shard is no
    longer a function of its own log alone: a replay of one partition does not reach the same bits, as after
    a reconciliation. What is read is as last committed, and says all there is to say: a turn that is missed,
    or doubled by a crash, is made good by the next.
    """

    def __init__(
        self, settings: Settings, store: Store, *, now: Callable[[], float] = time.monotonic
    ) -> None:
        self._wanted = settings.recommenders if settings.pool.every_seconds else []
        self._every, self._store, self._now = settings.pool.every_seconds, store, now
        self._last = now()
        self._seen: dict[str, tuple[int, dict[str, int]]] = {}  # shard -> its epoch, offsets of the others
        self._told: set[tuple[str, str]] = set()

    def turn(self, shards: Iterable[Shard]) -> list[Shard]:
        """If it is time, let these take in what all others know; returns those that changed, to be committed.

        A store that is away is asked again next time.
        """
        if not self._wanted or self._now() - self._last < self._every:
            return []
        self._last = self._now()
        try:
            offsets = {name: self._store.offset(name) for name in self._store.shards()}
            due = {shard: others for shard in shards if (others := self._moved(shard, offsets))}
            # all before any: shards of one worker take in what each other knew at the same moment
            found = {
                name: self._read(name) for name in sorted({name for names in due.values() for name in names})
            }
        except StoreError as error:
            log.warning("what other shards learnt is not taken in now: %s", error)
            return []
        for shard, others in due.items():
            self._seen[shard.name] = shard.checkpoint.epoch, others
        return [shard for shard, others in due.items() if self._take(shard, [found[name] for name in others])]

    def _moved(self, shard: Shard, offsets: Mapping[str, int]) -> dict[str, int]:
        """Where the other shards stand, if that is not where this one took them in."""
        others = {name: offset for name, offset in offsets.items() if name != shard.name}
        return {} if self._seen.get(shard.name) == (shard.checkpoint.epoch, others) else others

    def _read(self, name: str) -> All:
        """What the recommenders of a shard teach."""
        prefixes = [f"model/{one.name}/{part}" for one in self._wanted for part in SHARED]
        entries, _ = self._store.read(name, ["config", *prefixes])
        state = {key: decode(value) for key, value in entries.items()}
        config = cast(dict[str, Any], state.get("config", {}))
        under = {one["name"]: one for one in config.get("recommenders", [])}
        found = {}
        for one in self._wanted:
            prefix = f"model/{one.name}/"
            if f"{prefix}items" not in state and f"{prefix}items#0" not in state:
                continue
            if under.get(one.name) != msgspec.to_builtins(one):
                self._tell(name, one.name, "it learns under other settings there")
                continue
            learner = build_recommender(one.learner, one.params)
            nobody = {
                prefix + key: value for key, value in learner.to_state().items() if not key.startswith(SHARED)
            }
            restore_learner(one.name, learner, {**nobody, **state})
            found[one.name] = learner.taught()
        return found

    def _take(self, shard: Shard, others: Sequence[All]) -> bool:
        shard.flow.learn()  # as a commit would: where it falls must not depend on micro-batches
        changed, room = False, shard.checkpoint.room / len(shard.flow.recommenders)
        for recommender in shard.flow.recommenders:
            known = [found[recommender.name] for found in others if recommender.name in found]
            if known and recommender.learner.pool(known, room):
                changed = True
            elif known:
                self._tell(shard.name, recommender.name, "max_state_mb leaves no room for that")
        return changed

    def _tell(self, shard: str, recommender: str, why: str) -> None:
        if (shard, recommender) not in self._told:
            self._told.add((shard, recommender))
            log.warning("%s: recommender %r is not pooled with other shards: %s", shard, recommender, why)
