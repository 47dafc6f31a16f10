"""The embedded worker: a process of its own that learns from the feedback log, and whoever keeps it alive."""

import logging
import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec

from ..config import Settings
from ..errors import Fenced, OffsetMismatch
from ..pipeline.checkpoint import Checkpoint
from ..pipeline.flow import Flow
from ..pipeline.upkeep import Upkeep
from ..sources.feedback import SHARD, records
from ..state import Store, open_store

IDLE_S = 0.01
COMMIT_SHARE = 0.25  # of the time goes into commits made early, because nothing more is there to learn
BACKOFF_S = (0.1, 5.0)

log = logging.getLogger(__name__)


class Report(msgspec.Struct, frozen=True):
    """What the worker says after each commit."""

    offset: int
    events: int
    learn_seconds: float
    commit_seconds: float


def work(
    store: Store, settings: Settings, folder: Path, stopped: Callable[[], bool], say: Callable[[Report], None]
) -> None:
    """Learn what the log holds and will hold, until told to stop.

    It commits as often as the settings say, and at once when it has caught up, so that a click shows soon.
    When the shard was taken by another (such as a reconciliation) it reads the state again and goes on.
    """
    spent, upkeep = 0.0, Upkeep(settings, store)
    while not stopped():
        checkpoint = Checkpoint(store, Flow(settings), shard=SHARD)
        upkeep.opened(SHARD, checkpoint.flow)
        flow, committed = checkpoint.flow, checkpoint.flow.offset
        rest = 0.0
        try:
            while not stopped():
                began = time.perf_counter()
                for record in records(folder, flow.offset):
                    flow.step(record)
                    if checkpoint.maybe_commit() or stopped():
                        break
                idle = flow.offset == committed
                if not idle and time.monotonic() >= rest:
                    before = checkpoint.seconds
                    checkpoint.commit()
                    rest = time.monotonic() + (checkpoint.seconds - before) * (1 / COMMIT_SHARE - 1)
                    committed = flow.offset
                    spent += time.perf_counter() - began
                    say(Report(flow.offset, flow.counts["events"], spent, checkpoint.seconds))
                elif idle:
                    time.sleep(IDLE_S)
                upkeep.turn()
            checkpoint.commit()
        except (Fenced, OffsetMismatch) as error:
            log.warning("shard %r was taken over: %s. Reading it again.", SHARD, error)
    upkeep.close()


class Worker:
    """Starts the worker as a process, starts it again when it ends, and knows what it said last.

    The process ends when its standard input does: with this one, however this one ends.
    """

    def __init__(self, settings: Settings, folder: Path, on_commit: Callable[[Report], None]) -> None:
        self._told = msgspec.json.encode({"settings": settings, "folder": str(folder)})
        self._on_commit = on_commit
        self.restarts = -1
        self.last: Report | None = None
        self._stop = threading.Event()
        self._process: subprocess.Popen[bytes] | None = None
        self._thread = threading.Thread(target=self._supervise, name="worker", daemon=True)
        self._thread.start()

    @property
    def alive(self) -> bool:
        """Whether it runs."""
        return self._process is not None and self._process.poll() is None

    @property
    def pid(self) -> int:
        """Of the process; 0 when there is none."""
        return self._process.pid if self._process is not None and self.alive else 0

    def _supervise(self) -> None:
        wait = BACKOFF_S[0]
        while not self._stop.is_set():
            self.restarts += 1
            began = time.monotonic()
            self._process = process = subprocess.Popen(
                [sys.executable, "-m", "streamrank.serve.worker"],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                process_group=0,  # Ctrl-C is for the server; of its session, or its niceness would not count
            )
            assert process.stdin is not None
            assert process.stdout is not None
            with process.stdin, process.stdout:
                process.stdin.write(self._told + b"\n")
                process.stdin.flush()
                for line in process.stdout:
                    self.last = msgspec.json.decode(line, type=Report)
                    self._on_commit(self.last)
                code = process.wait()
            if self._stop.is_set():
                return
            wait = BACKOFF_S[0] if time.monotonic() - began > 10 else min(2 * wait, BACKOFF_S[1])
            log.warning("the worker ended with code %d; it is started again in %.1f s", code, wait)
            self._stop.wait(wait)

    def close(self) -> None:
        """Let it commit and end."""
        self._stop.set()
        process = self._process
        if process is not None and process.stdin is not None:
            try:
                process.stdin.close()
                process.wait(timeout=10)
            except subprocess.TimeoutExpired:
                process.kill()
            except OSError:  # it was gone already
                pass
        self._thread.join()


def main() -> None:
    """The process: settings on the first line of standard input, and life as long as that stays open."""
    told: dict[str, Any] = msgspec.json.decode(sys.stdin.buffer.readline())
    settings = msgspec.convert(told["settings"], Settings)
    os.nice(5)  # who asks for a ranking goes first
    ended = threading.Event()

    def wait_for_the_end() -> None:
        sys.stdin.buffer.read()
        ended.set()

    threading.Thread(target=wait_for_the_end, daemon=True).start()

    def say(report: Report) -> None:
        try:
            sys.stdout.buffer.write(msgspec.json.encode(report) + b"\n")
            sys.stdout.buffer.flush()
        except BrokenPipeError:  # nobody listens any more
            ended.set()

    with open_store(settings.store, settings) as store:
        work(store, settings, Path(told["folder"]), ended.is_set, say)


if __name__ == "__main__":
    main()
