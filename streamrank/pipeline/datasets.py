"""Where the lists that a shard has learnt come from: a log or a topic taken again, or the archive."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, NamedTuple, Protocol

from ..config import Settings
from ..errors import SourceError
from ..events.types import Record
from ..sources.base import Source
from ..state.values import decode
from .flow import Flow
from .learnt import Learnt, recording
from .memory import check_source, hash_of

Taken = Callable[[int, int], None]


class Note(NamedTuple):
    """What the models knew at an offset, when they had learnt so many lists."""

    offset: int
    lists: int
    entries: Mapping[str, bytes]


class Data(Protocol):
    """The lists of each shard."""

    def lists(self, shard: str, end: int, entries: Mapping[str, bytes]) -> Iterator[Learnt]:
        """What a shard had learnt at offset `end`, in order; `entries` are its own of that moment."""
        ...

    def note(self, shard: str, offset: int) -> Note | None:
        """What the models knew, at the latest before the record at `offset`; None: nothing, at the start."""
        ...

    def start(self, shard: str) -> int:
        """The offset of the first record whose lists are there."""
        ...


class LogData:
    """A log taken again by the same flow; it feeds one shard."""

    def __init__(self, source: Source, settings: Settings, taken: Taken = lambda *_: None) -> None:
        self._source, self._settings, self._taken = source, settings, taken

    def lists(self, shard: str, end: int, entries: Mapping[str, bytes]) -> Iterator[Learnt]:  # noqa: ARG002
        check_source(self._source.fingerprint(), entries)
        records = ((record.offset, record.value) for record in self._source.records(0))
        yield from again(records, self._settings, end, entries, self._taken)
        self._source.close()

    def note(self, shard: str, offset: int) -> Note | None:  # noqa: ARG002
        return None

    def start(self, shard: str) -> int:  # noqa: ARG002
        return 0


class TopicData:
    """A topic of Kafka taken again; partition p feeds the shard TOPIC[p]."""

    def __init__(self, topic: Any, settings: Settings, taken: Taken = lambda *_: None) -> None:
        self._topic, self._settings, self._taken = topic, settings, taken

    def lists(self, shard: str, end: int, entries: Mapping[str, bytes]) -> Iterator[Learnt]:
        partition, bounds = self._bounds(shard)
        if bounds.end < end:
            raise SourceError(
                f"{shard}: the store stands at offset {end}, the topic ends at {bounds.end}: another topic, "
                "or it was made anew. Use --data archive."
            )
        found = (
            (message.offset, message.value)
            for messages in self._topic.read(partition, bounds.start, end)
            for message in messages
        )
        yield from again(_since(found, entries, shard), self._settings, end, entries, self._taken)

    def note(self, shard: str, offset: int) -> Note | None:  # noqa: ARG002
        return None

    def start(self, shard: str) -> int:
        return int(self._bounds(shard)[1].start)

    def _bounds(self, shard: str) -> tuple[int, Any]:
        name, _, number = shard.removesuffix("]").rpartition("[")
        if name != self._topic.name or not number.isdigit():
            raise SourceError(f"shard {shard!r} was not learnt from the topic {self._topic.name}")
        return int(number), self._topic.bounds(int(number))


def again(
    records: Iterable[tuple[int, bytes | None]],
    settings: Settings,
    end: int,
    entries: Mapping[str, bytes],
    taken: Taken,
) -> Iterator[Learnt]:
    """The lists of records, up to offset `end`, by the same flow; no model learns here.

    Refused is a log whose last record is not the one the shard took last.
    """
    flow = Flow(settings)
    flow.models = []
    found: list[Learnt] = []
    flow.recorder = recording(flow.counts, found.append)
    for offset, value in records:
        if offset >= end:
            break
        if value is None:
            flow.skip(offset)
        else:
            flow.step(Record(offset, value))
        if flow.counts["events"] % 500 == 0:
            taken(flow.offset, end)
        yield from found
        found.clear()
    flow.learn()
    yield from found
    last = decode(entries["last"]) if "last" in entries else ""
    if last and hash_of(flow.last_value or b"") != last:
        why = (
            f"the log ends at record {flow.offset}, and the store stands at {end}: give the whole log it was "
            "learnt from"
            if flow.offset < end
            else f"record {end - 1} is not the one the store took last: another log"
        )
        raise SourceError(why)


def _since(
    records: Iterator[tuple[int, bytes | None]], entries: Mapping[str, bytes], shard: str
) -> Iterator[tuple[int, bytes | None]]:
    """From the record on that the shard was begun with."""
    source = decode(entries["source"]) if "source" in entries else ""
    for offset, value in records:
        if not source or hash_of(value or b"") == source:
            yield offset, value
            break
    else:
        raise SourceError(
            f"{shard}: the topic no longer holds the record that the store began with: use --data archive"
        )
    yield from records
