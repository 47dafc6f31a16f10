"""The demo's visitors: they come to the server over HTTP, in threads, and note what they met."""

import threading
import time
from collections import deque
from collections.abc import Sequence
from typing import Any

import msgspec
import numpy as np

from ..errors import ServerRefused
from ..events.types import Item
from ..metrics.functions import ndcg
from ..serve.answers import Answer, Receipt
from ..serve.client import Client
from ..simulation.visitors import Visit, Visitors
from ..simulation.world import Case

PROBE_S = 0.25  # between two visitors who wait for what they clicked to show
KEPT = 100_000  # latencies remembered
PATIENCE_S = 10.0
READY_S = 300.0  # the first time, the kernels are compiled


class Crowd:
    """Visitors at `rate` a second, one after the other, and one who waits for its click to show."""

    def __init__(self, url: str, visitors: Visitors, rate: float) -> None:
        self._url, self.visitors, self._pause_s = url, visitors, 1.0 / rate
        self._turn = threading.Lock()  # one at a time draws from the world
        self._client = Client(url)
        self.visits = self.events = self.failed = 0
        self.rank_ms: deque[float] = deque(maxlen=KEPT)
        self.click_ms: deque[float] = deque(maxlen=KEPT)
        self._stop = threading.Event()
        self._threads = [threading.Thread(target=run, daemon=True) for run in (self._come, self._probe)]

    def begin(self) -> bool:
        """Tell the catalogue, let a few come until their clicks are learnt; False if that never happened."""
        self._client.feedback(self.visitors.catalogue(_now_ms()))
        receipt = None
        for _ in range(10):
            receipt = self._visit(self._client)[1]
        assert receipt is not None
        if not self._client.wait_until_learnt(receipt, READY_S):
            return False
        self.rank_ms.clear()
        for thread in self._threads:
            thread.start()
        return True

    def _visit(self, client: Client) -> tuple[Visit, Receipt]:
        with self._turn:
            visit = self.visitors.arrive()
        began = time.perf_counter()
        answer = _ranked(client, visit)
        self.rank_ms.append(1000 * (time.perf_counter() - began))
        with self._turn:
            events = self.visitors.look(visit, [one.item for one in answer.items], _now_ms())
        receipt = client.feedback(events)
        self.visits += 1
        self.events += receipt.accepted
        return visit, receipt

    def _come(self) -> None:
        with Client(self._url) as client:
            due = time.monotonic()
            while not self._stop.wait(max(due - time.monotonic(), 0.0)):
                due = max(due + self._pause_s, time.monotonic() - 1.0)
                try:
                    self._visit(client)
                    if broken := self.visitors.faults(_now_ms()):
                        client.feedback(broken)
                except ServerRefused as refused:
                    self.failed += refused.status != 400

    def _probe(self) -> None:
        with Client(self._url) as client:
            while not self._stop.wait(PROBE_S):
                began = time.perf_counter()
                try:
                    visit, receipt = self._visit(client)
                    # the total of the offsets comes first in a version, and here there is but one shard
                    while int(_ranked(client, visit).model_version.split("-")[0]) < receipt.offset:
                        if time.perf_counter() - began > PATIENCE_S:
                            break
                        time.sleep(0.002)
                    self.click_ms.append(1000 * (time.perf_counter() - began))
                except ServerRefused:
                    self.failed += 1

    def true_ndcg(self, cases: Sequence[Case]) -> float:
        """NDCG@10 against the truth of what the server answers on queries put aside."""
        values = []
        for ranking, relevance in cases:
            grade = dict(zip((item.id for item in ranking.items), relevance.tolist(), strict=True))
            answer = self._client.rank(ranking.items, query=ranking.query, fields=ranking.fields)
            values.append(_ndcg([grade[one.item] for one in answer.items]))
        return float(np.nanmean(values))

    def train(self) -> dict[str, Any] | str:
        """Reconcile; the report, or why not."""
        try:
            return self._client.train()
        except ServerRefused as refused:
            return refused.reason

    def leave(self) -> None:
        """Nobody comes any more."""
        self._stop.set()
        for thread in self._threads:
            if thread.is_alive():
                thread.join()

    def close(self) -> None:
        """Let go of the connections too."""
        self.leave()
        self._client.close()


def quantiles(values: Sequence[float]) -> dict[str, float]:
    """p50 and p99; zeros where there is nothing."""
    p50, p99 = np.quantile(list(values) or [0.0], [0.5, 0.99])
    return {"p50": round(float(p50), 2), "p99": round(float(p99), 2), "n": len(values)}


def shop_ndcg(cases: Sequence[Case]) -> float:
    """The same of the shop's own order."""
    return float(np.nanmean([_ndcg(relevance.tolist()) for _, relevance in cases]))


def _ndcg(grades: Sequence[float]) -> float:
    return ndcg(np.asarray(grades, dtype=np.float64), -np.arange(len(grades), dtype=np.float64), 10)


def _ranked(client: Client, visit: Visit) -> Answer:
    request = visit.request
    items = msgspec.convert(request["items"], list[Item])
    return client.rank(items, query=request["query"], user=request["user"], fields=request["fields"])


def _now_ms() -> int:
    return int(time.time() * 1000)
