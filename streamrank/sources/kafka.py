"""Kafka by kafka-python: the client that is pure Python, and the default."""

import logging
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing
from typing import Any, TypeVar

from kafka import KafkaAdminClient, KafkaConsumer, KafkaProducer, TopicPartition
from kafka.admin import NewTopic
from kafka.consumer.subscription_state import ConsumerRebalanceListener
from kafka.errors import KafkaError, LogTruncationError, OffsetOutOfRangeError
from kafka.structs import OffsetAndMetadata

from streamrank.config import KafkaSettings
from streamrank.errors import SourceDown, SourceError
from streamrank.sources import topics
from streamrank.sources.options import check_options
from streamrank.sources.topics import Bounds

SHARED = (
    "security_protocol",
    "ssl_",
    "sasl_",
    "request_timeout_ms",
    "bootstrap_timeout_ms",
)  # with producers
T = TypeVar("T")


class Topic:
    """One topic, or one member of a group that reads it; see `LiveTopic`."""

    def __init__(self, settings: KafkaSettings, topic: str, group: str | None = None) -> None:
        self.name, self.servers = topic, settings.servers
        self._shared = shared(settings)
        options: dict[str, Any] = {
            "isolation_level": "read_committed",
            "max_poll_records": 2000,
            "metadata_max_age_ms": 30_000,
            "allow_auto_create_topics": False,
            "bootstrap_timeout_ms": topics.ASK_MS,
        } | settings.options
        self._admin: Any = None
        self._identity: str | None = None  # as of the last poll
        self._noted: list[tuple[str, list[int]]] = []
        self._consumer: Any = connected(
            f"{self.servers}, topic {self.name}",
            lambda: KafkaConsumer(
                bootstrap_servers=settings.servers.split(","),
                group_id=group,
                enable_auto_commit=False,
                auto_offset_reset="none",
                **options,
            ),
        )
        try:
            if group is not None:  # before it hears of the partitions: hearing of them later is another join
                notes = _Notes(self._consumer, self._noted)
                self._asking(lambda: self._consumer.subscribe([topic], listener=notes))
            found = self._asking(lambda: self._consumer.partitions_for_topic(topic))
            if not found:
                raise SourceError(
                    f"Kafka at {settings.servers} has no topic {topic!r}. Make it, with as many partitions "
                    "as workers are to share it, or give another --topic."
                )
            self.partitions: list[int] = sorted(found)
        except BaseException:
            self.close()
            raise

    # -- a group's member ----------------------------------------------------------------------------------

    def changes(self) -> list[tuple[str, list[int]]]:
        taken = self._noted[:]
        del self._noted[: len(taken)]
        return taken

    @property
    def generation(self) -> int:
        return max(int(self._consumer.group_metadata().generation_id), 0)

    def poll(self, timeout_ms: int) -> dict[int, list[Any]]:
        self._identity = None
        try:
            found = self._asking(lambda: self._consumer.poll(timeout_ms=timeout_ms))
        except SourceError as error:
            if not isinstance(error.__cause__, (OffsetOutOfRangeError, LogTruncationError)):
                raise
            return {partition: [] for partition in self.assigned()}
        self._keep_joining()
        return {place.partition: messages for place, messages in found.items()}

    def assigned(self) -> set[int]:
        return {place.partition for place in self._consumer.assignment()}

    def pause(self, partition: int) -> None:
        self._consumer.pause(TopicPartition(self.name, partition))

    def resume(self, partition: int, offset: int) -> None:
        place = TopicPartition(self.name, partition)
        self._asking(lambda: self._consumer.seek(place, offset))
        self._consumer.resume(place)

    def position(self, partition: int) -> int:
        place = TopicPartition(self.name, partition)
        return int(self._asking(lambda: self._consumer.position(place, timeout_ms=topics.ASK_MS)) or 0)

    def bounds(self, partition: int) -> Bounds:
        place = TopicPartition(self.name, partition)
        first = self._asking(lambda: self._consumer.beginning_offsets([place], timeout_ms=topics.ASK_MS))
        last = self._asking(lambda: self._consumer.end_offsets([place], timeout_ms=topics.ASK_MS))
        return Bounds(first[place], last[place])

    def identity(self) -> str:
        if self._identity is None:
            if self._admin is None:
                options = {"request_timeout_ms": topics.ASK_MS} | self._shared
                self._admin = connected(self.servers, lambda: KafkaAdminClient(**options))
            [found] = self._asking(lambda: self._admin.describe_topics([self.name]))
            self._identity = str(found["topic_id"] or "")
        return self._identity

    def offset_at(self, partition: int, time_ms: int) -> int:
        place = TopicPartition(self.name, partition)
        found = self._asking(
            lambda: self._consumer.offsets_for_times({place: time_ms}, timeout_ms=topics.ASK_MS)
        )
        return self.bounds(partition).end if found[place] is None else int(found[place].offset)

    def shown(self, partition: int) -> int:
        place = TopicPartition(self.name, partition)
        return self._asking(lambda: self._consumer.committed(place, timeout_ms=topics.ASK_MS)) or 0

    def show(self, offsets: Mapping[int, int]) -> None:
        self._consumer.commit_async(
            {TopicPartition(self.name, p): OffsetAndMetadata(offset) for p, offset in offsets.items()}
        )

    # -- one partition, whole ------------------------------------------------------------------------------

    def read(self, partition: int, start: int, end: int) -> Iterator[list[Any]]:
        place = TopicPartition(self.name, partition)
        self._consumer.assign([place])
        self._consumer.seek(place, start)
        while self._asking(lambda: self._consumer.position(place, timeout_ms=topics.ASK_MS)) < end:
            found = self._asking(lambda: self._consumer.poll(timeout_ms=1000)).get(place, [])
            self._identity = None
            if found:
                yield [message for message in found if message.offset < end]

    def close(self) -> None:
        if getattr(self, "_consumer", None) is not None:
            self._consumer.close(autocommit=False, timeout_ms=topics.CLOSE_MS)
        if getattr(self, "_admin", None) is not None:
            self._admin.close()

    def _keep_joining(self) -> None:
        # kafka-python 3.0.12: of a join that it began because the topic had changed, and that was not over
        # when poll had to return, it forgets the rest: no assignment, no heartbeats, no error, for ever
        coordinator = self._consumer._coordinator
        if coordinator.rejoining and not coordinator.need_rejoin():
            coordinator.request_rejoin()

    def _asking(self, ask: Callable[[], T]) -> T:
        return asking(f"{self.servers}, topic {self.name}", ask)


