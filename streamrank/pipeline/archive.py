"""The archive: every list that a shard learnt, in Parquet files written before the commit that covers them.

A folder a shard. A file ``FIRST-END-EPOCH-LEVEL.parquet`` holds lists number FIRST to END as the owner of
that epoch learnt them, a row an item. What lies past the lists committed was not learnt yet; what several
hold is as the highest epoch has it: so a crash between a file and its commit, or between a merged file and
the end of those it replaces, costs nothing. ``_LISTS-OFFSET-EPOCH.state`` notes what the models knew there.
"""

import os
import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from itertools import pairwise
from pathlib import Path
from typing import BinaryIO, NamedTuple
from urllib.parse import quote

import msgspec
import pyarrow as pa
import pyarrow.parquet as pq

from ..config import ArchiveSettings
from ..errors import SourceError, StoreFull
from .flow import Flow
from .learnt import Learnt, recording
from .memory import model_entries
from .tables import SCHEMA, from_table, to_table

MERGED = 32  # files of a level become one of the next
LEVELS = 2
NOTE_SHARE = 4  # bytes of lists for one of notes
MB = 1 << 20


class Kept(NamedTuple):
    """A file of lists."""

    first: int
    end: int
    epoch: int
    level: int
    path: Path


class Noted(NamedTuple):
    """A file of what the models knew."""

    lists: int
    offset: int
    epoch: int
    path: Path


class Archive:
    """Writes the lists of one shard, as its owner.

    Examples
    --------
    >>> import tempfile
    >>> from streamrank.config import Settings
    >>> from streamrank.events.types import Record
    >>> flow, folder = Flow(Settings()), tempfile.mkdtemp()
    >>> archive = Archive(ArchiveSettings(folder=folder), "0", 1, flow)
    >>> flow.step(Record(0, b'{"event": "preference", "better": {"price": 1}, "worse": {"price": 2}}'))
    >>> flow.learn(); archive.write()
    >>> [lists.batch.y.tolist() for lists in read_lists(folder, "0", flow.counts["learnt"])]
    [[1.0, 0.0]]
    """

    def __init__(self, settings: ArchiveSettings, shard: str, epoch: int, flow: Flow) -> None:
        self.settings, self.epoch, self.shard = settings, epoch, shard
        self.folder = shard_folder(settings.folder, shard)
        self._flow = flow
        self._pending: list[Learnt] = []
        self._since_note = self._note_size = 0
        flow.recorder = recording(flow.counts, self._pending.append)
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise StoreFull(f"the archive {self.folder} cannot be used: {error.strerror}") from None

    def write(self) -> None:
        """What was learnt since the last call, on disk when this returns."""
        if not self._pending:
            return
        table = pa.concat_tables([to_table(learnt, self.shard) for learnt in self._pending])
        first, end = self._pending[0].first, self._pending[-1].end
        path = self._put([table], first, end, 0)
        self._pending.clear()
        self._since_note += path.stat().st_size
        if self._since_note >= NOTE_SHARE * self._note_size:
            self._note(end)

    def tidy(self) -> None:
        """After a commit: merge small files, drop what is too old or too much."""
        committed = self._flow.counts["learnt"]
        try:
            for level in range(LEVELS):
                small = [file for file in kept(self.folder) if file.level == level and file.end <= committed]
                if len(small) >= MERGED:
                    self._merge(small)
            self._expire()
        except OSError as error:
            raise StoreFull(f"the archive {self.folder} cannot be used: {error.strerror}") from None

    def _put(self, tables: Iterable[pa.Table], first: int, end: int, level: int) -> Path:
        path = self.folder / f"{first:015d}-{end:015d}-{self.epoch:010d}-{level}.parquet"
        with self._aside(path) as file, pq.ParquetWriter(file, SCHEMA, compression="zstd") as writer:
            for table in tables:
                writer.write_table(table)
        return path

    def _note(self, lists: int) -> None:
        data = msgspec.msgpack.encode(model_entries(self._flow))
        # underlined: who reads the folder as one set of data passes it over
        path = self.folder / f"_{lists:015d}-{self._flow.offset:020d}-{self.epoch:010d}.state"
        with self._aside(path) as file:
            file.write(data)
        self._since_note, self._note_size = 0, len(data)

    @contextmanager
    def _aside(self, path: Path) -> Iterator[BinaryIO]:
        """A file that is there whole, or not at all."""
        aside = path.with_suffix(f".{os.getpid()}.aside")
        try:
            with aside.open("wb") as file:
                yield file
                file.flush()
                os.fsync(file.fileno())
            aside.replace(path)
        except OSError as error:
            raise StoreFull(f"the archive {self.folder} takes no more: {error.strerror}") from None
        finally:
            aside.unlink(missing_ok=True)

    def _merge(self, small: list[Kept]) -> None:
        found = spans(small, small[-1].end)
        if any(a.end != b.first for a, b in pairwise(found)):
            return  # a gap stays visible
        newest = max(file.path.stat().st_mtime for file in small)
        path = self._put(map(_rows, found), found[0].first, found[-1].end, small[0].level + 1)
        os.utime(path, (newest, newest))
        for file in small:
            file.path.unlink(missing_ok=True)

    def _expire(self) -> None:
        files, s = kept(self.folder), self.settings
        stats = {file.path: file.path.stat() for file in files}
        total, oldest = sum(stat.st_size for stat in stats.values()), time.time() - 86_400 * s.keep_days
        for file in files[:-1]:
            too_old = s.keep_days and stats[file.path].st_mtime < oldest
            if not too_old and not (s.keep_mb and total > s.keep_mb * MB):
                break
            file.path.unlink(missing_ok=True)
            total -= stats[file.path].st_size
        left = kept(self.folder)
        for note in notes(self.folder):
            if left and note.lists < left[0].first:
                note.path.unlink(missing_ok=True)


