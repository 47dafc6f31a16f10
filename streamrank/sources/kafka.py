"""A topic of Kafka, read by kafka-python: live as a member of a group, or one partition from end to end."""

import time
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import closing
from typing import Any, NamedTuple, TypeVar

from kafka import KafkaAdminClient, KafkaConsumer, KafkaProducer, TopicPartition
from kafka.admin import NewTopic
from kafka.consumer.subscription_state import ConsumerRebalanceListener
from kafka.errors import KafkaError, LogTruncationError, OffsetOutOfRangeError
from kafka.structs import OffsetAndMetadata

from streamrank.config import KafkaSettings
from streamrank.errors import SourceDown, SourceError

ASK_MS = 10_000  # for one question to the broker
CLOSE_MS = 3_000
T = TypeVar("T")


class Bounds(NamedTuple):
    """The first offset a partition still holds, and the one after its last."""

    start: int
    end: int


class Topic:
    """One topic. With a group its partitions come and go; callbacks only note, `changes` tells.

    A partition that was given to this member is paused until `resume`, so nothing of it is delivered before
    its place was sought. Offsets are never taken from Kafka: they are committed there for displays of lag.
    """

    def __init__(self, settings: KafkaSettings, topic: str, group: str | None = None) -> None:
        self.name, self.servers = topic, settings.servers
        options: dict[str, Any] = {
            "isolation_level": "read_committed",
            "max_poll_records": 2000,
            "metadata_max_age_ms": 30_000,
            "allow_auto_create_topics": False,
        } | settings.options
        self._noted: list[tuple[str, list[int]]] = []
        self._consumer: Any = self._asking(
            lambda: KafkaConsumer(
                bootstrap_servers=settings.servers.split(","),
                group_id=group,
                enable_auto_commit=False,
                auto_offset_reset="none",
                **options,
            )
        )
        try:
            found = self._asking(lambda: self._consumer.partitions_for_topic(topic))
            if not found:
                raise SourceError(
                    f"Kafka at {settings.servers} has no topic {topic!r}. Make it, with as many partitions "
                    "as workers are to share it, or give another --topic."
                )
            self.partitions: list[int] = sorted(found)
            if group is not None:
                self._consumer.subscribe([topic], listener=_Notes(self._consumer, self._noted))
        except BaseException:
            self.close()
            raise

    # -- a group's member ----------------------------------------------------------------------------------

    def changes(self) -> list[tuple[str, list[int]]]:
        """What was "assigned" and what was "revoked" since the last call, in order."""
        taken = self._noted[:]
        del self._noted[: len(taken)]
        return taken

    @property
    def generation(self) -> int:
        """How often the group has shared the partitions out; 0 when this is no member now."""
        return max(int(self._consumer.group_metadata().generation_id), 0)

    def poll(self, timeout_ms: int) -> dict[int, list[Any]]:
        """Messages (`offset`, `value`) by partition. One out of range comes with none: open it again."""
        try:
            found = self._asking(lambda: self._consumer.poll(timeout_ms=timeout_ms))
        except SourceError as error:
            if not isinstance(error.__cause__, (OffsetOutOfRangeError, LogTruncationError)):
                raise
            return {partition: [] for partition in self.assigned()}
        return {place.partition: messages for place, messages in found.items()}

    def assigned(self) -> set[int]:
        """The partitions that are this member's."""
        return {place.partition for place in self._consumer.assignment()}

    def pause(self, partition: int) -> None:
        """Deliver nothing of it; heartbeats go on."""
        self._consumer.pause(TopicPartition(self.name, partition))

    def resume(self, partition: int, offset: int) -> None:
        """Deliver it from `offset` on."""
        place = TopicPartition(self.name, partition)
        self._asking(lambda: self._consumer.seek(place, offset))
        self._consumer.resume(place)

    def position(self, partition: int) -> int:
        """The offset that is delivered next."""
        place = TopicPartition(self.name, partition)
        return int(self._asking(lambda: self._consumer.position(place, timeout_ms=ASK_MS)) or 0)

    def bounds(self, partition: int) -> Bounds:
        """What the partition holds now."""
        place = TopicPartition(self.name, partition)
        first = self._asking(lambda: self._consumer.beginning_offsets([place], timeout_ms=ASK_MS))
        last = self._asking(lambda: self._consumer.end_offsets([place], timeout_ms=ASK_MS))
        return Bounds(first[place], last[place])

    def offset_at(self, partition: int, time_ms: int) -> int:
        """The offset of the first record at or after a time; the end when there is none."""
        place = TopicPartition(self.name, partition)
        found = self._asking(lambda: self._consumer.offsets_for_times({place: time_ms}, timeout_ms=ASK_MS))
        return self.bounds(partition).end if found[place] is None else int(found[place].offset)

    def shown(self, partition: int) -> int:
        """The offset that was committed to Kafka for displays of lag; 0 for none."""
        place = TopicPartition(self.name, partition)
        return self._asking(lambda: self._consumer.committed(place, timeout_ms=ASK_MS)) or 0

    def show(self, offsets: Mapping[int, int]) -> None:
        """Commit offsets to Kafka, for displays of lag only: no answer is waited for."""
        self._consumer.commit_async(
            {TopicPartition(self.name, p): OffsetAndMetadata(offset) for p, offset in offsets.items()}
        )

    # -- one partition, whole ------------------------------------------------------------------------------

    def read(self, partition: int, start: int, end: int) -> Iterator[list[Any]]:
        """The messages of a partition from `start` up to `end`, a batch at a time, without a group."""
        place = TopicPartition(self.name, partition)
        self._consumer.assign([place])
        self._consumer.seek(place, start)
        while self._asking(lambda: self._consumer.position(place, timeout_ms=ASK_MS)) < end:
            found = self._asking(lambda: self._consumer.poll(timeout_ms=1000)).get(place, [])
            if found:
                yield [message for message in found if message.offset < end]

    def close(self) -> None:
        """Leave the group, in bounded time."""
        if getattr(self, "_consumer", None) is not None:
            self._consumer.close(autocommit=False, timeout_ms=CLOSE_MS)

    def _asking(self, ask: Callable[[], T]) -> T:
        try:
            return ask()
        except (KafkaError, ValueError, AssertionError) as error:
            kind = SourceDown if getattr(error, "retriable", False) else SourceError
            raise kind(
                f"Kafka at {self.servers}, topic {self.name}: {error!r}. Look whether the broker runs there "
                "and lets this client in (kafka.servers, kafka.options)."
            ) from error


