"""Numbered rows in Parquet files of one folder: each written whole, merged, expired, and read once.

A file ``FIRST-END-EPOCH-LEVEL.parquet`` holds what has the numbers FIRST to END, as the owner of that epoch
wrote it. What several hold is as the highest epoch has it, so a crash between a merged file and the end of
those it replaces costs nothing. ``_NUMBER-OFFSET-EPOCH.state`` notes what the learners knew there.
"""

import os
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import pairwise
from pathlib import Path
from typing import BinaryIO, NamedTuple

import msgspec
import pyarrow as pa
import pyarrow.parquet as pq

from ..config import ArchiveSettings
from ..errors import SourceError, StoreFull

MERGED = 32  # files of a level become one of the next
LEVELS = 2
NOTE_SHARE = 4  # bytes of rows for one of notes
MB = 1 << 20


class Kept(NamedTuple):
    """A file of rows."""

    first: int
    end: int
    epoch: int
    level: int
    path: Path


class Noted(NamedTuple):
    """A file of what the learners knew."""

    number: int
    offset: int
    epoch: int
    path: Path

    def entries(self) -> dict[str, bytes]:
        """That, by key."""
        found: dict[str, bytes] = msgspec.msgpack.decode(self.path.read_bytes())
        return found


class Shelf:
    """The files of one folder, for who owns the shard; `number` names the column of rows' numbers."""

    def __init__(
        self, folder: Path, schema: pa.Schema, number: str, settings: ArchiveSettings, epoch: int
    ) -> None:
        self.folder, self._schema, self._number = folder, schema, number
        self._settings, self._epoch = settings, epoch
        self._since_note = self._note_size = 0
        try:
            folder.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise StoreFull(f"the archive {folder} cannot be used: {error.strerror}") from None

    def write(
        self,
        tables: Iterable[pa.Table],
        first: int,
        end: int,
        offset: int,
        known: Callable[[], Mapping[str, bytes]],
    ) -> None:
        """Rows, on disk when this returns; now and then with what the learners know after them."""
        path = self._put([pa.concat_tables(tables)], first, end, 0)
        self._since_note += path.stat().st_size
        if self._since_note >= NOTE_SHARE * self._note_size:
            data = msgspec.msgpack.encode(known())
            # underlined: who reads the folder as one set of data passes it over
            with self._aside(self.folder / f"_{end:015d}-{offset:020d}-{self._epoch:010d}.state") as file:
                file.write(data)
            self._since_note, self._note_size = 0, len(data)

    def tidy(self, committed: int) -> None:
        """After a commit: merge small files, drop what is too old or too much."""
        try:
            for level in range(LEVELS):
                small = [file for file in kept(self.folder) if file.level == level and file.end <= committed]
                if len(small) >= MERGED:
                    self._merge(small)
            self._expire()
        except OSError as error:
            raise StoreFull(f"the archive {self.folder} cannot be used: {error.strerror}") from None

    def _put(self, tables: Iterable[pa.Table], first: int, end: int, level: int) -> Path:
        path = self.folder / f"{first:015d}-{end:015d}-{self._epoch:010d}-{level}.parquet"
        with self._aside(path) as file, pq.ParquetWriter(file, self._schema, compression="zstd") as writer:
            for table in tables:
                writer.write_table(table)
        return path

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
        tables = (_rows(part, self._number) for part in found)
        path = self._put(tables, found[0].first, found[-1].end, small[0].level + 1)
        os.utime(path, (newest, newest))
        for file in small:
            file.path.unlink(missing_ok=True)

    def _expire(self) -> None:
        files, s = kept(self.folder), self._settings
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
            if left and note.number < left[0].first:
                note.path.unlink(missing_ok=True)


def kept(folder: Path) -> list[Kept]:
    """The files of rows, in order."""
    found = []
    for path in folder.glob("*.parquet"):
        first, end, epoch, level = map(int, path.stem.split("-"))
        found.append(Kept(first, end, epoch, level, path))
    return sorted(found)


def notes(folder: Path) -> list[Noted]:
    """The files of what the learners knew, in order."""
    found = []
    for path in folder.glob("_*.state"):
        number, offset, epoch = map(int, path.stem[1:].split("-"))
        found.append(Noted(number, offset, epoch, path))
    return sorted(found)


def spans(files: Sequence[Kept], end: int) -> list[Kept]:
    """Which file to take which numbers from, up to `end`: each once, as the last had it.

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


def read_rows(folder: Path, end: int, number: str, start: int = -1) -> Iterator[tuple[Kept, pa.Table]]:
    """What has numbers from `start` (-1: the first that is still there) up to `end`; a hole is an error.

    The owner may merge files meanwhile: where one is gone, the one that took its place is read.
    """
    last, gone = start, None
    while last < end:
        found = [part for part in spans(kept(folder), end) if part.end > last]
        if not found:
            break
        last = found[0].first if last < 0 else last
        for part in found:
            if part.first > last:
                raise SourceError(
                    f"the archive {folder} lacks {number}s {last} to {part.first}: use the log instead"
                )
            part = part._replace(first=last)
            try:
                table = _rows(part, number)
            except FileNotFoundError:
                if gone == part.path:
                    raise SourceError(f"{part.path} cannot be read: it is gone") from None
                gone = part.path
                break
            last = part.end
            yield part, table
    if max(last, 0) != end:
        raise SourceError(
            f"the archive {folder} ends at {number} {max(last, 0)}, the store has learnt {end}: it was begun "
            "later, or is of another store. Use the log instead."
        )


def _rows(part: Kept, number: str) -> pa.Table:
    try:
        with pq.ParquetFile(part.path) as file:
            table = file.read()
    except FileNotFoundError:
        raise
    except (OSError, pa.ArrowException) as error:
        raise SourceError(f"{part.path} cannot be read: {error}") from None
    numbers = table.column(number).to_numpy()
    a, b = numbers.searchsorted((part.first, part.end)).tolist()
    return table.slice(a, b - a)
