"""What the server does, apart from HTTP: rank, take feedback in, reconcile, say how it goes."""

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
from ..events.types import Event
from ..sources.feedback import SHARD
from ..state import open_store
from ..state.snapshot import write_snapshot
from ..state.values import decode
from .answers import Answer, Comparison, Receipt, RecommendRequest, Rejected
from .bodies import parts
from .comparison import check_challenger, comparison
from .embedded import Embedded, log_folder
from .feed import Feed
from .kafka import TopicFeed
from .latency import Latencies
from .live import Live
from .status import learnt, trained
from .training import Training

MAX_POINTS = 900  # of the charts: a quarter of an hour, a second each


class Service:
    """A store, its live models, where feedback goes, and what learns from it."""

    def __init__(self, settings: Settings) -> None:
        check_challenger(settings)
        self.settings = settings
        serve = settings.serve
        self.requests = Decoder(max_bytes=serve.max_bytes, max_items=settings.events.max_items)
        self._decoder = Decoder(max_bytes=settings.events.max_bytes, max_items=settings.events.max_items)
        self.received: dict[str, int] = {"accepted": 0, "rejected": 0}
        self.latencies = Latencies()
        self.points: deque[dict[str, Any]] = deque(maxlen=MAX_POINTS)
        self.live = Live(settings=settings)
        self.feed: Feed = (
            TopicFeed(settings, self.live)
            if serve.feedback == "kafka"
            else Embedded(settings, self.live.wake)
        )
        self.training = Training(settings, log_folder(settings) if serve.feedback == "log" else None)
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

    def recommend(self, name: str, body: bytes) -> Answer | MalformedEvent:
        """Answer a request to recommend."""
        began = time.perf_counter()
        try:
            request = msgspec.json.decode(body, type=RecommendRequest)
        except msgspec.DecodeError as error:
            fix = 'Send {"user": "u1", "count": 10, "exclude": ["i7"]}; user alone is needed'
            return MalformedEvent("no-request", str(error), fix=fix)
        answer = self.live.recommend(name, request)
        self.latencies.add(name, time.perf_counter() - began)
        return answer

    def feedback(self, body: bytes) -> Receipt:
        """Take in JSON lines, an array or one object; returns when what is accepted is on disk."""
        began = time.perf_counter()
        taken: list[tuple[bytes, Event]] = []
        rejected: list[Rejected] = []
        for index, (part, event) in enumerate(self._events(body)):
            if isinstance(event, MalformedEvent):
                rejected.append(Rejected(index, str(event)))
            else:
                # one line, whatever white space it came with
                whole = b"\n" not in part and b"\r" not in part
                taken.append((part if whole else msgspec.json.format(part, indent=-1), event))
        offset = self.feed.send(taken)
        self.received["accepted"] += len(taken)
        self.received["rejected"] += len(rejected)
        status = "ok" if not rejected else "partial" if taken else "rejected"
        took = round(1000 * (time.perf_counter() - began))
        return Receipt(status, len(taken), rejected, took, offset=offset)

    def _events(self, body: bytes) -> list[tuple[bytes, Event | MalformedEvent]]:
        found: list[tuple[bytes, Event | MalformedEvent]] = []
        for part in parts(body):
            if part[:1] == b"{":
                found.append((part, self._decoder.decode(part)[0]))
            else:
                what = "it is empty" if not part else f"it begins with {part[:10]!r}"
                found.append(
                    (part, MalformedEvent("not-json", what, fix="Send a JSON object for each event"))
                )
        return found

    def flush(self) -> Receipt | None:
        """Wait until rankings know of all that was sent before; None if that takes longer than a request may.

        Nothing is closed early, as a click is learnt when it comes.
        """
        began, target = time.perf_counter(), self.feed.send([])
        while not self._has_learnt(target):
            if 1000 * (time.perf_counter() - began) > self.settings.serve.timeout_ms:
                return None
            time.sleep(0.002)
        return Receipt("ok", 0, [], round(1000 * (time.perf_counter() - began)), offset=target)

    def _has_learnt(self, offset: int) -> bool:
        if not offset:
            return not self.feed.behind
        served = self.live.served
        return (
            served is not None and SHARD in served.shards and served.shards[SHARD].standing.offset >= offset
        )

    def train(self, model: str) -> dict[str, Any]:
        """Reconcile a model with all of the feedback log. `ConfigError`: no such model; `Busy`: not now."""
        if model not in self.live.models:
            raise ConfigError(f"there is no model {model!r}; there are: {', '.join(self.live.models)}")
        result = self.training.train(model)
        self.live.wake()
        return trained(self.live.served, model, result)

    # -- how it goes ---------------------------------------------------------------------------------------

    def not_ready(self) -> str:
        """Why no traffic should come; empty when it may."""
        if self.live.failure:
            return f"the state cannot be read: {self.live.failure}"
        if trouble := self.feed.trouble():
            return trouble
        lag_ms = self.feed.lag_ms
        if lag_ms > self.settings.serve.max_lag_ms:
            return f"learning lags {lag_ms / 1000:.0f} s behind; serve.max_lag_ms allows less"
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
        return {
            **learnt(self.live, self.latencies),
            "received": dict(self.received),
            "lag_ms": self.feed.lag_ms,
            "lag": self.feed.behind,
            "worker": self.feed.status(),
        }

    def comparison(self) -> Comparison | None:
        """How the challenger does against the champion; None where nobody challenges."""
        return comparison(self.live.served, self.settings.serve.challenger)

    def _sample(self) -> None:
        while not self._stop.wait(1.0):
            self.points.append(self.now())

    def close(self) -> None:
        """End the worker in order, then the rest."""
        self._stop.set()
        self._sampler.join()
        self.training.close()
        self.feed.close()
        self.live.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()
