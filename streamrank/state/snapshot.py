"""A whole store <-> one safetensors file: no pickle, readable by any tool that knows the format.

The tensors are described in tensors.py. The metadata, all text: streamrank (the version that wrote it),
format, config, offsets (JSON), digest (of the state, see digest.py), and checksum (SHA-256 of the file with
64 zeros in the checksum's place).
"""

import contextlib
import os
import uuid
from collections.abc import Iterable
from hashlib import sha256
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

import msgspec
import safetensors.numpy
from safetensors import SafetensorError

from streamrank.errors import SnapshotError
from streamrank.state.base import Store
from streamrank.state.digest import digest_of
from streamrank.state.tensors import Entries, Letters, from_tensors, to_tensors

FORMAT = "1"

_CHECKSUM = b'"checksum":"'  # quotes inside JSON text are escaped, so this is found at its one place only
_ZEROS = b"0" * 64


class SnapshotInfo(msgspec.Struct, frozen=True):
    """What a snapshot holds, in few words."""

    version: str
    config_json: str
    offsets: dict[str, int]
    digest: str
    n_entries: int
    n_letters: int


class Snapshot(msgspec.Struct, frozen=True):
    """All that a snapshot holds, by shard."""

    info: SnapshotInfo
    entries: Entries
    letters: Letters


def write_snapshot(path: str | Path, store: Store, *, config_json: str = "{}") -> SnapshotInfo:
    """Write all of `store` to `path`, aside and then renamed: `path` is never half a snapshot.

    Each shard is of one moment, its own; the store may go on meanwhile.
    """
    path = Path(path)
    entries: Entries = {}
    letters: Letters = {}
    offsets: dict[str, int] = {}
    for shard in store.shards():
        entries[shard], offsets[shard] = store.read(shard)
        # after the state: a letter that came in between is of a record that a replay from here meets again
        letters[shard] = store.letters(shard)
    info = _info(_library_version(), config_json, offsets, entries, letters)
    metadata = {
        "streamrank": info.version,
        "format": FORMAT,
        "config": config_json,
        "offsets": msgspec.json.encode(offsets).decode(),
        "digest": info.digest,
        "checksum": _ZEROS.decode(),
    }
    data = memoryview(safetensors.numpy.save(to_tensors(entries, letters), metadata))
    place = bytes(data[: 8 + _header_size(data)]).index(_CHECKSUM) + len(_CHECKSUM)
    _write_aside(path, (data[:place], _checksum(data, place).encode(), data[place + len(_ZEROS) :]))
    return info


def read_snapshot(path: str | Path) -> Snapshot:
    """Read and verify: a damaged, foreign or unknown file is a `SnapshotError`, never a wrong state."""
    path = Path(path)
    try:
        content = path.read_bytes()
    except OSError as error:
        raise SnapshotError(f"{path}: {error.strerror}: give the path of a snapshot file") from error
    data = memoryview(content)
    damaged = SnapshotError(
        f"{path}: damaged: these are not the bytes written. Copy it again, or use an older snapshot."
    )
    try:
        header = bytes(data[8 : 8 + _header_size(data)])
        metadata = msgspec.json.decode(header, type=dict[str, msgspec.Raw]).get("__metadata__", b"{}")
        said = msgspec.json.decode(metadata, type=dict[str, str])
    except (msgspec.MsgspecError, UnicodeDecodeError):
        raise SnapshotError(
            f"{path}: damaged, or no snapshot at all. Copy it again, or give the path of a snapshot file."
        ) from None
    if "streamrank" not in said:
        raise SnapshotError(
            f"{path}: a safetensors file of another program: give the path of a snapshot file"
        )
    if said.get("format") != FORMAT:
        raise SnapshotError(
            f"{path}: of format {said.get('format')!r}, written by streamrank {said['streamrank']}; this "
            f"version reads {FORMAT!r}. Restore it with that version."
        )
    place = 8 + header.find(_CHECKSUM) + len(_CHECKSUM)
    if said.get("checksum") != _checksum(data, place):
        raise damaged
    try:
        offsets = msgspec.json.decode(said["offsets"], type=dict[str, int])
        entries, letters = from_tensors(safetensors.numpy.load(content))
        info = _info(said["streamrank"], said["config"], offsets, entries, letters)
    except (SafetensorError, msgspec.MsgspecError, KeyError) as error:
        raise damaged from error
    if info.digest != said.get("digest"):
        raise damaged
    return Snapshot(info, entries, letters)


def restore_snapshot(path: str | Path, store: Store, *, overwrite: bool = False) -> SnapshotInfo:
    """Put a snapshot into `store`, one transaction a shard; the process that owned a shard is fenced off.

    With `overwrite` a store that holds something is replaced wholly: shards that the snapshot does not know
    are emptied, and stand at offset 0. If it dies between two shards, run it again with `overwrite`.
    """
    snapshot = read_snapshot(path)
    if not overwrite and (held := [shard for shard in store.shards() if _holds_something(store, shard)]):
        raise SnapshotError(
            f"{path}: the store already holds {', '.join(map(repr, held))}. Restore into an empty store, or "
            "overwrite it (all it has learnt since the snapshot is then learnt again)."
        )
    for shard in sorted({*snapshot.entries, *store.shards()}):
        epoch = store.acquire(shard)
        old, start = store.read(shard)
        store.commit(
            shard,
            epoch,
            dict.fromkeys(old) | snapshot.entries.get(shard, {}),
            start=start,
            end=snapshot.info.offsets.get(shard, 0),
            letters=snapshot.letters.get(shard, []),
            settled=[(letter.offset, letter.part) for letter in store.letters(shard)],
        )
    return snapshot.info


def _info(
    wrote: str,
    config_json: str,
    offsets: dict[str, int],
    entries: Entries,
    letters: Letters,
) -> SnapshotInfo:
    return SnapshotInfo(
        version=wrote,
        config_json=config_json,
        offsets=offsets,
        digest=digest_of((shard, entries[shard], offsets[shard]) for shard in sorted(entries)),
        n_entries=sum(map(len, entries.values())),
        n_letters=sum(map(len, letters.values())),
    )


def _holds_something(store: Store, shard: str) -> bool:
    entries, offset = store.read(shard)
    return bool(entries or offset or store.letters(shard))


def _header_size(data: memoryview) -> int:
    return int.from_bytes(data[:8], "little")


def _checksum(data: memoryview, place: int) -> str:
    total = sha256(data[:place])
    total.update(_ZEROS)
    total.update(data[place + len(_ZEROS) :])
    return total.hexdigest()


def _library_version() -> str:
    try:
        return version("streamrank")
    except PackageNotFoundError:  # run from a source tree
        return "unknown"


def _write_aside(path: Path, chunks: Iterable[bytes | memoryview]) -> None:
    aside = path.with_name(f".{path.name}.{uuid.uuid4().hex}")
    try:
        with aside.open("xb") as file:
            for chunk in chunks:
                file.write(chunk)
            file.flush()
            os.fsync(file.fileno())
        aside.replace(path)
        folder = os.open(path.parent, os.O_RDONLY)
        try:
            os.fsync(folder)  # the rename itself must outlive a power cut
        finally:
            os.close(folder)
    except OSError as error:
        raise SnapshotError(
            f"{path}: not written: {error.strerror}. What was there before is untouched."
        ) from error
    finally:
        with contextlib.suppress(OSError):
            aside.unlink()
