"""`streamrank simulate`."""

import argparse
import gzip
import os
import sys
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from pathlib import Path
from typing import BinaryIO, cast

import msgspec
import zstandard

from ..config import load_settings
from ..errors import ConfigError, MalformedEvent, SourceError
from ..events.codec import Decoder, encode_msgpack, pack
from ..events.keys import key_of
from ..events.types import Ranking
from ..simulation import Settings, Simulator
from ..sources.file import write_frame
from ..sources.producing import produce
from .output import print_json, say

# late clicks need time to be late in: a short log is spread over this long, at about 0.3 rankings an event
LATE_SPAN_MS = 8 * 3_600_000


def simulate(arguments: argparse.Namespace) -> int:
    """Write the log, and the truth beside it."""
    if (arguments.out is None) == (arguments.kafka is None):
        raise ConfigError("say where it goes: --out FILE, or --kafka HOST:PORT with --topic")
    if arguments.json and arguments.out == "-":
        raise ConfigError("--json goes with a file: with --out - standard output is the log itself")
    gap_ms = 2_000
    if arguments.late > 0:
        gap_ms = max(gap_ms, int(LATE_SPAN_MS / (0.3 * arguments.events)))
    settings = Settings(
        events=arguments.events,
        seed=arguments.seed,
        click_model=arguments.click_model,
        malformed=arguments.malformed,
        duplicates=arguments.duplicates,
        late=arguments.late,
        drift_at=arguments.drift_at,
        shuffled=arguments.shuffled,
        numeric_features=arguments.numeric_features,
        mean_gap_ms=gap_ms,
        noise=arguments.noise,
    )
    simulator = Simulator(settings)
    packed = arguments.format == "msgpack"
    decoder = Decoder()
    if arguments.kafka:
        kafka = load_settings().kafka
        topic = arguments.topic or kafka.topic or "streamrank.events"
        records = (_packed(record, decoder) if packed else record for record in simulator.records())
        sent = produce(
            msgspec.structs.replace(kafka, servers=arguments.kafka),
            topic,
            ((_key(record, decoder), record) for record in records),
            rate=arguments.rate,
        )
        result: dict[str, object] = {"topic": topic, "records": sent, **simulator.counts}
        _tell(arguments, result)
        return 0
    with _writing(arguments.out) as out:
        for record in simulator.records():
            out.write(write_frame(_packed(record, decoder)) if packed else record + b"\n")
    truth = arguments.truth or (f"{arguments.out}.truth" if arguments.out != "-" else "none")
    if truth != "none":
        with _writing(truth) as out:
            out.writelines(record + b"\n" for record in simulator.truth_records())
    result = {"out": arguments.out, "truth": None if truth == "none" else truth, **simulator.counts}
    _tell(arguments, result)
    return 0


def _tell(arguments: argparse.Namespace, result: dict[str, object]) -> None:
    if arguments.json:
        print_json(result)
    else:
        say("  ".join(f"{name} {value}" for name, value in result.items()))


def _key(record: bytes, decoder: Decoder) -> bytes | None:
    event = decoder.decode(record)[0]
    return b"" if isinstance(event, MalformedEvent) else key_of(event)


def _packed(record: bytes, decoder: Decoder) -> bytes:
    events = decoder.decode(record)
    if len(events) != 1 or isinstance(events[0], MalformedEvent):
        return record  # what is broken stays as broken
    event = events[0]
    if isinstance(event, Ranking):
        try:
            return encode_msgpack(pack(event))
        except MalformedEvent:  # strings among the fields: the packed form takes numbers only
            pass
    return encode_msgpack(event)


@contextmanager
def _writing(path: str) -> Iterator[BinaryIO]:
    """Written aside and renamed when it is whole: who is interrupted leaves what was there before."""
    if path == "-":
        yield sys.stdout.buffer
        return
    target = Path(os.path.realpath(path))  # a link stays a link
    # what is no file, such as /dev/null or a named pipe, must not be replaced by one
    aside = target if target.exists() and not target.is_file() else target.with_name(f"{target.name}.part")
    try:
        try:
            with aside.open("wb") as file, _packed_as(path, file) as stream:
                yield stream
            if aside != target:
                aside.replace(target)
        except BaseException:
            if aside != target:
                aside.unlink(missing_ok=True)
            raise
    except OSError as error:
        raise SourceError(f"cannot write {path}: {error.strerror}") from None


def _packed_as(path: str, file: BinaryIO) -> AbstractContextManager[BinaryIO]:
    if path.endswith(".gz"):  # without a name and a time: same seed, same bytes
        return cast(AbstractContextManager[BinaryIO], gzip.GzipFile("", "wb", 6, file, mtime=0))
    if path.endswith(".zst"):
        return zstandard.ZstdCompressor().stream_writer(file, closefd=False)
    return nullcontext(file)
