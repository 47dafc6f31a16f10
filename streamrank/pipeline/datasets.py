"""Where the lists that a shard has learnt come from: a log or a topic taken again, or the archive."""

from collections.abc import Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple, Protocol, cast

from ..config import Settings
from ..errors import ConfigError, SourceError
from ..learners.registry import build
from ..sources.base import Source
from ..state.values import decode
from .again import Taken, Until, again, clicks_again, since
from .clicks import Clicks, joined
from .learnt import Learnt
from .memory import check_source


class Note(NamedTuple):
    """What the models knew at an offset, when they had learnt so many lists."""

    offset: int
    lists: int  # or clicks
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

    def clicks(self, shard: str) -> Until:
        """Asked for an offset and the shard's entries of that moment: its clicks up to there since the last.

        The first time from the first that is there.
        """
        ...

    def clicks_note(self, shard: str, clicks: int) -> Note | None:
        """What the recommenders knew before click number `clicks`, as `note` says it of the models."""
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

    def clicks(self, shard: str) -> Until:  # noqa: ARG002
        def records(start: int, entries: Mapping[str, bytes]) -> Iterator[tuple[int, bytes]]:
            check_source(self._source.fingerprint(), entries)
            yield from ((record.offset, record.value) for record in self._source.records(start))

        return clicks_again(lambda start, _end, entries: records(start, entries), self._settings, self._taken)

    def clicks_note(self, shard: str, clicks: int) -> Note | None:  # noqa: ARG002
        return None


class TopicData:
    """A topic of Kafka taken again; partition p feeds the shard TOPIC[p]."""

    def __init__(self, topic: Any, settings: Settings, taken: Taken = lambda *_: None) -> None:
        self._topic, self._settings, self._taken = topic, settings, taken

    def lists(self, shard: str, end: int, entries: Mapping[str, bytes]) -> Iterator[Learnt]:
        records = self._records(shard, 0, end, entries)
        yield from again(records, self._settings, end, entries, self._taken)

    def first(self, shard: str) -> int:  # noqa: ARG002
        return 0

    def note(self, shard: str, lists: int) -> Note | None:  # noqa: ARG002
        return None

    def clicks(self, shard: str) -> Until:
        return clicks_again(partial(self._records, shard), self._settings, self._taken)

    def clicks_note(self, shard: str, clicks: int) -> Note | None:  # noqa: ARG002
        return None

    def _records(
        self, shard: str, start: int, end: int, entries: Mapping[str, bytes]
    ) -> Iterator[tuple[int, bytes | None]]:
        partition, bounds = self._bounds(shard)
        if bounds.end < end:
            raise SourceError(
                f"{shard}: the store stands at offset {end}, the topic ends at {bounds.end}: another topic, "
                "or it was made anew. Use --data archive."
            )
        found = (
            (message.offset, message.value)
            for messages in self._topic.read(partition, start or bounds.start, end)
            for message in messages
        )
        return found if start else since(found, entries, shard)

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
        from .archive import shard_folder
        from .shelf import kept

        files = kept(shard_folder(self._folder, shard))
        return files[0].first if files else 0

    def note(self, shard: str, lists: int) -> Note | None:
        from .archive import shard_folder

        return _noted(shard_folder(self._folder, shard), lists, "list")

    def clicks(self, shard: str) -> Until:
        from .archive import read_clicks

        start = -1

        def until(end: int, entries: Mapping[str, bytes]) -> Clicks:  # noqa: ARG001
            nonlocal start
            total = n_clicks(entries)
            found = joined(read_clicks(self._folder, shard, total, start), max(start, 0))
            start = total
            self._taken(total, total)
            return found

        return until

    def clicks_note(self, shard: str, clicks: int) -> Note | None:
        from .archive import clicks_folder

        return _noted(clicks_folder(self._folder, shard), clicks, "click")


def _noted(folder: Path, number: int, what: str) -> Note | None:
    from .shelf import kept, notes

    files = kept(folder)
    first = files[0].first if files else 0
    if not first:
        return None
    found = [note for note in notes(folder) if first <= note.number <= number]
    if not found:
        raise SourceError(
            f"the archive {folder} begins at {what} {first} and does not say what was known then: reconcile "
            "from the log, or when more is learnt"
        )
    last = found[-1]
    return Note(last.offset, last.number, last.entries())


def n_learnt(entries: Mapping[str, bytes]) -> int:
    """How many lists a shard has learnt, by its entries."""
    return _count(entries, "learnt")


def n_clicks(entries: Mapping[str, bytes]) -> int:
    """How many clicks its recommenders have learnt."""
    return _count(entries, "clicks")


def _count(entries: Mapping[str, bytes], name: str) -> int:
    return int(cast(dict[str, int], decode(entries["counts"])).get(name, 0))
