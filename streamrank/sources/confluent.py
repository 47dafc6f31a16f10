"""Kafka by confluent-kafka: librdkafka, several times as fast, by `kafka.client = "confluent"`.

Its options are librdkafka's: `{"security.protocol": "SASL_SSL", "session.timeout.ms": 10000}`.
"""

import logging
import struct
import time
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple, TypeVar

from confluent_kafka import Consumer, KafkaError, KafkaException, TopicCollection, TopicPartition
from confluent_kafka.admin import AdminClient

from streamrank.config import KafkaSettings
from streamrank.errors import SourceDown, SourceError
from streamrank.sources import topics
from streamrank.sources.confluent_outbox import Outbox
from streamrank.sources.librdkafka import Heard, shared
from streamrank.sources.topics import Bounds

__all__ = ["Outbox", "Topic"]

MAX_MESSAGES = 2000  # of one poll
_METADATA = b"CGMDv2:"  # how librdkafka writes the metadata of a group; the generation follows

log = logging.getLogger(__name__)
T = TypeVar("T")


class Message(NamedTuple):
    """One record."""

    offset: int
    value: bytes | None
    headers: Sequence[tuple[str, bytes]] = ()
    key: bytes | None = None


class Topic:
    """One topic, or one member of a group that reads it; see `LiveTopic`."""

    def __init__(self, settings: KafkaSettings, topic: str, group: str | None = None) -> None:
        self.name, self.servers = topic, settings.servers
        fixed = {
            "bootstrap.servers": settings.servers,
            "group.id": group or "streamrank.reader",  # it wants one, even where no group is joined
            "enable.auto.commit": False,
            "auto.offset.reset": "error",
            "enable.partition.eof": True,  # else a transaction at the very end would look like a lag
        }
        options: dict[str, Any] = {
            "isolation.level": "read_committed",
            "topic.metadata.refresh.interval.ms": 30_000,
            "allow.auto.create.topics": False,
        } | settings.options
        self._shared = {"bootstrap.servers": settings.servers, **shared(settings)}
        self._max = int(options.pop("max.poll.records", MAX_MESSAGES))
        self._admin: AdminClient | None = None
        self._identity: str | None = None  # as of the last poll
        self._noted: list[tuple[str, list[int]]] = []
        self._next: dict[int, int] = {}  # of those that are delivered
        self._closed = False
        self._heard = Heard()
        self._consumer: Any = self._asking(lambda: Consumer(options | fixed | self._heard.options))
        try:
            found = self._found()
            if found.topics[topic].error is not None:
                raise SourceError(
                    f"Kafka at {settings.servers} has no topic {topic!r} ({found.topics[topic].error}). Make "
                    "it, with as many partitions as workers are to share it, or give another --topic."
                )
            self.partitions: list[int] = sorted(found.topics[topic].partitions)
            if group is not None:
                self._consumer.subscribe(
                    [topic], on_assign=self._assigned, on_revoke=self._revoked, on_lost=self._revoked
                )
        except BaseException:
            self.close()
            raise

    # -- a group's member ----------------------------------------------------------------------------------

    def changes(self) -> list[tuple[str, list[int]]]:
        taken, self._noted = self._noted, []
        return taken

    @property
    def generation(self) -> int:
        said = self._consumer.consumer_group_metadata()
        if not said.startswith(_METADATA):  # not told: the epoch of the shard alone tells owners apart
            return 0
        return max(int(struct.unpack_from("=i", said, len(_METADATA))[0]), 0)

    def poll(self, timeout_ms: int) -> dict[int, list[Message]]:
        found: defaultdict[int, list[Message]] = defaultdict(list)
        for message in self._taken(timeout_ms):
            partition, error = message.partition(), message.error()
            if partition not in self._next and error is None:
                continue  # paused meanwhile
            if error is not None:
                if self._goes_on(message, error):
                    return {partition: [] for partition in self.assigned()}
            elif message.offset() >= self._next[partition]:
                self._next[partition] = message.offset() + 1
                found[partition].append(Message(message.offset(), message.value()))
        return found

    def assigned(self) -> set[int]:
        return {place.partition for place in self._consumer.assignment()}

    def pause(self, partition: int) -> None:
        self._next.pop(partition, None)
        self._asking(lambda: self._consumer.pause([TopicPartition(self.name, partition)]))

    def resume(self, partition: int, offset: int) -> None:
        place, deadline = (
            TopicPartition(self.name, partition, offset),
            time.monotonic() + topics.ASK_MS / 1000,
        )
        while True:
            try:
                self._consumer.seek(place)
                break
            except KafkaException as error:  # just assigned, and not begun to be fetched yet
                if error.args[0].code() != KafkaError._STATE or time.monotonic() > deadline:
                    raise self._error(error) from error
                time.sleep(0.01)
        self._asking(lambda: self._consumer.resume([place]))
        self._next[partition] = offset

    def position(self, partition: int) -> int:
        return self._next.get(partition, 0)

    def bounds(self, partition: int) -> Bounds:
        place = TopicPartition(self.name, partition)
        found = self._asking(lambda: self._consumer.get_watermark_offsets(place, topics.ASK_MS / 1000))
        if found is None:
            raise SourceDown(f"Kafka at {self.servers}, topic {self.name}: no answer")
        return Bounds(*found)

    def identity(self) -> str:
        if self._identity is None:
            self._identity = self._asked_identity()
        return self._identity

    def offset_at(self, partition: int, time_ms: int) -> int:
        place = TopicPartition(self.name, partition, time_ms)
        found = self._asking(lambda: self._consumer.offsets_for_times([place], topics.ASK_MS / 1000))
        return self.bounds(partition).end if found[0].offset < 0 else int(found[0].offset)

    def shown(self, partition: int) -> int:
        place = TopicPartition(self.name, partition)
        found = self._asking(lambda: self._consumer.committed([place], topics.ASK_MS / 1000))
        return max(int(found[0].offset), 0)

    def show(self, offsets: Mapping[int, int]) -> None:
        places = [TopicPartition(self.name, partition, offset) for partition, offset in offsets.items()]
        self._consumer.commit(offsets=places, asynchronous=True)

    # -- one partition, whole ------------------------------------------------------------------------------

    def read(self, partition: int, start: int, end: int) -> Iterator[list[Message]]:
        self._asking(lambda: self._consumer.assign([TopicPartition(self.name, partition, start)]))
        self._next = {partition: start}
        while self._next[partition] < end:
            batch = []
            for message in self._taken(1000):
                if message.error() is not None:
                    if self._goes_on(message, message.error()):
                        raise SourceError(
                            f"Kafka at {self.servers}, topic {self.name}[{partition}]: {message.error()}"
                        )
                    continue
                self._next[partition] = message.offset() + 1
                if message.offset() < end:
                    batch.append(
                        Message(message.offset(), message.value(), message.headers() or (), message.key())
                    )
            if batch:
                yield batch

    def close(self) -> None:
        if not self._closed and getattr(self, "_consumer", None) is not None:
            self._closed = True
            self._consumer.close()

    # -- within --------------------------------------------------------------------------------------------

    def _found(self) -> Any:
        try:
            return self._consumer.list_topics(self.name, topics.ASK_MS / 1000)
        except KafkaException as error:
            self._consumer.poll(0)  # nothing is assigned yet that could be lost: it is heard why
            raise self._error(error) from error

    def _asked_identity(self) -> str:
        if self._admin is None:
            self._admin = AdminClient(self._shared | self._heard.options)
        try:
            asked = self._admin.describe_topics(TopicCollection([self.name]))[self.name]
            return str(asked.result(topics.ASK_MS / 1000).topic_id)
        except KafkaException as error:
            if error.args[0].code() == KafkaError.UNKNOWN_TOPIC_OR_PART:  # and another is not there yet
                return ""
            raise self._error(error) from error
        except TimeoutError:
            raise SourceDown(f"Kafka at {self.servers}, topic {self.name}: no answer") from None

    def _taken(self, timeout_ms: int) -> list[Any]:
        self._identity = None
        first = self._asking(lambda: self._consumer.poll(timeout_ms / 1000))
        if first is None:
            return []
        more: list[Any] = (
            self._asking(lambda: self._consumer.consume(self._max - 1, 0)) if self._max > 1 else []
        )
        return [first, *more]

    def _goes_on(self, message: Any, error: KafkaError) -> bool:
        """Whether a place that was sought is not there; other errors are passed over, or raised."""
        if error.code() == KafkaError._PARTITION_EOF:
            if message.partition() in self._next:
                self._next[message.partition()] = max(self._next[message.partition()], message.offset())
        elif error.code() in (KafkaError._AUTO_OFFSET_RESET, KafkaError.OFFSET_OUT_OF_RANGE):
            return True
        elif error.code() == KafkaError._MAX_POLL_EXCEEDED or error.retriable():
            log.warning("%s", error)
        else:
            raise self._error(KafkaException(error))
        return False

    def _assigned(self, consumer: Any, places: list[TopicPartition]) -> None:
        # a place of their own, or it would ask Kafka where to go on, and fail
        consumer.assign([TopicPartition(place.topic, place.partition, 0) for place in places])
        consumer.pause(places)
        self._next = {}
        self._noted.append(("assigned", [place.partition for place in places]))

    def _revoked(self, _: Any, places: list[TopicPartition]) -> None:
        for place in places:
            self._next.pop(place.partition, None)
        self._noted.append(("revoked", [place.partition for place in places]))

    def _asking(self, ask: Callable[[], T]) -> T:
        try:
            return ask()
        except (KafkaException, ValueError, TypeError) as error:
            raise self._error(error) from error

    def _error(self, error: Exception) -> SourceError:
        return self._heard.refusal(f"{self.servers}, topic {self.name}", error)
