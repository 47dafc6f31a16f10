"""What goes on beside learning in `serve` and `consume`: reconciliations on a schedule, and their guard."""

import fcntl
import logging
import os
import resource
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec

from ..config import Settings
from ..errors import ConfigError, StoreError, StreamrankError
from ..state import open_store
from ..state.base import Store
from .datasets import ArchiveData
from .driftlog import SHOWN, drift_history, n_events, note_drift
from .flow import Flow
from .guard import Guard
from .reconcile import reconcile

LOOK_S = 1.0  # between looks whether one is due
NICE = 10
log = logging.getLogger(__name__)
ONE_THREAD = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "NUMBA_NUM_THREADS")


class Upkeep:
    """Starts a reconciliation of all models when one is due, and has harm taken back; asked now and then.

    It runs in a process of its own, from the archive: one thread, of low priority, in `reconcile.memory_mb`
    beside what the interpreter takes. Workers that share an archive share the schedule too: one at a time.
    """

    def __init__(self, settings: Settings, store: Store, *, now: Callable[[], float] = time.time) -> None:
        s = settings.reconcile
        self._wanted = bool(s.every_events or s.every_seconds)
        if self._wanted and settings.store.startswith("memory:"):
            raise ConfigError("a memory:// store cannot be reconciled by another process: give sqlite:///")
        self._settings, self._store, self._now = settings, store, now
        self._guard = Guard(settings, store)
        self._process: subprocess.Popen[bytes] | None = None
        self._began = self._looked = now()

    def opened(self, shard: str, flow: Flow) -> None:
        """A worker has opened a shard."""
        self._guard.opened(shard, flow)

    def turn(self) -> None:
        """See to both; what is not due costs next to nothing, what fails now is tried again."""
        try:
            self._guard.act()
            self._maybe_start()
        except StoreError as error:
            log.warning("no reconciliation or roll-back now: %s", error)

    def _maybe_start(self) -> None:
        if not self._wanted or self._now() - self._looked < LOOK_S:
            return
        self._looked = self._now()
        if self._process is not None and self._process.poll() is None:
            return
        if due(self._settings, self._store, self._began, self._now()):
            self._process = subprocess.Popen(
                [sys.executable, "-m", "streamrank.pipeline.upkeep"],
                stdin=subprocess.PIPE,
                process_group=0,
                env={**os.environ, **dict.fromkeys(ONE_THREAD, "1")},
            )
            assert self._process.stdin is not None
            with self._process.stdin as told:
                told.write(msgspec.json.encode({"settings": self._settings, "began": self._began}))

    def close(self) -> None:
        """Break off what is under way: a swap that it had begun, the next one completes."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()


def due(settings: Settings, store: Store, began: float, now: float) -> bool:
    """Whether enough events or seconds have passed since the last one."""
    s = settings.reconcile
    last = next((e for e in reversed(drift_history(settings)) if "events" in e), {"time": began, "events": 0})
    new = n_events(store) - last["events"]
    late = s.every_seconds and now - last["time"] >= s.every_seconds
    return bool((s.every_events and new >= s.every_events) or (late and new > 0))


def reconcile_all(settings: Settings, store: Store) -> None:
    """Every model in turn; what comes of it is noted in the drift's history."""
    shards = store.shards()
    for name in [one.name for one in settings.models] + [one.name for one in settings.recommenders]:
        events = n_events(store)
        try:
            result = reconcile(store, ArchiveData(settings), settings, shards=shards, model=name)
        except StreamrankError as error:
            note_drift(settings, model=name, events=events, error=str(error))
        else:
            note_drift(settings, events=events, **{key: result[key] for key in SHOWN})


def main() -> None:
    """The process: the settings as JSON on standard input."""
    told: dict[str, Any] = msgspec.json.decode(sys.stdin.buffer.read())
    settings = msgspec.convert(told["settings"], Settings)
    os.nice(NICE)
    with (Path(settings.archive.folder) / "_reconcile.lock").open("wb") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return  # another worker's is under way
        with open_store(settings.store, settings) as store:
            if due(settings, store, told["began"], time.time()):
                _limit(settings.reconcile.memory_mb)
                reconcile_all(settings, store)


def _limit(memory_mb: int) -> None:
    used = int(Path("/proc/self/statm").read_text().split()[5]) * resource.getpagesize()
    _, hard = resource.getrlimit(resource.RLIMIT_DATA)
    resource.setrlimit(resource.RLIMIT_DATA, (used + (memory_mb << 20), hard))


if __name__ == "__main__":
    main()
