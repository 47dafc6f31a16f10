"""A live worker: what a commit takes, how soon a click is served, and what a second worker brings."""

import os
import random
import statistics
import subprocess
import sys
import time
import uuid
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing, contextmanager
from typing import Any

import msgspec

from streamrank.events.codec import Decoder
from streamrank.events.types import Interaction, Ranking
from streamrank.serve.live import Live
from streamrank.sources.topics import open_outbox
from streamrank.state import Store

from .replay import Log
from .topics import Bench

LEARNT_BEFORE, WARM, PARTITIONS, PATIENCE_S = 2000, 400, 4, 60.0


def commits(bench: Bench, log: Log) -> None:
    """What the store takes for the commits of a worker."""
    took: list[float] = []
    with bench.worker(bench.settings(bench.topic(log), commit_every=1000)) as worker:
        commit = worker.store.commit

        def noted(*args: Any, **kwargs: Any) -> None:
            began = time.perf_counter()
            commit(*args, **kwargs)
            took.append(1000 * (time.perf_counter() - began))

        worker.store.commit = noted
        worker.run(lambda: worker.counts["records"] >= len(log))
    print(
        f"a commit to Redis (everysec), one in {len(log) // len(took)} events: median "
        f"{statistics.median(took):.1f} ms, at most {max(took):.1f} ms"
    )


def served(bench: Bench, named: Log, commit_ms: int, clicks: int) -> None:
    """From a click sent to Kafka until a server that watches Redis ranks by it.

    Each is sent at a random time after the commit of the last, up to `commit_ms`, as clicks of a busy topic
    come.
    """
    decoder, waits, chance = Decoder(), [], random.Random(1)
    events = [decoder.decode(record)[0] for record in named]
    probe = next(event for event in events if isinstance(event, Ranking))
    stamp = max(event.time_ms for event in events)
    topic = bench.topic(named[:LEARNT_BEFORE])
    settings, shard = bench.settings(topic, commit_ms=commit_ms), f"{topic}[0]"
    with (
        bench.store(settings) as (url, store),
        workers(bench, topic, url, 1, STREAMRANK_COMMIT_MS=str(commit_ms)),
        closing(open_outbox(settings.kafka)) as outbox,
    ):
        wait(lambda: store.offset(shard) >= LEARNT_BEFORE)
        with Live(url, settings) as live:
            for n in range(clicks):
                time.sleep(chance.random() * commit_ms / 1000)
                shown = msgspec.structs.replace(probe, id=f"probe{n}", timestamp=stamp + 2 * n)
                item = probe.items[n % len(probe.items)].id
                click = Interaction(
                    id=f"click{n}", timestamp=stamp + 2 * n + 1, ranking=shown.id, item=item, type="click"
                )
                before, began = scores(live, probe), time.perf_counter()
                outbox.send(topic, msgspec.json.encode(shown))
                outbox.send(topic, msgspec.json.encode(click))
                outbox.flush()
                wait(lambda before=before: scores(live, probe) != before)
                waits.append(1000 * (time.perf_counter() - began))
    waits.sort()
    print(
        f"click to served weight, commit_ms = {commit_ms}: p50 {statistics.median(waits):.0f} ms, "
        f"p99 {waits[int(0.99 * clicks)]:.0f} ms ({clicks} clicks one by one)",
        flush=True,
    )


def two(bench: Bench, log: Log) -> None:
    """Two workers against one, as processes, from when each has its share of the partitions."""
    rate = {1: 0.0, 2: 0.0}
    for n in (1, 2) * 2:
        topic = bench.topic(log[:WARM], PARTITIONS)
        shards, settings = [f"{topic}[{p}]" for p in range(PARTITIONS)], bench.settings(topic, "confluent")
        with (
            bench.store(settings) as (url, store),
            workers(bench, topic, url, n),
            closing(open_outbox(settings.kafka)) as outbox,
        ):

            def stand(store: Store = store, shards: list[str] = shards) -> int:
                return sum(store.offset(shard) for shard in shards)

            def owners(store: Store = store, shards: list[str] = shards) -> int:
                return len({store.standing(shard).owner for shard in shards})

            wait(lambda n=n, stand=stand, owners=owners: stand() == WARM and owners() == n)
            began = time.perf_counter()
            for k, record in enumerate(log[WARM:]):
                outbox.send(topic, record, partition=k % PARTITIONS)
            outbox.flush()
            wait(lambda stand=stand: stand() == len(log))
            rate[n] = max(rate[n], (len(log) - WARM) / (time.perf_counter() - began))
    print(
        f"{PARTITIONS} partitions of named JSON: one worker {rate[1]:.0f} events/s, two {rate[2]:.0f}, "
        f"{rate[2] / rate[1]:.2f} x, on {os.cpu_count()} cores with producer, broker and Redis"
    )


def scores(live: Live, ranking: Ranking) -> dict[str, float]:
    """What is served now."""
    return {ranked.item: ranked.score for ranked in live.rank("default", ranking).items}


@contextmanager
def workers(bench: Bench, topic: str, url: str, n: int, **environ: str) -> Iterator[None]:
    """As many processes that consume a topic, in a group of their own."""
    command = [sys.executable, "-m", "streamrank", "consume", "clicks", "--kafka", bench.broker.address]
    command += ["--topic", topic, "--group", uuid.uuid4().hex, "--store", url]
    quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
    with ExitStack() as stack:
        for _ in range(n):
            process = subprocess.Popen(command, env={**os.environ, **environ}, **quiet)
            stack.callback(process.wait)
            stack.callback(process.kill)
        yield


def wait(holds: Callable[[], bool]) -> None:
    """Until it is true."""
    deadline = time.monotonic() + PATIENCE_S
    while not holds():
        if time.monotonic() > deadline:
            raise TimeoutError("the workers do not get there")
        time.sleep(0.005)
