"""One member of the group: several partitions, each its own shard, learnt exactly once.

The protocol; the numbers stand in the code, and `at` is called with each of them:

1. Callbacks only note what was assigned and revoked; what is new is paused.
2. For each partition assigned: (2a) acquire the shard under the group's generation, which fences off its
   earlier owner, and load it; (2b) seek to the stored offset and resume.
3. (3a) Poll; (3b) decode, dedup, join, judge, score, learn, in memory.
4. After enough events or time (4a): dead letters are delivered (4b), then state, offset, joins, ids and
   counters are written in one transaction that checks owner and offset; (4c) it was made.
5. For displays of lag only, the offset is committed to Kafka.
6. Revoked, or told to stop: (6a) commit what is in hand, (6b) let go.
7. Now and then, with `pool.every_seconds`: what other shards learnt of items is taken in, in memory (7); a
   commit, as in 4, follows at once.

On any doubt (a fence, another offset, a store or broker that is away) memory is dropped and the shard opened
again: the store is the truth. Meanwhile its partition is paused and the others go on.
"""

import logging
import math
import os
import socket
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from functools import partial

from ..config import Settings
from ..errors import (
    Fenced,
    OffsetMismatch,
    SourceDown,
    StateLost,
    StoreDown,
    StoreError,
    StoreFull,
    StoreReadOnly,
)
from ..sources.topics import LiveTopic, Message
from ..state.base import DeadLetter, Store
from .letters import DeadLetters
from .pool import Pool
from .shard import Shard, shard_name
from .upkeep import Upkeep

POLL_MS = 200
ALARM_FROM = 100  # records, before a share of them means anything
RETRY_S = 0.5  # between tries to open a shard again
PASSING = (Fenced, OffsetMismatch, SourceDown, StoreDown, StoreFull, StoreReadOnly)

log = logging.getLogger(__name__)


