"""Fenced commits and reads of Redis under each durability, beside SQLite: medians of one run, in ms."""

import os
import statistics
import tempfile
import time
from collections.abc import Callable, Mapping
from pathlib import Path

from streamrank.state import Store, open_store
from tests.servers import Unavailable
from tests.servers.redis import Server

DURABILITY = {
    "redis, no AOF": {"appendonly": "no"},
    "redis, everysec": {"appendonly": "yes", "appendfsync": "everysec"},
    "redis, always": {"appendonly": "yes", "appendfsync": "always"},
}
REPEATS = 15
ROWS = {f"model/m/u/{n}": os.urandom(24) for n in range(10_000)}
WEIGHTS = {"model/m/w": os.urandom(377_000)}


def main() -> None:
    """A row a store."""
    print(f"{'ms':16} {'offset':>8} {'377 KB':>8} {'10k rows':>8} {'both':>8} {'read both':>10}")
    with tempfile.TemporaryDirectory() as folder, open_store(f"sqlite:///{Path(folder) / 's.db'}") as store:
        measure("sqlite", store)
    for name, options in DURABILITY.items():
        try:
            server = Server(**options)
        except Unavailable as error:
            print(f"{name}: {error}")
            return
        try:
            with open_store(server.url) as store:
                measure(name, store)
        finally:
            server.stop()


def measure(name: str, store: Store) -> None:
    """One line of the table."""
    epoch, at = store.acquire("s"), 0

    def commit(writes: Mapping[str, bytes]) -> None:
        nonlocal at
        store.commit("s", epoch, writes, start=at, end=at + 1)
        at += 1

    columns = [median(lambda writes=writes: commit(writes)) for writes in ({}, WEIGHTS, ROWS, WEIGHTS | ROWS)]
    columns.append(median(lambda: store.read("s")))
    print(f"{name:16} " + " ".join(f"{ms:8.2f}" for ms in columns[:-1]) + f" {columns[-1]:10.2f}", flush=True)


def median(work: Callable[[], object]) -> float:
    """Milliseconds, the first call left out."""
    work()
    took = []
    for _ in range(REPEATS):
        began = time.perf_counter()
        work()
        took.append(1000 * (time.perf_counter() - began))
    return statistics.median(took)
