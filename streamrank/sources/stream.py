"""The bytes of one file as they were before compression, and its lines; every failure is a `SourceError`."""

import gzip
import io
import sys
import zlib
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from pathlib import Path
from typing import BinaryIO, NamedTuple, cast

import zstandard

from streamrank.errors import SourceError

MAX_LINE_BYTES = 16 << 20
STDIN = Path("-")
_BUFFER = 1 << 18
_BOM = b"\xef\xbb\xbf"
_MAGIC = {".gz": b"\x1f\x8b", ".zst": b"\x28\xb5\x2f\xfd"}  # no text starts like this


class Reading(NamedTuple):
    """`stream` gives the content; `raw.tell()` says how much of the file on disk that took so far."""

    stream: BinaryIO
    raw: BinaryIO


def bare_name(path: Path) -> str:
    """The file's name in lower case, without the ending that only says how it is compressed.

    >>> bare_name(Path("logs/Events.jsonl.gz"))
    'events.jsonl'
    """
    name = path.name.lower()
    return name.removesuffix(".gz").removesuffix(".zst")


@contextmanager
def reading(path: Path) -> Iterator[Reading]:
    """Open a plain, .gz or .zst file (or "-", standard input) for one pass from its start.

    Gzip and zstd under a name that does not say so, or from standard input, are known by their first bytes.
    """
    position = 0
    try:
        with _raw(path) as raw:
            try:
                yield Reading(_decompressed(path, raw), raw)
            finally:
                # a pipe cannot tell; nor can a file that the garbage collector closed before its reader
                if path != STDIN and not raw.closed:
                    position = raw.tell()
    except (EOFError, zlib.error, gzip.BadGzipFile, zstandard.ZstdError) as error:
        where = "" if path == STDIN else f" near byte {position} of {path.stat().st_size}"
        raise SourceError(
            f"{path}: damaged or cut short{where} ({error}). "
            "What lies before was read; copy the file again, or drop the .gz/.zst if it is not compressed."
        ) from error
    except OSError as error:
        raise SourceError(
            f"{path}: cannot be read ({error.strerror or error}). Check its permissions."
        ) from error


def _raw(path: Path) -> AbstractContextManager[BinaryIO]:
    return nullcontext(sys.stdin.buffer) if path == STDIN else cast(BinaryIO, path.open("rb", buffering=0))


def head(stream: BinaryIO, n: int) -> bytes:
    """The next `n` bytes, which stay to be read; fewer (maybe none) where no more can be looked at."""
    return stream.peek(n)[:n] if isinstance(stream, io.BufferedReader) else b""


def _decompressed(path: Path, raw: BinaryIO) -> BinaryIO:
    ending = path.suffix.lower()
    if ending not in _MAGIC:
        if path == STDIN:
            start = head(raw, 4)
        else:
            start = raw.read(4)
            raw.seek(0)
        ending = next((name for name, magic in _MAGIC.items() if start.startswith(magic)), "")
    if ending == ".gz":
        # GzipFile.readline is Python; a buffer over it makes every line one C call
        return io.BufferedReader(cast(io.RawIOBase, gzip.GzipFile(fileobj=raw)), _BUFFER)
    if ending == ".zst":
        return io.BufferedReader(_Zstd(raw), _BUFFER)
    # standard input has a buffer already, and is not ours to close
    return raw if path == STDIN else io.BufferedReader(cast(io.RawIOBase, raw), _BUFFER)


class _Zstd(io.RawIOBase):
    """All frames of a .zst file. The package's own stream reader takes a file cut in mid-frame for whole."""

    _STEP = 1 << 11  # small: it is unpacked in one go, and may unpack to twenty thousand times its size

    def __init__(self, raw: BinaryIO) -> None:
        self._raw = raw
        self._unpacker = zstandard.ZstdDecompressor(max_window_size=1 << 31)
        self._frame = self._unpacker.decompressobj()
        self._in_frame = False
        self._packed = b""
        self._ready = memoryview(b"")

    def readable(self) -> bool:
        return True

    def readinto(self, target: object) -> int:
        while not self._ready:
            packed = self._packed or self._raw.read(self._STEP)
            if not packed:
                if self._in_frame:
                    raise EOFError("the last zstd frame is incomplete")
                return 0
            self._ready = memoryview(self._frame.decompress(packed))
            self._packed, self._in_frame = self._frame.unused_data, not self._frame.eof
            if self._frame.eof:
                self._frame = self._unpacker.decompressobj()
        view = memoryview(cast(bytearray, target)).cast("B")
        n = min(len(view), len(self._ready))
        view[:n], self._ready = self._ready[:n], self._ready[n:]
        return n


def lines(
    stream: BinaryIO, limit: int = MAX_LINE_BYTES, whole: Callable[[bytes], bool] | None = None
) -> Iterator[tuple[int, bytes]]:
    r"""Each line that is not blank, without its end, with its number from 1 (blank lines are counted).

    LF and CRLF end a line, so does the end of the file; a byte order mark is no part of the first one. Of a
    line longer than `limit` the first `limit` + 1 bytes are given and the rest is passed over unread, so that
    memory stays bounded and whoever decodes it refuses it. A last line without an end, up to the limit, is
    left out when `whole` denies it: its writer may not be done.

    >>> list(lines(io.BytesIO(b"a\r\n\n b")))
    [(1, b'a'), (3, b' b')]
    """
    readline, cap = stream.readline, limit + 2  # two more, for CRLF
    raw, number = readline(cap + len(_BOM)).removeprefix(_BOM), 0
    while raw or not number:  # the first may be empty but for its mark
        number += 1
        line = raw[:-2] if raw.endswith(b"\r\n") else raw.removesuffix(b"\n")
        if len(line) > limit:
            while raw and not raw.endswith(b"\n"):
                raw = readline(_BUFFER)
            yield number, line[: limit + 1]
        elif line and not line.isspace() and (whole is None or len(line) < len(raw) or whole(line)):
            yield number, line
        raw = readline(cap)