class Outbox:
    """A producer that is given up when the broker takes nothing for ASK_MS."""

    def __init__(self, settings: KafkaSettings) -> None:
        self._servers, self._options = settings.servers, shared(settings)
        self._waiting: deque[Any] = deque()
        self._producer: Any = connected(
            self._servers, lambda: KafkaProducer(linger_ms=20, max_block_ms=topics.ASK_MS, **self._options)
        )

    def make_topic(self, topic: str, partitions: int) -> list[int]:

        def make() -> list[int]:
            with closing(KafkaAdminClient(**self._options)) as admin:
                if topic not in admin.list_topics():
                    admin.create_topics([NewTopic(topic, partitions, 1)])
            return sorted(self._producer.partitions_for(topic))

        return asking(self._servers, make)

    def send(
        self,
        topic: str,
        value: bytes | None,
        *,
        key: bytes | None = None,
        partition: int | None = None,
        headers: Sequence[tuple[str, bytes]] = (),
    ) -> None:
        sent = asking(
            self._servers,
            lambda: self._producer.send(topic, value, key=key, partition=partition, headers=list(headers)),
        )
        self._waiting.append(sent)
        while self._waiting and self._waiting[0].is_done:
            self._arrived(self._waiting.popleft())

    def flush(self) -> None:
        asking(self._servers, lambda: self._producer.flush(timeout=topics.ASK_MS / 1000))
        while self._waiting:
            self._arrived(self._waiting.popleft())

    def close(self) -> None:
        self._producer.close(timeout=topics.CLOSE_MS / 1000)

    def _arrived(self, sent: Any) -> None:
        asking(self._servers, lambda: sent.get(timeout=topics.ASK_MS / 1000))


def shared(settings: KafkaSettings) -> dict[str, Any]:
    """The options that are not a consumer's alone."""
    check_options(settings.options, KafkaConsumer.DEFAULT_CONFIG)
    given = {"bootstrap_timeout_ms": topics.ASK_MS, "bootstrap_servers": settings.servers.split(",")}
    return given | {name: value for name, value in settings.options.items() if name.startswith(SHARED)}


def connected(where: str, make: Callable[[], T]) -> T:
    """A client; where there is none, with the reason, which it tells in its log alone."""
    reason = _Reason()
    manager = logging.getLogger("kafka.net.manager")
    manager.addHandler(reason)
    try:
        return asking(where, make)
    except SourceError as error:
        raise type(error)(f"{error} {reason.said}".strip()) from error
    finally:
        manager.removeHandler(reason)


class _Reason(logging.Handler):
    said = ""

    def __init__(self) -> None:
        super().__init__(logging.WARNING)

    def emit(self, record: logging.LogRecord) -> None:
        text = record.getMessage()
        if not self.said or "Authentication" in text:  # some tries end before the broker says that
            self.said = text


def asking(where: str, ask: Callable[[], T]) -> T:
    """The answer, or an error that says where and what to do."""
    try:
        return ask()
    except (KafkaError, ValueError, AssertionError) as error:
        kind = SourceDown if getattr(error, "retriable", False) else SourceError
        raise kind(
            f"Kafka at {where}: {error!r}. Look whether the broker runs there and lets this client in "
            "(kafka.servers, kafka.options)."
        ) from error


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
