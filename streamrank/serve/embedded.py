"""Feedback with nothing installed: a log on disk, and a worker process that learns from it."""

import time
from collections import deque
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from ..config import Settings
from ..errors import ConfigError
from ..events.types import Event
from ..pipeline.flow import Flow
from ..pipeline.memory import check_config
from ..sources.feedback import SHARD
from ..state import open_store
from .feedback import FeedbackLog
from .worker import Report, Worker

MAX_WAITING = 100_000  # bodies not yet learnt whose time is remembered; the oldest go first


class Embedded:
    """Takes feedback in; `on_commit` is called when the worker has learnt some of it."""

    def __init__(self, settings: Settings, on_commit: Callable[[], None]) -> None:
        with open_store(settings.store, settings) as store:
            check_config(Flow(settings), store.read(SHARD, ("config",))[0])
            self._learnt = store.offset(SHARD)
        self.folder = log_folder(settings)
        self.log = FeedbackLog(self.folder, at_least=self._learnt, keep_mb=settings.serve.keep_mb)
        self._waiting: deque[tuple[int, float]] = deque(maxlen=MAX_WAITING)  # (offset, when) not yet learnt
        if self._learnt < self.log.end:
            self._waiting.append((self.log.end, time.monotonic()))
        self._on_commit = on_commit
        self.worker = Worker(settings, self.folder, self._committed)

    def send(self, events: Sequence[tuple[bytes, Event]]) -> int:
        """Write events down; returns, once they are on disk, the offset at which they are learnt."""
        if not events:
            return self.log.end
        end = self.log.append([line for line, _ in events], self._learnt)
        self._waiting.append((end, time.monotonic()))
        return end

    def _committed(self, report: Report) -> None:
        self._learnt = report.offset
        while self._waiting and self._waiting[0][0] <= report.offset:
            self._waiting.popleft()
        self._on_commit()

    @property
    def lag_ms(self) -> float:
        """How long the oldest event not yet learnt has waited."""
        try:
            return 1000 * (time.monotonic() - self._waiting[0][1])
        except IndexError:
            return 0.0

    @property
    def behind(self) -> int:
        """Bytes not yet learnt."""
        return max(self.log.end - self._learnt, 0)

    def trouble(self) -> str:
        """Why nothing is learnt now; empty when all is well."""
        return "" if self.worker.alive else "the worker is not running; it is being started again"

    def status(self) -> dict[str, Any]:
        """Of the worker."""
        last = self.worker.last
        return {
            "alive": self.worker.alive,
            "restarts": max(self.worker.restarts, 0),
            "learn_seconds": last.learn_seconds if last else 0.0,
            "commit_seconds": last.commit_seconds if last else 0.0,
        }

    def close(self) -> None:
        """Let the worker commit and end."""
        self.worker.close()
        self.log.close()


def log_folder(settings: Settings) -> Path:
    """Where the feedback log is: named, or beside a SQLite file."""
    if settings.serve.log:
        return Path(settings.serve.log)
    scheme, _, path = settings.store.partition(":///")
    if scheme != "sqlite":
        raise ConfigError(
            "serve.log must name a folder for the feedback log where the store is not a SQLite file"
        )
    return Path(path + ".feedback")