class Worker:
    """Reads its share of a topic until it is told to stop.

    Parameters
    ----------
    adopt_config
        Go on under settings other than those a shard was learnt under.
    at
        Called at every numbered step: where a test interrupts.
    """

    def __init__(
        self,
        settings: Settings,
        store: Store,
        topic: LiveTopic,
        *,
        group: str,
        letters: DeadLetters | None = None,
        adopt_config: bool = False,
        at: Callable[[str], None] = lambda _: None,
    ) -> None:
        self.settings, self.store, self.topic, self.at = settings, store, topic, at
        self.owner = f"{group}@{socket.gethostname()}:{os.getpid()}"
        self.shards: dict[int, Shard] = {}
        self.counts: Counter[str] = Counter()  # of this process: records, commits, reopened, rejected, alarms
        self.upkeep, self.pool = Upkeep(settings, store), Pool(settings, store)
        self._letters, self._adopt_config = letters, adopt_config
        self._closed: dict[int, tuple[float, float]] = {}  # partition -> when to try again, since when
        self._uncommitted: dict[int, float] = {}  # partition -> since when its commits are refused
        self._known: dict[int, int] = {}  # how far each was learnt, as this process knows
        self._joined = self._alarmed = False
        self._active = time.monotonic()

    def run(
        self,
        stopped: Callable[[], bool],
        *,
        until_idle_s: float | None = None,
        watch: Callable[[], None] = lambda: None,
    ) -> None:
        """Go on until `stopped`, or until nothing has come for so long; then commit and let go."""
        while not stopped():
            found = self._poll()
            self.at("3a")
            self._follow_changes()
            for partition, messages in found.items():
                self._take(partition, messages)
            self._open_due()  # not earlier: what was polled before is not of what is opened
            self._pool_due()
            self._commit_due()
            self.upkeep.turn()
            watch()
            if until_idle_s is not None and self._idle(until_idle_s):
                break
        self.upkeep.close()
        for partition in list(self.shards):
            self._release(partition)

    def lag(self) -> int:
        """Records of its partitions that are not learnt yet."""
        return sum(max(self.topic.bounds(p).end - shard.flow.offset, 0) for p, shard in self.shards.items())

    def _poll(self) -> Mapping[int, Sequence[Message]]:
        due = min((1000 * shard.checkpoint.due_s() for shard in self.shards.values()), default=POLL_MS)
        try:
            return self.topic.poll(math.ceil(min(due, POLL_MS)))  # no longer than a commit may wait
        except SourceDown as error:  # whatever it had in hand comes again
            log.warning("%s", error)
            for partition in list(self.shards):
                self._drop(partition)
            time.sleep(RETRY_S)
            return {}

    def _follow_changes(self) -> None:
        for what, partitions in self.topic.changes():
            self.at("1")
            for partition in partitions:
                if partition in self.shards:
                    self._release(partition)
                self._closed.pop(partition, None)
                self._uncommitted.pop(partition, None)
            if what == "assigned":
                self._joined = True
                mine = self.topic.assigned()
                self._closed |= {p: (0.0, time.monotonic()) for p in partitions if p in mine}
        self._closed = {p: when for p, when in self._closed.items() if p in self.topic.assigned()}

    def _open_due(self) -> None:
        for partition in [p for p, (due, _) in self._closed.items() if time.monotonic() >= due]:
            try:
                self._open(partition)
            except PASSING as error:  # not now; a refused generation: the group tells by the next polls
                if isinstance(error, Fenced):
                    self._check_group(partition)
                _, since = self._closed[partition]
                if (time.monotonic() - since) * 1000 > self.settings.kafka.give_up_ms:
                    raise
                log.warning("%s[%d] cannot be opened yet: %s", self.topic.name, partition, error)
                self._closed[partition] = time.monotonic() + RETRY_S, since
                if isinstance(error, SourceDown):
                    return  # the others would wait as long, and heartbeats want polls between

    def _open(self, partition: int) -> None:
        post = partial(self._post, partition) if self._letters else None
        known = self._known.get(partition) or self.topic.shown(partition)
        shard = Shard(
            self.store, self.settings, self.topic, partition,
            generation=self.topic.generation, owner=self.owner, known=known, post=post,
            adopt_config=self._adopt_config,
        )  # fmt: skip
        self.at("2a")
        if partition not in self.topic.assigned():
            return
        self.topic.resume(partition, shard.position)
        self.shards[partition] = shard
        self.upkeep.opened(shard.name, shard.flow)
        del self._closed[partition]
        self._known[partition] = shard.flow.offset
        log.info("%s: opened at offset %d, epoch %d", shard.name, shard.flow.offset, shard.checkpoint.epoch)
        self.at("2b")

    def _check_group(self, partition: int) -> None:
        """Generations are of one group: those of another would refuse this one for ever."""
        name = shard_name(self.topic.name, partition)
        standing = self.store.standing(name)
        other, mine = standing.owner.rpartition("@")[0], self.owner.rpartition("@")[0]
        if standing.generation > self.topic.generation and other and other != mine:
            raise StoreError(
                f"{name}: the store learns it for the group {other!r}, this is {mine!r}, and one group reads "
                f"a topic into a store. Give --group {other}; or, if that group is no more, take it over: "
                f"streamrank state reset --shard '{name}' --keep-state"
            )

    def _post(self, partition: int, letters: Sequence[DeadLetter]) -> None:
        assert self._letters is not None
        self._letters.send(self.topic.name, partition, letters)
        self.at("4b")

    def _take(self, partition: int, messages: Sequence[Message]) -> None:
        shard = self.shards.get(partition)
        if shard is None:
            return
        if not messages:  # out of range: opening says why
            self._drop(partition)
            return
        self._active = time.monotonic()
        before = shard.flow.counts["rejected"]
        shard.take(messages)
        self.counts["records"] += len(messages)
        self.counts["rejected"] += shard.flow.counts["rejected"] - before
        self.at("3b")

    def _pool_due(self) -> None:
        for shard in self.pool.turn(self.shards.values()):
            self.at("7")
            shard.checkpoint.touch()

    def _commit_due(self) -> None:
        moved = {}
        for partition, shard in list(self.shards.items()):
            try:
                if self._commit(shard, whether=shard.checkpoint.maybe_commit):
                    moved[partition] = shard.flow.offset
            except PASSING as error:
                # opening may well succeed where a commit does not: a store that is full, say
                since = self._uncommitted.setdefault(partition, time.monotonic())
                if (time.monotonic() - since) * 1000 > self.settings.kafka.give_up_ms:
                    raise
                log.warning("%s: not committed, opened again: %s", shard.name, error)
                self._drop(partition, pause_s=0.0 if isinstance(error, Fenced | OffsetMismatch) else RETRY_S)
        if moved:
            self._show(moved)

    def _commit(self, shard: Shard, whether: Callable[[], bool]) -> bool:
        self.at("4a")
        made = whether()
        if made:
            self.at("4c")
            self.counts["commits"] += 1
            self._known[shard.partition] = shard.flow.offset
            self._uncommitted.pop(shard.partition, None)
            self._alarm(shard)
        return made

    def _show(self, offsets: dict[int, int]) -> None:
        try:
            self.topic.show(offsets)
        except Exception as error:  # whatever it is, nothing depends on it
            log.debug("offsets are not shown in Kafka: %s", error)
        self.at("5")

    def _alarm(self, shard: Shard) -> None:
        events, rejected = self.counts["records"], self.counts["rejected"]
        high = events >= ALARM_FROM and rejected > self.settings.kafka.dead_letter_alarm * events
        if high and not self._alarmed:
            log.error("%s: %d of %d records refused: see streamrank dlq list", shard.name, rejected, events)
            self.counts["alarms"] += 1
        self._alarmed = high

    def _release(self, partition: int) -> None:
        shard = self.shards.pop(partition)
        self.at("6a")
        try:
            shard.checkpoint.commit()
            self._known[partition] = shard.flow.offset
            self._show({partition: shard.flow.offset})
        except StateLost:
            raise
        except (StoreError, SourceDown) as error:  # what was not committed is learnt again by the next owner
            log.warning("%s: let go without a last commit: %s", shard.name, error)
        self.at("6b")

    def _drop(self, partition: int, pause_s: float = 0.0) -> None:
        del self.shards[partition]
        self.counts["reopened"] += 1
        if partition in self.topic.assigned():
            self.topic.pause(partition)
            self._closed[partition] = time.monotonic() + pause_s, time.monotonic()

    def _idle(self, seconds: float) -> bool:
        if not self._joined or self._closed or time.monotonic() - self._active < seconds:
            return False
        self._active = time.monotonic()  # asked again after as long, if something is still to come
        try:
            return all(self.topic.position(p) >= self.topic.bounds(p).end for p in self.shards)
        except SourceDown:
            return False
