"""The feedback log of a server, read: a folder of segments, each named by the offset of its first byte.

An offset is a count of bytes, so that a reader begins where it stands without reading what lies before.
"""

from collections.abc import Iterator
from pathlib import Path

from streamrank.errors import SourceError
from streamrank.events.types import Record
from streamrank.sources.base import digest

SHARD = "feedback"  # is fed by it
ENDING = ".jsonl"
_LOOK_BACK = 1 << 16


class FeedbackSource:
    """The folder as a source. The offset of a record is that of its last byte: the next begins behind it."""

    def __init__(self, folder: str | Path) -> None:
        self.folder = Path(folder)
        self._at = 0

    def records(self, start: int = 0) -> Iterator[Record]:
        """The whole lines that end at offset `start` or later, up to the end as it is now."""
        for record in records(self.folder, start):
            self._at = record.offset + 1
            yield record

    def fingerprint(self) -> str:
        """SHA-256 (hex) of the first record's value, "" when there is none."""
        return digest(next(iter(records(self.folder, 0)), None))

    def progress(self) -> tuple[int, int]:
        """Bytes read, and bytes in all."""
        found = segments(self.folder)
        return self._at, found[-1][1] + found[-1][0].stat().st_size if found else 0

    def close(self) -> None:
        """Nothing stays open."""


def is_feedback(folder: Path) -> bool:
    """Whether a folder is such a log."""
    return folder.is_dir() and bool(segments(folder))


def segments(folder: Path) -> list[tuple[Path, int]]:
    """The files of a log and the offset where each begins, in order."""
    files = [path for path in folder.glob(f"*{ENDING}") if path.stem.isdecimal()]
    return sorted(((path, int(path.stem)) for path in files), key=lambda pair: pair[1])


def records(folder: Path, start: int) -> Iterator[Record]:
    """The whole lines that end at offset `start` or later, up to the end as it is now."""
    expected = start
    for path, first in segments(folder):
        end = first + path.stat().st_size
        if end <= start:
            continue
        if first > expected:
            raise SourceError(
                f"the feedback log {folder} lacks the bytes from {expected} to {first}: they were learnt and "
                "dropped (serve.keep_mb says how much is kept), or lost. What was learnt from them is in the "
                "store; it cannot be learnt again."
            )
        with path.open("rb") as file:
            at = first if start <= first else first + _line_start(path, start - first)
            file.seek(at - first)
            for line in file:
                if not line.endswith(b"\n"):
                    return  # still being written
                at += len(line)
                yield Record(at - 1, line[:-1], f"{path.name}+{at - len(line) - first}")
        expected = at


def _line_start(path: Path, place: int) -> int:
    """Where the line begins that holds the byte at `place`."""
    with path.open("rb") as file:
        while place > 0:
            back = min(place, _LOOK_BACK)
            file.seek(place - back)
            found = file.read(back).rfind(b"\n")
            if found >= 0:
                return place - back + found + 1
            place -= back
    return 0
