"""What every source promises, and what all sources that read files share."""

import copy
import hashlib
from abc import ABC, abstractmethod
from collections.abc import Generator, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO, Protocol

from streamrank.errors import SourceError
from streamrank.events.types import Record
from streamrank.sources.stream import STDIN, reading


class Source(Protocol):
    """Records in order. A record's offset is its number in the whole source, the same at every reading."""

    def records(self, start: int = 0) -> Iterator[Record]:
        """The records from offset `start` on."""
        ...

    def fingerprint(self) -> str:
        """SHA-256 (hex) of the first record's value, "" when there is none: is it the log it was before?"""
        ...

    def progress(self) -> tuple[int, int]:
        """Bytes on disk consumed by the latest reading, and bytes in all (0 where that cannot be known)."""
        ...

    def close(self) -> None:
        """End the latest reading and release its file. Closing twice is harmless."""
        ...


class FileSource(ABC):
    """Several files as one stream, one after the other in the order given."""

    def __init__(self, paths: Sequence[str | Path]) -> None:
        self.paths = readable(paths)
        self._sizes = [0 if path == STDIN else path.stat().st_size for path in self.paths]
        self._before = 0  # bytes of the files already read to their end
        self._within = 0  # bytes consumed of the present file, when `_raw` cannot tell
        self._raw: BinaryIO | None = None
        self._fingerprint: str | None = None
        self._latest: Generator[Record, None, None] | None = None

    @abstractmethod
    def _read(self, path: Path, offset: int, start: int) -> Generator[Record, None, int]:
        """One file's records from `start` on, where its first has `offset`; return the next file's first."""

    def records(self, start: int = 0) -> Iterator[Record]:
        """The records from offset `start` on."""
        self._latest = self._records(start)
        return self._latest

    def _records(self, start: int) -> Generator[Record, None, None]:
        offset = self._before = self._within = 0
        for path, size in zip(self.paths, self._sizes, strict=True):
            offset = yield from self._read(path, offset, start)
            self._before, self._within = self._before + size, 0

    def fingerprint(self) -> str:
        """SHA-256 (hex) of the first record's value, "" when there is none."""
        if self._fingerprint is None:
            # a copy reads, so that a reading under way keeps its place and its progress
            self._fingerprint = digest(next(copy.copy(self)._records(0), None))
        return self._fingerprint

    def progress(self) -> tuple[int, int]:
        """Bytes on disk consumed by the latest reading, and bytes in all (standard input counts as none)."""
        within = self._within if self._raw is None else self._raw.tell()
        total = sum(self._sizes)
        return min(self._before + within, total), total  # a log may have grown since it was opened

    def close(self) -> None:
        """End the latest reading and release its file."""
        if self._latest is not None:
            self._latest.close()

    @contextmanager
    def _opened(self, path: Path) -> Iterator[BinaryIO]:
        with reading(path) as (stream, raw):
            if path == STDIN:  # a pipe cannot tell
                yield stream
                return
            self._raw = raw
            try:
                yield stream
            finally:
                # of a reading that nobody finished, the garbage collector may close the file first
                self._within, self._raw = 0 if raw.closed else raw.tell(), None


def digest(record: Record | None) -> str:
    """SHA-256 (hex) of a record's value; "" for no record."""
    return "" if record is None else hashlib.sha256(record.value).hexdigest()


def readable(paths: Sequence[str | Path]) -> list[Path]:
    """The paths, each an existing file; raises at once, so that a service fails at its start."""
    if not paths:
        raise SourceError("no file was named: give at least one log to read")
    found = [Path(path) for path in paths]
    for path in found:
        if path == STDIN:
            continue
        if path.is_dir():
            raise SourceError(
                f"{path}: is a folder, not a file. Name the files in it, in the order to read them."
            )
        if not path.exists():
            raise SourceError(f"{path}: no such file. Check the path; it is taken from {Path.cwd()}.")
    return found
