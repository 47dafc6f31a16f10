"""What the server does, apart from HTTP: rank, take feedback in, say how it goes."""

import threading
import time
from collections import deque
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import msgspec

from ..config import Settings
from ..errors import ConfigError, MalformedEvent
from ..events.codec import Decoder
from ..learners.egdm import EGDM
from ..pipeline.flow import Flow
from ..pipeline.memory import check_config
from ..state import open_store
from ..state.snapshot import write_snapshot
from ..state.values import decode
from .bodies import parts
from .feedback import FeedbackLog
from .latency import Latencies
from .live import Answer, Live
from .worker import SHARD, Report, Worker

MAX_POINTS = 900  # of the charts: a quarter of an hour, a second each


class Rejected(msgspec.Struct, frozen=True):
    """An event that was not taken, by its place in the body."""

    index: int
    reason: str


class Receipt(msgspec.Struct, frozen=True):
    """What became of the events of a body; those accepted are on disk."""

    status: str
    accepted: int
    rejected: list[Rejected]
    tookMillis: int  # noqa: N815  (Metarank's name)
    updated: int = 0
    offset: int = 0  # once the shard `feedback` stands here, all of them are learnt


class Service:
    """A store, its live models, the feedback log and the worker that learns from it."""

    def __init__(self, settings: Settings) -> None:
        self.settings = settings
        serve = settings.serve
        self.requests = Decoder(max_bytes=serve.max_bytes, max_items=settings.events.max_items)
        self._decoder = Decoder(max_bytes=settings.events.max_bytes, max_items=settings.events.max_items)
        with open_store(settings.store, settings) as store:
            check_config(Flow(settings), store.read(SHARD, ("config",))[0])
            learnt = store.offset(SHARD)
        folder = log_folder(settings)
        self.log = FeedbackLog(folder, at_least=learnt, keep_mb=serve.keep_mb)
        self._learnt = learnt
        self._waiting: deque[tuple[int, float]] = deque(maxlen=100_000)  # (offset, when) not yet learnt
        if learnt < self.log.end:
            self._waiting.append((self.log.end, time.monotonic()))
        self.received: dict[str, int] = {"accepted": 0, "rejected": 0}
        self.latencies = Latencies()
        self.points: deque[dict[str, Any]] = deque(maxlen=MAX_POINTS)
        self.live = Live(settings=settings)
        self.worker = Worker(settings, folder, self._committed)
        self._stop = threading.Event()
        self._sampler = threading.Thread(target=self._sample, name="sampler", daemon=True)
        self._sampler.start()

    def rank(self, model: str, body: bytes, *, explain: bool = False) -> Answer | MalformedEvent:
        """Answer a request to rank."""
        began = time.perf_counter()
        ranking = self.requests.ranking(body)
        if isinstance(ranking, MalformedEvent):
            return ranking
        answer = self.live.rank(model, ranking, explain=explain)
        self.latencies.add(model, time.perf_counter() - began)
        return answer

    def feedback(self, body: bytes) -> Receipt:
        """Take in JSON lines, an array or one object; returns when what is accepted is on disk."""
        began = time.perf_counter()
        lines: list[bytes] = []
        rejected: list[Rejected] = []
        for index, (part, event) in enumerate(self._events(body)):
            if isinstance(event, MalformedEvent):
                rejected.append(Rejected(index, str(event)))
            else:
                # one line, whatever white space it came with
                lines.append(
                    part if b"\n" not in part and b"\r" not in part else msgspec.json.format(part, indent=-1)
                )
        end = self.log.end
        if lines:
            end = self.log.append(lines, self._learnt)
            self._waiting.append((end, time.monotonic()))
        self.received["accepted"] += len(lines)
        self.received["rejected"] += len(rejected)
        status = "ok" if not rejected else "partial" if lines else "rejected"
        took = round(1000 * (time.perf_counter() - began))
        return Receipt(status, len(lines), rejected, took, offset=end)

    def _events(self, body: bytes) -> list[tuple[bytes, Any]]:
        found: list[tuple[bytes, Any]] = []
        for part in parts(body):
            if part[:1] == b"{":
                found.append((part, self._decoder.decode(part)[0]))
            else:
                what = "it is empty" if not part else f"it begins with {part[:10]!r}"
                found.append(
                    (part, MalformedEvent("not-json", what, fix="Send a JSON object for each event"))
                )
        return found

    def _committed(self, report: Report) -> None:
        self._learnt = report.offset
        while self._waiting and self._waiting[0][0] <= report.offset:
            self._waiting.popleft()
        self.live.wake()

    # -- how it goes ---------------------------------------------------------------------------------------

    @property
    def lag_ms(self) -> float:
        """How long the oldest event not yet learnt has waited."""
        try:
            return 1000 * (time.monotonic() - self._waiting[0][1])
        except IndexError:
            return 0.0

    def not_ready(self) -> str:
        """Why no traffic should come; empty when it may."""
        if self.live.failure:
            return f"the state cannot be read: {self.live.failure}"
        if not self.worker.alive:
            return "the worker is not running; it is being started again"
        if self.lag_ms > self.settings.serve.max_lag_ms:
            return f"learning lags {self.lag_ms / 1000:.0f} s behind; serve.max_lag_ms allows less"
        return ""

    def snapshot(self, path: Path) -> None:
        """Write the state of all shards to a file."""
        with open_store(self.settings.store, self.settings) as store:
            configs = {
                shard: decode(config)
                for shard in store.shards()
                if (config := store.get(shard, "config")) is not None
            }
            write_snapshot(path, store, config_json=msgspec.json.encode(configs).decode())

    def now(self) -> dict[str, Any]:
        """Everything the page shows, as of this moment; numbers that are not known are null."""
        served, live = self.live.served, self.live
        counts = served.counts if served else {}
        models: dict[str, dict[str, Any]] = {}
        for name in live.models:
            models[name] = {"learner": "", "quality": {}, **self.latencies.quantiles(name)}
            if served:
                learner = served.learners[name]
                models[name]["learner"] = type(learner).__name__
                models[name]["quality"] = _quality(served.shards.values(), name)
                if isinstance(learner, EGDM):
                    models[name]["spectrum"] = dict(learner.spectrum()._asdict())
        last = self.worker.last
        return {
            "time": time.time(),
            "version": served.version if served else "none",
            "degraded": live.failure or (not served or not served.learnt),
            "model_age_s": time.time() - live.loaded_at,
            "events": dict(counts),
            "received": dict(self.received),
            "lag_ms": self.lag_ms,
            "lag_bytes": max(self.log.end - self._learnt, 0),
            "worker": {
                "alive": self.worker.alive,
                "restarts": max(self.worker.restarts, 0),
                "learn_seconds": last.learn_seconds if last else 0.0,
                "commit_seconds": last.commit_seconds if last else 0.0,
            },
            "models": models,
            "shards": {
                name: {
                    "offset": shard.standing.offset,
                    "epoch": shard.standing.epoch,
                    "events": shard.flow.counts["events"],
                    "judged": shard.flow.counts["judged"],
                    "rejected": shard.flow.counts["rejected"],
                    "duplicates": shard.flow.counts["duplicates"],
                    "late": shard.flow.counts["late"],
                }
                for name, shard in (served.shards.items() if served else ())
            },
        }

    def _sample(self) -> None:
        while not self._stop.wait(1.0):
            self.points.append(self.now())

    def close(self) -> None:
        """End the worker in order, then the rest."""
        self._stop.set()
        self._sampler.join()
        self.worker.close()
        self.live.close()
        self.log.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


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


def _quality(shards: Any, model: str) -> dict[str, float]:
    """Of the last lists of each shard, weighted by how many it judged; without the names that have none."""
    sums: dict[str, float] = {}
    weights: dict[str, float] = {}
    for shard in shards:
        for one in shard.flow.models:
            if one.name == model:
                for name, value in one.history.recent(8).items():
                    if value == value:
                        n = shard.flow.counts["judged"]
                        sums[name] = sums.get(name, 0.0) + n * value
                        weights[name] = weights.get(name, 0.0) + n
    return {name: sums[name] / weights[name] for name in sums if weights[name]}
