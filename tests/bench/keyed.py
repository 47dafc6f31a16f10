"""Five million values kept by query and item (SONG): memory, learning, commits to SQLite, loading."""

import os
import tempfile
import time
from pathlib import Path

import numpy as np

from streamrank.features.batch import Batch
from streamrank.learners.song import SONG
from streamrank.pipeline.memory import learner_changes
from streamrank.state import Store, open_store
from streamrank.state.values import decode

QUERIES, ITEMS, SHOWN, COLUMNS = 50_000, 100, 10, 4
DIRTY = 10_000  # values that a commit has to write


def main() -> None:
    """Fill a memory, commit it, then what a stream changes; load it again."""
    rng = np.random.default_rng(3)
    ranker = SONG(max_queries=QUERIES, max_items=ITEMS)
    ranker.learn_batch(impressions(rng, rng.integers(QUERIES, size=10)))  # compiles
    before = resident()
    began = time.perf_counter()
    # every query with all its items, ten at a time and in turns, so that what is one query's lies far apart
    for part in range(ITEMS // SHOWN):
        order = rng.permutation(QUERIES)
        for some in np.array_split(order, 25):
            ranker.learn_batch(impressions(rng, some, part))
    seconds = time.perf_counter() - began
    n = len(ranker._keyed)
    lists = QUERIES * ITEMS // SHOWN
    print(f"{n:,} values of {QUERIES:,} queries: {(resident() - before) / n:.1f} bytes a value, all in all")
    print(f"filled at {1e6 * seconds / lists:.1f} us a list of {SHOWN} x {COLUMNS}", end="")
    again = [impressions(rng, rng.integers(QUERIES, size=2000)) for _ in range(5)]
    began = time.perf_counter()
    for batch in again:
        ranker.learn_batch(batch)
    print(f"; {1e6 * (time.perf_counter() - began) / 10_000:.1f} us once all are known")
    with tempfile.TemporaryDirectory() as folder:
        url = f"sqlite:///{Path(folder) / 's.db'}"
        with open_store(url) as store:
            epoch, at = store.acquire("s"), 0

            def commit(what: str) -> None:
                nonlocal at
                began = time.perf_counter()
                writes = learner_changes("m", ranker)
                encoded = time.perf_counter() - began
                store.commit("s", epoch, writes, start=at, end=at + 1)
                at += 1
                total = time.perf_counter() - began
                size = sum(len(value) for value in writes.values() if value is not None)
                print(f"commit of {what}: {total:.3f} s ({encoded:.3f} of it to gather {size / 1e6:.1f} MB)")

            commit("all of it")
            for queries in (DIRTY // ITEMS, DIRTY // SHOWN):
                ranker.learn_batch(impressions(rng, touched(rng, queries)))
                commit(f"{DIRTY:,} changed values of {queries} queries")
        with open_store(url) as store:
            load(store, ranker)


def touched(rng: np.random.Generator, queries: int) -> np.ndarray:
    """As many lists as change `DIRTY` values of so many queries."""
    return np.repeat(rng.choice(QUERIES, queries, replace=False), DIRTY // SHOWN // queries)


def load(store: Store, ranker: SONG) -> None:
    """Read it back into a new learner."""
    began = time.perf_counter()
    entries, _ = store.read("s")
    read = time.perf_counter() - began
    state = {key.removeprefix("model/m/"): decode(value) for key, value in entries.items()}
    decoded = time.perf_counter() - began - read
    again = SONG(max_queries=QUERIES, max_items=ITEMS)
    again._keyed.from_state(state)
    seconds = time.perf_counter() - began
    assert len(again._keyed) == len(ranker._keyed)
    print(f"loaded in {seconds:.1f} s: read {read:.1f}, decoded {decoded:.1f}, taken up the rest")


def impressions(rng: np.random.Generator, queries: np.ndarray, part: int | None = None) -> Batch:
    """A list a query: ten of its items at random, or those of a part."""
    n = len(queries)
    items = rng.integers(ITEMS, size=(n, SHOWN)) if part is None else np.arange(SHOWN) + part * SHOWN
    keys = np.broadcast_to(items, (n, SHOWN)).ravel() + 1_000_003 * np.repeat(queries, SHOWN)
    rows = n * SHOWN
    none = np.zeros(0, dtype=np.int32)
    return Batch(
        indptr=np.arange(rows + 1) * COLUMNS,
        indices=np.tile(np.arange(COLUMNS, dtype=np.int32), rows),
        values=rng.normal(size=rows * COLUMNS),
        lists=np.arange(n + 1) * SHOWN,
        y=(rng.random(rows) < 0.3).astype(float),
        c=np.ones(rows),
        mode=np.zeros(n, dtype=np.int8),
        pairs=np.zeros(n + 1, dtype=np.int64),
        better=none,
        worse=none,
        pair_c=np.zeros(0),
        queries=tuple(f"q{q}" for q in queries.tolist()),
        items=keys.astype(np.int64),
    )


def resident() -> int:
    """Bytes of this process in memory."""
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


if __name__ == "__main__":
    main()