def shard_folder(folder: str | Path, shard: str) -> Path:
    """Where the files of a shard are."""
    return Path(folder) / quote(shard, safe="")


def kept(folder: Path) -> list[Kept]:
    """The files of lists, in order."""
    found = []
    for path in folder.glob("*.parquet"):
        first, end, epoch, level = map(int, path.stem.split("-"))
        found.append(Kept(first, end, epoch, level, path))
    return sorted(found)


def notes(folder: Path) -> list[Noted]:
    """The files of what the models knew, in order."""
    found = []
    for path in folder.glob("_*.state"):
        lists, offset, epoch = map(int, path.stem[1:].split("-"))
        found.append(Noted(lists, offset, epoch, path))
    return sorted(found)


def spans(files: Sequence[Kept], end: int) -> list[Kept]:
    """Which file to take which lists from, up to list number `end`: each list once, as the last had it.

    >>> spans([Kept(0, 10, 1, 0, Path("a")), Kept(5, 15, 2, 0, Path("b"))], 12)
    [Kept(first=0, end=5, ... path=PosixPath('a')), Kept(first=5, end=12, ... path=PosixPath('b'))]
    """
    found: list[Kept] = []
    borders = sorted({min(border, end) for file in files for border in (file.first, file.end)})
    for a, b in pairwise(borders):
        holding = [file for file in files if file.first <= a and b <= file.end]
        if not holding:
            continue
        best = max(holding, key=lambda file: (file.epoch, file.level))
        if found and found[-1].path == best.path and found[-1].end == a:
            found[-1] = found[-1]._replace(end=b)
        else:
            found.append(best._replace(first=a, end=b))
    return found


def read_lists(folder: str | Path, shard: str, end: int, *, keys: bool = False) -> Iterator[Learnt]:
    """The lists that a shard learnt, up to number `end`, from the first that is still there.

    `keys` gives each row its `item_key`, for learners that want them.
    """
    where = shard_folder(folder, shard)
    found = spans(kept(where), end)
    last = found[0].first if found else 0
    for part in found:
        if part.first != last:
            raise SourceError(f"the archive {where} lacks lists {last} to {part.first}: use the log instead")
        last = part.end
        yield from_table(_rows(part), part.first, part.end, keys=keys)
    if last != end:
        raise SourceError(
            f"the archive {where} ends at list {last}, the store has learnt {end}: it was begun later, or "
            "is of another store. Use the log instead."
        )


def _rows(part: Kept) -> pa.Table:
    try:
        with pq.ParquetFile(part.path) as file:
            table = file.read()
    except (OSError, pa.ArrowException) as error:
        raise SourceError(f"{part.path} cannot be read: {error}") from None
    numbers = table.column("list").to_numpy()
    a, b = numbers.searchsorted((part.first, part.end)).tolist()
    return table.slice(a, b - a)
