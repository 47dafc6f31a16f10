"""Microseconds a list, by learner; SONG one list at a time and many at once, beside LibAUC's.

CPU time of this process, so that a busy machine tells about the same; the best of some repeats.
"""

import time
from collections.abc import Callable
from typing import Any

import numpy as np

from streamrank.features.batch import Batch
from streamrank.learners.base import Ranker
from streamrank.learners.registry import LEARNERS, build

REPEATS = 7
MOST = 25.0  # us a list of 10 x 46 that a learner may take
QUERIES, ITEMS = 300, 40  # known to learners that remember them
# a step of SONG in LibAUC (torch, 1 thread), as measured elsewhere: us for so many lists of 40 x 136
LIBAUC = {1: 1108.0, 256: 4768.0}


def main() -> None:
    """The table of all learners, then SONG at the size that LibAUC was measured at."""
    batch = lists(2000, 10, 46)
    print("us a list of 10 x 46, 2000 at a time")
    for name, params in [(name, {}) for name in sorted(LEARNERS)] + hidden():
        took = learning(build(name, params), [batch])
        over = "" if took <= MOST else f", above {MOST:.0f}"
        print(f"  {name + ''.join(f' {k}={v}' for k, v in params.items()):22} {took:6.1f}{over}", flush=True)
    print("a list of 40 x 136; LibAUC's step as measured elsewhere")
    for name, params in [("song", {}), ("ksong", {}), ("song", {"hidden": 32})]:
        label = name + "".join(f" {k}={v}" for k, v in params.items())
        one = learning(build(name, params), [lists(1, 40, 136, seed) for seed in range(300)])
        many = learning(build(name, params), [lists(256, 40, 136, seed) for seed in range(3)])
        print(
            f"  {label:16} one by one {one:6.1f} us, LibAUC {LIBAUC[1]:.0f}: {LIBAUC[1] / one:.0f} times",
            end="",
        )
        print(
            f"; 256 at once {many:6.1f} us a list ({1000 * many / 40:.0f} ns a document), "
            f"LibAUC {LIBAUC[256] / 256:.1f}: {LIBAUC[256] / 256 / many:.2f} times"
        )


def hidden() -> list[tuple[str, dict[str, Any]]]:
    """Some learners with a hidden layer."""
    return [
        (name, {"hidden": units}) for units in (16, 32) for name in ("ranknet", "listnet", "song", "ksong")
    ]


def learning(ranker: Ranker, batches: list[Batch]) -> float:
    """Microseconds a list."""

    def learn() -> None:
        for batch in batches:
            ranker.learn_batch(batch)

    learn()  # compiles, and meets every query
    return 1e6 * min(seconds(learn) for _ in range(REPEATS)) / sum(batch.n_lists for batch in batches)


def seconds(work: Callable[[], None]) -> float:
    """Of the processor."""
    began = time.process_time()
    work()
    return time.process_time() - began


def lists(n: int, shown: int, columns: int, seed: int = 3) -> Batch:
    """Dense lists of some items each, of queries that come again."""
    rng = np.random.default_rng(seed)
    rows = n * shown
    X = rng.normal(size=(rows, columns))
    none = np.zeros(0, dtype=np.int32)
    return Batch(
        indptr=np.arange(rows + 1) * columns,
        indices=np.tile(np.arange(columns, dtype=np.int32), rows),
        values=X.ravel(),
        lists=np.arange(n + 1) * shown,
        y=np.digitize(X[:, :5].sum(axis=1) + rng.normal(size=rows), [1.5, 3.5]).astype(float),
        c=np.ones(rows),
        mode=np.zeros(n, dtype=np.int8),
        pairs=np.zeros(n + 1, dtype=np.int64),
        better=none,
        worse=none,
        pair_c=np.zeros(0),
        queries=tuple(f"q{q}" for q in rng.integers(QUERIES, size=n).tolist()),
        items=rng.random((n, ITEMS)).argsort(axis=1)[:, :shown].ravel().astype(np.int64),
    )


if __name__ == "__main__":
    main()
