"""One partition of a topic as a source, like a log: what was there when its reading began, in order."""

from collections.abc import Generator, Iterator

from streamrank.events.types import Record
from streamrank.sources.base import digest
from streamrank.sources.topics import Bounds, LiveTopic


class PartitionSource:
    """Records by their offsets in Kafka, where some numbers may be missing: tombstones, markers, compaction.

    Readings share the topic's client, so one ends the other. Progress counts records instead of bytes.
    """

    def __init__(self, topic: LiveTopic, partition: int) -> None:
        self._topic, self._partition = topic, partition
        self._bounds = topic.bounds(partition)
        self._next = self._bounds.start
        self._latest: Generator[Record, None, None] | None = None

    def records(self, start: int = 0) -> Iterator[Record]:
        """The records from offset `start` on, or from the first that is still held."""
        self._bounds = self._topic.bounds(self._partition)
        self._latest = self._records(start, self._bounds)
        return self._latest

    def fingerprint(self) -> str:
        """SHA-256 (hex) of the first record's value, "" when there is none."""
        return digest(next(self._records(0, self._topic.bounds(self._partition)), None))

    def progress(self) -> tuple[int, int]:
        """Records taken by the latest reading, and records in all."""
        return self._next - self._bounds.start, self._bounds.end - self._bounds.start

    def close(self) -> None:
        """End the latest reading; the topic stays open."""
        if self._latest is not None:
            self._latest.close()

    def _records(self, start: int, bounds: Bounds) -> Generator[Record, None, None]:
        place = f"{self._topic.name}[{self._partition}]"
        for messages in self._topic.read(self._partition, max(start, bounds.start), bounds.end):
            for message in messages:
                self._next = message.offset + 1
                if message.value is not None:
                    yield Record(message.offset, message.value, f"{place}@{message.offset}")
        self._next = bounds.end
