"""The embedded log: what was sent to /feedback, on disk before it is acknowledged, read by the worker."""

import os
import threading
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path

from ..errors import StoreError
from ..sources.feedback import ENDING, segments

SEGMENT_BYTES = 64 << 20


class FeedbackLog:
    """Appends lines; when `append` returns they are on disk. One writer, any number of its threads.

    At most `keep_mb` megabytes are kept beyond the newest segment; the oldest segments go first, and only
    those that `learnt` (an offset) has passed.
    """

    def __init__(self, folder: str | Path, *, at_least: int = 0, keep_mb: int = 1000) -> None:
        self.folder, self.keep_bytes = Path(folder), keep_mb << 20
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
            found = segments(self.folder)
            end = 0
            if found:
                path, start = found[-1]
                _drop_torn_line(path)
                end = start + path.stat().st_size
            # after a power cut the store may know more than the log: what it has passed is not written again
            fresh = not found or at_least > end
            self._start = max(end, at_least) if fresh else found[-1][1]
            self.end = self._synced = max(end, at_least)
            self._file = os.open(self._path(), os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
            _sync_folder(self.folder)
        except OSError as error:
            raise StoreError(f"the feedback log {self.folder} cannot be used: {error.strerror}") from None
        self._writing, self._syncing = threading.Lock(), threading.Lock()

    def _path(self) -> Path:
        return self.folder / f"{self._start:020d}{ENDING}"

    def append(self, lines: Sequence[bytes], learnt: int = 0) -> int:
        """Write lines, wait until they are on disk, return the offset behind them.

        Those who wait at the same time share one fsync.
        """
        data = b"".join(line + b"\n" for line in lines)
        with self._writing:
            if self.end - self._start >= SEGMENT_BYTES:
                self._roll(learnt)
            try:
                written = os.write(self._file, data)
                if written < len(data):
                    raise OSError(28, "No space left on device")
            except OSError as error:
                os.ftruncate(self._file, self.end - self._start)
                raise StoreError(f"the feedback log {self.folder} takes no more: {error.strerror}") from None
            self.end += len(data)
            mine = self.end
        with self._syncing:
            if self._synced < mine:
                reached = self.end
                os.fsync(self._file)
                self._synced = reached
        return mine

    def _roll(self, learnt: int) -> None:
        with self._syncing:
            os.fsync(self._file)
            os.close(self._file)
            self._start = self._synced = self.end
            self._file = os.open(self._path(), os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
            _sync_folder(self.folder)
        old = segments(self.folder)
        for (path, _), (_, end) in pairwise(old):
            if end <= learnt and self.end - end >= self.keep_bytes:
                path.unlink()

    def close(self) -> None:
        """Release the file."""
        os.close(self._file)


def _drop_torn_line(path: Path) -> None:
    """A line without its end was never acknowledged."""
    with path.open("r+b") as file:
        data_end = file.seek(0, os.SEEK_END)
        back = min(data_end, 1 << 25)
        file.seek(data_end - back)
        whole = file.read(back).rfind(b"\n") + 1
        if whole < back:
            file.truncate(data_end - back + whole)
            os.fsync(file.fileno())


def _sync_folder(folder: Path) -> None:
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
