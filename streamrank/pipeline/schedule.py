"""Snapshots by themselves: a file every so many events or seconds, of which the newest are kept."""

import fcntl
import logging
import re
import time
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import NamedTuple

import msgspec

from ..config import SnapshotSettings
from ..errors import SnapshotError
from ..state.base import Store
from ..state.snapshot import SnapshotInfo, read_snapshot, write_snapshot
from ..state.values import decode

log = logging.getLogger(__name__)

_NAME = re.compile(r"(\d{8}T\d{6}\.\d{6}Z)-(\d+)\.safetensors")
_ASIDE = re.compile(rf"\.{_NAME.pattern}\.[0-9a-f]{{32}}")
_TIME = "%Y%m%dT%H%M%S.%fZ"


class _Taken(NamedTuple):
    """A file of the folder: when it was begun, and the sum of its shards' offsets."""

    seconds: float
    offsets: int
    path: Path


class Schedule:
    """Takes a snapshot of the whole store when one is due; asked after every commit.

    A file holds what was committed: each shard's state with the offset of that same state. Shards are read
    one after the other while learning goes on, so two of them may be of moments milliseconds apart; as no
    shard depends on another, restoring the file and learning the rest of each partition gives the state of
    an undisturbed run. Files are written aside and renamed, and named by time and sum of offsets: by these
    names several workers that share a folder know what others have taken; one takes it at a time. One that
    cannot be written is logged, and does not stop the learning.
    """

    def __init__(
        self, store: Store, settings: SnapshotSettings, *, now: Callable[[], float] = time.time
    ) -> None:
        self.store, self.settings, self._now = store, settings, now
        self.folder = Path(settings.folder)
        self._began = now()

    def maybe_take(self) -> Path | None:
        """Take one if it is due, and remove the oldest beyond `keep`; returns its path."""
        s = self.settings
        if not s.every_events and not s.every_seconds:
            return None
        try:
            if self._due() is None:
                return None
            self.folder.mkdir(parents=True, exist_ok=True)
            with (self.folder / ".lock").open("ab") as lock:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                due = self._due()  # again: another may have been quicker
                return None if due is None else self._take(*due)
        except BlockingIOError:  # another worker is taking it
            return None
        except (SnapshotError, OSError) as error:
            log.warning("no snapshot was taken: %s. Learning goes on; the next commit tries again.", error)
            return None

    def _due(self) -> tuple[float, int] | None:
        """The time and the sum of the offsets, if they ask for another file."""
        s, taken = self.settings, self._taken()
        now, offsets = self._now(), sum(map(self.store.offset, self.store.shards()))
        last = taken[-1] if taken else _Taken(self._began, 0, self.folder)
        # fewer than in the last file: the store was set back, and what follows differs from the file
        enough = s.every_events and (offsets - last.offsets >= s.every_events or offsets < last.offsets)
        late = s.every_seconds and offsets != last.offsets and now - last.seconds >= s.every_seconds
        return (now, offsets) if enough or late else None

    def _take(self, now: float, offsets: int) -> Path:
        for left in self.folder.glob(".*.safetensors.*"):
            if _ASIDE.fullmatch(left.name):  # by a worker that was killed while it wrote
                left.unlink()
        stamp = datetime.fromtimestamp(now, UTC).strftime(_TIME)
        path = self.folder / f"{stamp}-{offsets:012d}.safetensors"
        snapshot(path, self.store)
        # what a store has lost since is in files that are ahead of it, and in no later one: they are kept too
        taken = self._taken()
        for files in ([t for t in taken if t.offsets <= offsets], [t for t in taken if t.offsets > offsets]):
            for old in files[: -self.settings.keep]:
                old.path.unlink()
        return path

    def _taken(self) -> list[_Taken]:
        return _files(self.folder)


def restore_newest(store: Store, shard: str, epoch: int, folder: str | Path) -> Path | None:
    """Bring an empty shard, owned under `epoch`, to the newest scheduled snapshot that knows it; its path.

    One that is damaged is logged, and the one before it serves.
    """
    for taken in reversed(_files(Path(folder))):
        try:
            found = read_snapshot(taken.path)
        except SnapshotError as error:
            log.warning("%s", error)
            continue
        if found.info.offsets.get(shard):
            store.commit(
                shard,
                epoch,
                found.entries[shard],
                start=0,
                end=found.info.offsets[shard],
                letters=found.letters.get(shard, []),
            )
            return taken.path
    return None


def _files(folder: Path) -> list[_Taken]:
    found = []
    for path in folder.glob("*.safetensors"):
        if name := _NAME.fullmatch(path.name):
            began = datetime.strptime(name[1], _TIME).replace(tzinfo=UTC)
            found.append(_Taken(began.timestamp(), int(name[2]), path))
    return sorted(found)


def snapshot(path: str | Path, store: Store) -> SnapshotInfo:
    """Write all of `store` to `path`, with the settings that each shard was learnt under."""
    configs = {
        shard: decode(config)
        for shard in store.shards()
        if (config := store.get(shard, "config")) is not None
    }
    return write_snapshot(path, store, config_json=msgspec.json.encode(configs).decode())
