"""POST /train: a reconciliation in a process of its own, with Metarank's answer and the drift."""

import os
import subprocess
import sys
import threading
import time
from collections import deque
from pathlib import Path
from typing import Any

import msgspec

from ..config import Settings
from ..errors import StreamrankError
from ..pipeline.datasets import ArchiveData, Data, LogData
from ..pipeline.driftlog import drift_history
from ..pipeline.reconcile import reconcile
from ..sources.feedback import SHARD, FeedbackSource
from ..state import open_store

KEPT = 100  # reconciliations remembered for the chart


class Busy(StreamrankError):
    """One is under way, or there is nothing to reconcile with."""


class Training:
    """Reconciles one model at a time, beside the server: answering rankings is not held up.

    `done` holds the last ones, oldest first, those on schedule too: when, which model, its drift, what was
    chosen; `undone` the swaps that were taken back because they did harm.
    """

    def __init__(self, settings: Settings, folder: Path | None) -> None:
        self._settings, self._folder = settings, folder
        self._one = threading.Lock()
        self._process: subprocess.Popen[bytes] | None = None
        self._done: deque[dict[str, Any]] = deque(maxlen=KEPT)

    @property
    def done(self) -> list[dict[str, Any]]:
        """The last reconciliations."""
        noted = [entry for entry in drift_history(self._settings) if "drift" in entry]
        return sorted([*noted, *self._done], key=lambda entry: entry["time"])[-KEPT:]

    @property
    def undone(self) -> list[dict[str, Any]]:
        """The last swaps taken back: when, which model, `rolled_back`, `ndcg_before`, `ndcg_after`."""
        return [entry for entry in drift_history(self._settings) if "rolled_back" in entry][-KEPT:]

    def train(self, model: str) -> dict[str, Any]:
        """Reconcile a model; returns the report of `streamrank reconcile`. `Busy`: not now, and why."""
        if self._folder is None and not self._settings.archive.folder:
            raise Busy(
                "feedback goes to Kafka, so this server has no log of it: set archive.folder here and where "
                "it is learnt, or run `streamrank reconcile --data kafka`"
            )
        if not self._one.acquire(blocking=False):
            raise Busy("a reconciliation is under way: ask again when it is done")
        try:
            told = {"settings": self._settings, "folder": str(self._folder), "model": model}
            with subprocess.Popen(
                [sys.executable, "-m", "streamrank.serve.training"],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                process_group=0,
            ) as self._process:
                said, _ = self._process.communicate(msgspec.json.encode(told))
            result: dict[str, Any] = msgspec.json.decode(said) if said else {"error": "it was broken off"}
            if "error" in result:
                raise Busy(result["error"])
            self._done.append({"time": time.time(), **{key: result[key] for key in SHOWN}})
            return result
        finally:
            self._process = None
            self._one.release()

    def close(self) -> None:
        """Break off what is under way: until its one commit it has changed nothing."""
        if process := self._process:
            process.kill()


SHOWN = ("model", "drift", "chosen", "swapped", "offset", "seconds")


def main() -> None:
    """The process: what to do as JSON on standard input, the report or an error on standard output."""
    told: dict[str, Any] = msgspec.json.decode(sys.stdin.buffer.read())
    settings = msgspec.convert(told["settings"], Settings)
    os.nice(10)  # rankings and learning go first
    try:
        with open_store(settings.store, settings) as store:
            data: Data = LogData(FeedbackSource(told["folder"]), settings)
            shards = [SHARD]
            if settings.archive.folder:  # also when the oldest feedback is gone
                data, shards = ArchiveData(settings), store.shards()
            result = reconcile(store, data, settings, shards=shards, model=told["model"])
    except StreamrankError as error:
        result = {"error": str(error)}
    sys.stdout.buffer.write(msgspec.json.encode(result))


if __name__ == "__main__":
    main()