class DeadLetters:
    """A producer to the dead-letter topic; what it cannot deliver stops the worker."""

    def __init__(self, settings: KafkaSettings) -> None:
        self._topic, self._settings = settings.dead_letter_topic, settings
        keep = ("security_protocol", "ssl_", "sasl_", "request_timeout_ms")
        options = {key: value for key, value in settings.options.items() if key.startswith(keep)}
        try:
            self._producer: Any = KafkaProducer(
                bootstrap_servers=settings.servers.split(","), max_block_ms=ASK_MS, **options
            )
        except KafkaError as error:
            raise self._refused(error) from error

    def send(self, origin: str, partition: int, letters: Any) -> None:
        """Deliver all of them, with where they come from, before returning."""
        try:
            waiting = []
            for letter in letters:
                said = {
                    "origin-topic": origin,
                    "origin-partition": str(partition),
                    "origin-offset": str(letter.offset),
                    "origin-part": str(letter.part),
                    "kind": letter.kind,
                    "error": letter.error,
                }
                headers = [(name, text.encode()) for name, text in said.items()]
                key = f"{origin}[{partition}]@{letter.offset}.{letter.part}".encode()
                waiting.append(self._producer.send(self._topic, letter.value, key=key, headers=headers))
            self._producer.flush(timeout=ASK_MS / 1000)
            for sent in waiting:
                sent.get(timeout=ASK_MS / 1000)
        except KafkaError as error:
            raise self._refused(error) from error

    def close(self) -> None:
        """Nothing is left to send."""
        self._producer.close(timeout=CLOSE_MS / 1000)

    def _refused(self, error: Exception) -> SourceError:
        return SourceError(
            f"the dead-letter topic {self._topic} at {self._settings.servers} takes nothing: "
            f"{type(error).__name__}: {error}. Nothing was dropped: what was not learnt comes again. Make "
            "the topic, or mend the broker, and start again."
        )


def produce(
    settings: KafkaSettings,
    topic: str,
    records: Iterable[tuple[bytes | None, bytes]],
    *,
    rate: float | None = None,
) -> int:
    """Send (key, value) to a topic and wait until all are there; returns how many were sent.

    The partition is the CRC-32 of the key; a record without a key is sent to every partition. The topic is
    made, with four partitions, where there is none.
    """
    try:
        with closing(KafkaAdminClient(bootstrap_servers=settings.servers.split(","))) as admin:
            if topic not in admin.list_topics():
                admin.create_topics([NewTopic(topic, 4, 1)])
        with closing(Topic(settings, topic)) as there:
            partitions = there.partitions
        n = 0
        with closing(KafkaProducer(bootstrap_servers=settings.servers.split(","), linger_ms=20)) as producer:
            began = time.monotonic()
            for key, value in records:
                chosen = partitions if key is None else [partitions[zlib.crc32(key) % len(partitions)]]
                for partition in chosen:
                    producer.send(topic, value, key=key or None, partition=partition)
                n += len(chosen)
                if rate and (ahead := n / rate - (time.monotonic() - began)) > 0:
                    time.sleep(ahead)
            producer.flush()
    except KafkaError as error:
        raise SourceError(
            f"Kafka at {settings.servers}, topic {topic}: {type(error).__name__}: {error}"
        ) from error
    return n


class _Notes(ConsumerRebalanceListener):  # type: ignore[misc]
    """Notes, and keeps what is new from being delivered."""

    def __init__(self, consumer: Any, noted: list[tuple[str, list[int]]]) -> None:
        self._consumer, self._noted = consumer, noted

    def on_partitions_assigned(self, assigned: Any) -> None:
        for place in assigned:
            self._consumer.pause(place)
            self._consumer.seek(place, 0)  # else it would ask Kafka where to go on, and fail
        self._noted.append(("assigned", [place.partition for place in assigned]))

    def on_partitions_revoked(self, revoked: Any) -> None:
        self._noted.append(("revoked", [place.partition for place in revoked]))

    def on_partitions_lost(self, lost: Any) -> None:
        self._noted.append(("revoked", [place.partition for place in lost]))
