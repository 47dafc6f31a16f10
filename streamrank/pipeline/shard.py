"""One partition on its way into its shard: where it goes on, what is checked first, and its records taken."""

import logging
import time
from collections.abc import Callable, Sequence
from typing import Any, Protocol

from ..config import KafkaSettings, Settings
from ..errors import ConfigError, MalformedEvent, SourceError, StateLost
from ..events.stamps import to_ms
from ..events.types import Record
from ..state.base import DeadLetter, Store
from .checkpoint import Checkpoint
from .flow import Flow
from .memory import hash_of
from .schedule import restore_newest

log = logging.getLogger(__name__)

UNITS_MS = {"s": 1000, "m": 60_000, "h": 3_600_000, "d": 86_400_000}


class Partitions(Protocol):
    """What a shard has to know of its topic."""

    name: str

    def bounds(self, partition: int) -> Any: ...

    def identity(self) -> str: ...

    def offset_at(self, partition: int, time_ms: int) -> int: ...


def shard_name(topic: str, partition: int) -> str:
    """The shard that a partition feeds, live and in a replay.

    >>> shard_name("clicks", 3)
    'clicks[3]'
    """
    return f"{topic}[{partition}]"


class Shard:
    """A flow and its checkpoint, opened at the stored offset; `position` is where to read on.

    Refused are: an offset that the topic no longer holds (unless `kafka.on_gap` skips it) or does not hold
    yet, and a topic whose record before that offset is not the one learnt: it was made anew. Reading begins
    one record early to see that. `known` is how far the group has read it, by what Kafka shows: a store that
    knows nothing then has lost the shard, and `kafka.on_lost` says what follows.
    """

    def __init__(
        self,
        store: Store,
        settings: Settings,
        topic: Partitions,
        partition: int,
        *,
        generation: int = 0,
        owner: str = "",
        known: int = 0,
        adopt_config: bool = False,
        post: Callable[[Sequence[DeadLetter]], None] | None = None,
    ) -> None:
        self.topic, self.partition, self.name = topic, partition, shard_name(topic.name, partition)

        self._identity = topic.identity()

        def opened() -> Checkpoint:
            return Checkpoint(
                store, Flow(settings), shard=self.name, generation=generation, owner=owner, post=post,
                adopt_config=adopt_config, check=self._check_topic,
            )  # fmt: skip

        self.checkpoint, kafka, bounds = opened(), settings.kafka, topic.bounds(partition)
        if known and self._is_fresh() and self._is_restored(store, settings, known, bounds.start):
            self.checkpoint = opened()
        self.flow = flow = self.checkpoint.flow
        fresh = self._is_fresh()
        if fresh:
            flow.offset = max(_start(kafka.start, topic, partition), bounds.start)
        elif flow.offset > bounds.end:
            raise SourceError(
                f"{self.name}: the store stands at offset {flow.offset}, the topic ends at {bounds.end}: it "
                f"was made anew, or has lost records. To learn it from its beginning: {self._reset()}"
            )
        elif flow.offset < bounds.start:
            self._check_gap(kafka, bounds.start)
        self.position = flow.offset
        self._last = ""
        if flow.last and flow.offset > bounds.start and not fresh:
            self.position, self._last = flow.offset - 1, flow.last
        if fresh and flow.offset:
            self.checkpoint.commit()  # from here on it is stored where it began

    def take(self, messages: Sequence[Any]) -> None:
        """Learn them in memory, in order."""
        if self._last and messages:
            messages = self._checked(messages)
        flow, step = self.flow, self.flow.step
        if not flow.source and messages:
            flow.source = hash_of(messages[0].value or b"")
        for message in messages:
            if message.value is None:
                flow.skip(message.offset)
            else:
                step(Record(message.offset, message.value, f"{self.name}@{message.offset}"))

    def _checked(self, messages: Sequence[Any]) -> Sequence[Any]:
        last, self._last = self._last, ""
        if messages[0].offset >= self.flow.offset:  # that record is gone: compacted
            return messages
        if hash_of(messages[0].value or b"") != last:
            raise SourceError(
                f"{self.name}: record {messages[0].offset} is not the one the store took last: the topic was "
                f"made anew. To learn it from its beginning: {self._reset()}"
            )
        return messages[1:]

    def _check_topic(self) -> None:
        """Before a commit: what was read since the shard was opened is of one topic."""
        now = self.topic.identity()
        if now and self._identity and now != self._identity:
            raise SourceError(
                f"{self.name}: the topic was made anew while it was read. Nothing of the new one is stored. "
                f"To learn it from its beginning: {self._reset()}"
            )

    def _is_fresh(self) -> bool:
        flow = self.checkpoint.flow
        return flow.offset == 0 and not flow.counts["events"]

    def _is_restored(self, store: Store, settings: Settings, known: int, start: int) -> bool:
        """Whether a shard that the store has lost is back from a snapshot; if not, the topic must have it."""
        kafka, folder = settings.kafka, settings.snapshots.folder
        if kafka.on_lost == "rebuild":
            if path := restore_newest(store, self.name, self.checkpoint.epoch, folder):
                log.warning("%s: the store had lost it; restored from %s, the rest follows", self.name, path)
                return True
            if start == 0 and kafka.start == "earliest":
                log.warning("%s: the store had lost it; it is learnt again from the beginning", self.name)
                return False
        raise StateLost(
            f"{self.name}: the group has read it up to offset {known}, but the store knows nothing of it: it "
            "was emptied, or is another. Restore a snapshot (streamrank restore), or begin under another "
            '--group; kafka.on_lost = "rebuild" takes the newest file of snapshots.folder that has it, or '
            f"learns it again where the topic still holds everything (it begins at offset {start})."
        )

    def _check_gap(self, kafka: KafkaSettings, start: int) -> None:
        missing = start - self.flow.offset
        if kafka.on_gap == "stop":
            raise SourceError(
                f"{self.name}: the store stands at offset {self.flow.offset}, the topic begins at {start}: "
                f"{missing} records were dropped before they were learnt. To go on without them set "
                f'kafka.on_gap = "skip"; to begin anew: {self._reset()}. Keep it longer (retention.ms).'
            )
        self.flow.counts["lost"] += missing
        self.flow.offset = start

    def _reset(self) -> str:
        return f"streamrank state reset --shard '{self.name}'"


def start_ms(start: str) -> int | None:
    """The time that `kafka.start` means; None for `earliest` and `latest`.

    >>> start_ms("ts=1970-01-01T00:00:01Z")
    1000
    """
    how, _, text = start.partition("=")
    if how == "ts":
        try:
            return to_ms(text)
        except MalformedEvent as error:
            raise ConfigError(f"kafka.start is {start!r}: {error.reason}. {error.fix}") from None
    if how == "last":
        return max(int(time.time() * 1000) - int(text[:-1]) * UNITS_MS[text[-1]], 0)
    return None


def _start(start: str, topic: Partitions, partition: int) -> int:
    """The offset that `kafka.start` means."""
    if start == "earliest":
        return 0
    at = start_ms(start)
    return int(topic.bounds(partition).end) if at is None else topic.offset_at(partition, at)
