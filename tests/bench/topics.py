"""A broker and a Redis to measure on: topics made of logs, read by the bare client or by a whole worker."""

import time
import uuid
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from typing import Any

from streamrank.config import Settings, load_settings
from streamrank.pipeline.worker import Worker
from streamrank.sources.topics import open_outbox, open_topic
from streamrank.state import Store, open_store
from tests.servers.kafka import Broker
from tests.servers.redis import Server

from .replay import Log


class Stopwatch:
    """Seconds a record on the wall and of CPU: from the first batch, not counted, to the last of `n`."""

    def __init__(self, n: int) -> None:
        self.n, self.wall, self.cpu = n, 0.0, 0.0
        self._first, self._began = 0, (0.0, 0.0)

    def done(self, taken: int) -> bool:
        """To be asked after every batch."""
        now = time.perf_counter(), time.process_time()
        if taken and not self._first:
            self._first, self._began = taken, now
        if taken < self.n:
            return False
        self.wall, self.cpu = (
            (b - a) / (self.n - self._first) for a, b in zip(self._began, now, strict=True)
        )
        return True


class Bench:
    """A broker, a Redis that appends every second, and what is asked of them."""

    def __init__(self, broker: Broker, server: Server) -> None:
        self.broker, self.server = broker, server

    def settings(self, topic: str, client: str = "kafka-python", **more: Any) -> Settings:
        kafka = {"servers": self.broker.address, "topic": topic, "client": client}
        return load_settings(None, {}, base={"kafka": kafka, **more})

    def topic(self, records: Log, partitions: int = 1) -> str:
        """A new topic that holds them, dealt out over its partitions."""
        name = f"bench.{uuid.uuid4().hex[:8]}"
        with closing(open_outbox(self.settings(name, "confluent").kafka)) as outbox:
            outbox.make_topic(name, partitions)
            for n, record in enumerate(records):
                outbox.send(name, record, partition=n % partitions)
            outbox.flush()
        return name

    @contextmanager
    def store(self, settings: Settings) -> Iterator[tuple[str, Store]]:
        """A place of its own in Redis."""
        url = f"{self.server.url}?prefix={uuid.uuid4().hex}"
        with open_store(url, settings) as store:
            yield url, store

    @contextmanager
    def worker(self, settings: Settings) -> Iterator[Worker]:
        """One in this process, in a group of its own."""
        topic = settings.kafka.topic
        with (
            self.store(settings) as (_, store),
            closing(open_topic(settings.kafka, topic, uuid.uuid4().hex)) as reader,
        ):
            yield Worker(settings, store, reader, group="bench")

    def poll(self, topic: str, n: int, client: str) -> Stopwatch:
        """What the client alone takes for `n` records."""
        settings, taken, watch = self.settings(topic, client), 0, Stopwatch(n)
        with closing(open_topic(settings.kafka, topic, uuid.uuid4().hex)) as reader:
            while not any(what == "assigned" and partitions for what, partitions in reader.changes()):
                reader.poll(100)
            reader.resume(0, 0)
            while not watch.done(taken):
                taken += sum(map(len, reader.poll(200).values()))
        return watch

    def learn(self, topic: str, n: int, client: str, spent: dict[str, float] | None = None) -> Stopwatch:
        """The same with everything: decode, dedup, join, judge, score, learn, commit to Redis."""
        watch = Stopwatch(n)
        with self.worker(self.settings(topic, client)) as worker:
            if spent is not None:
                note(worker, spent)
            worker.run(lambda: watch.done(worker.counts["records"]))
            assert not worker.store.letters(f"{topic}[0]")
        return watch


def note(worker: Worker, spent: dict[str, float]) -> None:
    """Count the seconds that go into each part; what a step does beside learning is decoding and joining."""

    def noting(name: str, function: Callable[..., Any]) -> Callable[..., Any]:
        def wrapper(*args: Any, **kwargs: Any) -> Any:
            began = time.perf_counter()
            try:
                return function(*args, **kwargs)
            finally:
                spent[name] = spent.get(name, 0.0) + time.perf_counter() - began

        return wrapper

    opening = worker._open

    def opened(partition: int) -> None:
        opening(partition)
        flow = worker.shards[partition].flow
        flow.learn, flow.step = noting("learn", flow.learn), noting("step", flow.step)

    taking = worker._take

    def first(*args: Any) -> None:  # what came before was waiting for the group and the first fetch
        spent.clear()
        worker._take = taking
        taking(*args)

    worker._open, worker._take = opened, first
    worker.topic.poll = noting("poll", worker.topic.poll)
    worker.store.commit = noting("commit", worker.store.commit)
