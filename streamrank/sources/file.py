"""Event logs: JSON lines, a JSON array, or framed msgpack; plain, .gz or .zst."""

from collections.abc import Callable, Generator, Iterator, Sequence
from itertools import chain
from pathlib import Path
from typing import BinaryIO

import msgspec

from streamrank.errors import SourceError
from streamrank.events.types import Record
from streamrank.sources.base import FileSource, digest
from streamrank.sources.stream import MAX_LINE_BYTES, STDIN, bare_name, head, lines, reading

MSGPACK_ENDINGS = (".msgpack", ".mpk")
_LENGTH_BYTES = {0xC4: 1, 0xC5: 2, 0xC6: 4}  # msgpack's bin 8, bin 16 and bin 32
_BOM = b"\xef\xbb\xbf"


def write_frame(payload: bytes) -> bytes:
    """A record of a .msgpack log: `payload` as a msgpack bin object, so the file is a msgpack stream of bins.

    >>> write_frame(b"abc")
    b'\\xc4\\x03abc'
    """
    return msgspec.msgpack.encode(payload)


class LogSource(FileSource):
    """The records of event logs, as they are; several files are one stream.

    - `.msgpack`, `.mpk`: one record a frame (`write_frame`). A file that ends inside a frame is refused.
    - `.json` holding one JSON array: one record an element; the file is held in memory. Where the first of
      several lines is an array by itself, the file is JSON lines. One object over several lines is a record.
    - all else: JSON lines, or frames where the first byte is a frame's. Blank lines have no offset.

    The last line of JSON lines needs no end, but without one it is a record only if it is a complete JSON
    value: a log that grows may be read while a line is being written, and the next reading takes it whole.
    This is so for the last of several files; in one before it such a line is a record, to be refused.
    "-" is standard input, read once. A record longer than `max_line_bytes` comes cut to one byte
    more than that, so that it is refused where it is decoded.
    Places read `log.jsonl:17` (line 17) or `log.msgpack#17` (the 17th frame or element).
    """

    def __init__(self, paths: Sequence[str | Path], max_line_bytes: int = MAX_LINE_BYTES) -> None:
        super().__init__(paths)
        self.max_line_bytes = max_line_bytes
        self._held: Iterator[Record] | None = None  # standard input, opened to look at its first record
        self._once = STDIN in self.paths
        self._taken = False

    def records(self, start: int = 0) -> Iterator[Record]:
        """The records from offset `start` on."""
        if not self._once:
            return super().records(start)
        self.fingerprint()  # later it is too late: the first record cannot be read again
        if self._taken or self._held is None:
            raise SourceError("-: standard input can be read once. Save it to a file to read it again.")
        self._taken = True
        return (record for record in self._held if record.offset >= start)

    def fingerprint(self) -> str:
        """SHA-256 (hex) of the first record's value, "" when there is none."""
        if self._once and self._fingerprint is None:
            rest = super().records()
            first = next(rest, None)
            self._held = iter(()) if first is None else chain([first], rest)
            self._fingerprint = digest(first)
        return super().fingerprint()

    def _read(self, path: Path, offset: int, start: int) -> Generator[Record, None, int]:
        name = "stdin" if path == STDIN else path.name
        values: Callable[[BinaryIO, Path], Iterator[tuple[int, bytes]]]
        if bare_name(path).endswith(".json") and self._is_array(path):
            values, mark = self._elements, "#"
        elif bare_name(path).endswith(".json") and self._is_object(path):
            values, mark = self._whole, "#"
        elif bare_name(path).endswith(MSGPACK_ENDINGS):
            values, mark = self._frames, "#"
        else:
            values, mark = self._lines, ":"
        with self._opened(path) as stream:
            if mark == ":" and (first := head(stream, 1)) and first[0] in _LENGTH_BYTES:
                values, mark = self._frames, "#"
            for number, value in values(stream, path):
                if offset >= start:
                    yield Record(offset, value, f"{name}{mark}{number}")
                offset += 1
        return offset

    def _lines(self, stream: BinaryIO, path: Path) -> Iterator[tuple[int, bytes]]:
        # in a file that others follow, a line that comes and goes would shift the offsets of theirs
        return lines(stream, self.max_line_bytes, _is_json if path is self.paths[-1] else None)

    def _elements(self, stream: BinaryIO, path: Path) -> Iterator[tuple[int, bytes]]:
        try:
            elements = msgspec.json.decode(stream.read().removeprefix(_BOM), type=list[msgspec.Raw])
        except msgspec.DecodeError as error:
            raise SourceError(
                f"{path}: starts as a JSON array but is none: {error}. Repair it, or write one event a line."
            ) from error
        return enumerate(map(bytes, elements), 1)

    def _is_array(self, path: Path) -> bool:
        with reading(path) as (stream, _):
            found = lines(stream, self.max_line_bytes)
            _, first = next(found, (0, b""))
            if not first.lstrip().startswith(b"["):
                return False
            return not _is_json(first) or next(found, None) is None

    def _is_object(self, path: Path) -> bool:
        with reading(path) as (stream, _):
            _, first = next(lines(stream, self.max_line_bytes), (0, b""))
        if not first.lstrip().startswith(b"{") or _is_json(first):
            return False
        with reading(path) as (stream, _):
            text = stream.read(self.max_line_bytes + 1).removeprefix(_BOM)
        return len(text) <= self.max_line_bytes and _is_json(text)

    def _whole(self, stream: BinaryIO, path: Path) -> Iterator[tuple[int, bytes]]:  # noqa: ARG002
        yield 1, stream.read().removeprefix(_BOM).strip()

    def _frames(self, stream: BinaryIO, path: Path) -> Iterator[tuple[int, bytes]]:
        read, limit, at, number = stream.read, self.max_line_bytes, 0, 0
        while head := read(1):
            number += 1
            n_length = _LENGTH_BYTES.get(head[0])
            if n_length is None:
                raise SourceError(
                    f"{path}: byte {at} is 0x{head[0]:02x}, where frame {number} should start (0xc4, 0xc5 or "
                    "0xc6, a msgpack bin). Write each record with write_frame; name JSON lines .jsonl."
                )
            length_bytes = read(n_length)
            length = int.from_bytes(length_bytes, "big")
            value = read(min(length, limit + 1))
            n_read = len(value)
            while n_read < length and (passed := len(read(min(length - n_read, 1 << 18)))):
                n_read += passed
            if len(length_bytes) < n_length or n_read < length:
                raise SourceError(
                    f"{path}: ends inside frame {number}, which starts at byte {at}. Its writer was "
                    f"stopped midway: cut the file to {at} bytes, or copy it again."
                )
            at += 1 + n_length + length
            yield number, value


def _is_json(line: bytes) -> bool:
    try:
        msgspec.json.decode(line, type=msgspec.Raw)
    except msgspec.DecodeError:
        return False
    except RecursionError:  # too deep for any event: whoever decodes it says so
        return True
    return True
