"""A topic of Kafka behind one contract, whichever client reads it.

A client is a module with two classes: `Topic(settings, topic, group)` and `Outbox(settings)`.
"""

from collections.abc import Iterator, Mapping, Sequence
from importlib import import_module
from typing import Any, NamedTuple, Protocol, cast

from streamrank.config import KafkaSettings
from streamrank.errors import ConfigError

ASK_MS = 10_000  # for one question to the broker
CLOSE_MS = 3_000

# setting kafka.client -> its module, and the extra that brings its library
CLIENTS = {
    "kafka-python": ("streamrank.sources.kafka", "kafka"),
    "confluent": ("streamrank.sources.confluent", "fast"),
}


class Bounds(NamedTuple):
    """The first offset a partition still holds, and the one after its last."""

    start: int
    end: int


class Message(Protocol):
    """One record as the client has it; `value` is None in a tombstone."""

    @property
    def offset(self) -> int: ...

    @property
    def value(self) -> bytes | None: ...

    @property
    def headers(self) -> Sequence[tuple[str, bytes]]: ...

    @property
    def key(self) -> bytes | None: ...


class LiveTopic(Protocol):
    """One topic. With a group its partitions come and go; callbacks only note, `changes` tells.

    A partition that was given to this member is paused until `resume`, so nothing of it is delivered before
    its place was sought. Offsets are never taken from Kafka: they are committed there for displays of lag.
    What the broker refuses is a `SourceError`, what it may do later a `SourceDown`.
    """

    name: str
    partitions: list[int]  # those there were at first

    def changes(self) -> list[tuple[str, list[int]]]:
        """What was "assigned" and what was "revoked" since the last call, in order."""
        ...

    @property
    def generation(self) -> int:
        """How often the group has shared the partitions out; 0 when this is no member now."""
        ...

    def poll(self, timeout_ms: int) -> Mapping[int, Sequence[Message]]:
        """Messages by partition. One out of range comes with none: open it again."""
        ...

    def assigned(self) -> set[int]:
        """The partitions that are this member's."""
        ...

    def pause(self, partition: int) -> None:
        """Deliver nothing of it; heartbeats go on."""
        ...

    def resume(self, partition: int, offset: int) -> None:
        """Deliver it from `offset` on."""
        ...

    def position(self, partition: int) -> int:
        """The offset that is delivered next."""
        ...

    def bounds(self, partition: int) -> Bounds:
        """What the partition holds now."""
        ...

    def identity(self) -> str:
        """Which topic of this name it is, as of the last poll or later; "" if that cannot be told."""
        ...

    def offset_at(self, partition: int, time_ms: int) -> int:
        """The offset of the first record at or after a time; the end when there is none."""
        ...

    def shown(self, partition: int) -> int:
        """The offset that was committed to Kafka for displays of lag; 0 for none."""
        ...

    def show(self, offsets: Mapping[int, int]) -> None:
        """Commit offsets to Kafka, for displays of lag only: no answer is waited for."""
        ...

    def read(self, partition: int, start: int, end: int) -> Iterator[Sequence[Message]]:
        """The messages of a partition from `start` up to `end`, a batch at a time, without a group."""
        ...

    def close(self) -> None:
        """Leave the group, in bounded time."""
        ...


class Outbox(Protocol):
    """Sends records; what could not be delivered is raised by `flush`."""

    def make_topic(self, topic: str, partitions: int) -> list[int]:
        """The partitions of a topic, which is made where there is none."""
        ...

    def send(
        self,
        topic: str,
        value: bytes | None,
        *,
        key: bytes | None = None,
        partition: int | None = None,
        headers: Sequence[tuple[str, bytes]] = (),
    ) -> None:
        """Take it to be sent."""
        ...

    def flush(self) -> None:
        """Wait until all are there."""
        ...

    def close(self) -> None:
        """Let the connections go."""
        ...


def open_topic(settings: KafkaSettings, topic: str, group: str | None = None) -> LiveTopic:
    """The topic, by the client that is set."""
    return cast(LiveTopic, _client(settings).Topic(settings, topic, group))


def open_outbox(settings: KafkaSettings) -> Outbox:
    """A producer, by the client that is set."""
    return cast(Outbox, _client(settings).Outbox(settings))


def _client(settings: KafkaSettings) -> Any:
    module, extra = CLIENTS[settings.client]
    try:
        return import_module(module)
    except ModuleNotFoundError as error:
        raise ConfigError(
            f'kafka.client = "{settings.client}" needs {error.name}, which is not installed: '
            f"pip install 'streamrank[{extra}]'"
        ) from error
