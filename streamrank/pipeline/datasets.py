"""Where the lists that a shard has learnt come from: a log or a topic taken again, or the archive."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, NamedTuple, Protocol, cast

import msgspec

from ..config import Settings
from ..errors import ConfigError, SourceError
from ..events.types import Record
from ..learners.registry import build
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

    def first(self, shard: str) -> int:
        """The number of the first list that is there."""
        ...

    def note(self, shard: str, lists: int) -> Note | None:
        """What the models knew before list number `lists`, at the latest; None: nothing, at the start."""
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

    def first(self, shard: str) -> int:  # noqa: ARG002
        return 0

    def note(self, shard: str, lists: int) -> Note | None:  # noqa: ARG002
        return None


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

    def first(self, shard: str) -> int:  # noqa: ARG002
        return 0

    def note(self, shard: str, lists: int) -> Note | None:  # noqa: ARG002
        return None

    def _bounds(self, shard: str) -> tuple[int, Any]:
        name, _, number = shard.removesuffix("]").rpartition("[")
        if name != self._topic.name or not number.isdigit():
            raise SourceError(f"shard {shard!r} was not learnt from the topic {self._topic.name}")
        return int(number), self._topic.bounds(int(number))


class ArchiveData:
    """The archive: lists as they were learnt, maybe without the oldest."""

    def __init__(self, settings: Settings, taken: Taken = lambda *_: None) -> None:
        if not settings.archive.folder:
            raise ConfigError("--data archive needs the setting archive.folder: where the lists are kept")
        self._folder, self._taken = settings.archive.folder, taken
        self._keys = any(build(model.learner, model.params).wants_items for model in settings.models)

    def lists(self, shard: str, end: int, entries: Mapping[str, bytes]) -> Iterator[Learnt]:  # noqa: ARG002
        from .archive import read_lists  # the extra `parquet`

        total = n_learnt(entries)
        for learnt in read_lists(self._folder, shard, total, keys=self._keys):
            yield learnt
            self._taken(learnt.end, total)

    def first(self, shard: str) -> int:
        from .archive import kept, shard_folder

        files = kept(shard_folder(self._folder, shard))
        return files[0].first if files else 0

    def note(self, shard: str, lists: int) -> Note | None:
        from .archive import notes, shard_folder

        first = self.first(shard)
        if not first:
            return None
        found = [n for n in notes(shard_folder(self._folder, shard)) if first <= n.lists <= lists]
        if not found:
            raise SourceError(
                f"the archive of shard {shard!r} begins at list {first} and does not say what the models "
                "knew then: reconcile from the log, or when more is learnt"
            )
        last = found[-1]
        return Note(last.offset, last.lists, msgspec.msgpack.decode(last.path.read_bytes()))


def n_learnt(entries: Mapping[str, bytes]) -> int:
    """How many lists a shard has learnt, by its entries."""
    return int(cast(dict[str, int], decode(entries["counts"])).get("learnt", 0))


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
