"""Microseconds a list, by learner; SONG one list at a time and many at once, beside LibAUC's.

CPU time of this process, so that a busy machine tells about the same; the best of some repeats. Where LibAUC
is installed, its step is measured in turn with ours: the same machine may be half as fast a minute later.
"""

import importlib.util
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
    print("a list of 40 x 136; LibAUC's step as measured elsewhere, and here where it is installed")
    for name, params in [("song", {}), ("ksong", {}), ("song", {"hidden": 32})]:
        label = name + "".join(f" {k}={v}" for k, v in params.items())
        one, many = (
            [lists(1, 40, 136, seed) for seed in range(300)],
            [lists(256, 40, 136, seed) for seed in range(3)],
        )
        print(f"  {label:16} one by one " + beside(build(name, params), one, 1))
        print(f"  {'':16} 256 at once " + beside(build(name, params), many, 256))


def beside(ranker: Ranker, batches: list[Batch], at_once: int) -> str:
    """Our microseconds a list beside those of LibAUC's step on so many lists."""
    works = {"ours": learner(ranker, batches)}
    n_lists = {"ours": sum(batch.n_lists for batch in batches)}
    if importlib.util.find_spec("libauc") is not None:
        works["libauc"], n_lists["libauc"] = libauc(batches), n_lists["ours"]
    for work in works.values():
        work()  # compiles, and meets every query
    took = dict.fromkeys(works, float("inf"))
    for _ in range(REPEATS):
        for name, work in works.items():
            took[name] = min(took[name], 1e6 * seconds(work) / n_lists[name])
    elsewhere = LIBAUC[at_once] / at_once
    ours = took["ours"]
    found = f"{ours:6.1f} us a list; LibAUC elsewhere {elsewhere:.1f}: {elsewhere / ours:.2f} times"
    if "libauc" in took:
        found += f"; here {took['libauc']:.1f}: {took['libauc'] / ours:.2f} times"
    return found


def libauc(batches: list[Batch]) -> Callable[[], None]:
    """LibAUC's step of SONG on the same lists: a linear score, Adam, one thread."""
    import torch
    from libauc.losses import NDCGLoss
    from libauc.optimizers import SONG

    torch.set_num_threads(1)
    shown = int(batches[0].lists[1])
    columns = int(batches[0].indptr[1])
    positive = 10  # rows that it takes for relevant, which come first
    model = torch.nn.Linear(columns, 1)
    loss = NDCGLoss(QUERIES * ITEMS, QUERIES, ITEMS, positive, gamma0=0.1, topk=-1)
    optimiser = SONG(model.parameters(), lr=0.01, mode="adam")
    steps = []
    for batch in batches:
        n = batch.n_lists
        order = np.argsort(-batch.y.reshape(n, shown), axis=1)
        X = np.take_along_axis(batch.values.reshape(n, shown, columns), order[:, :, None], axis=1)
        ratings = np.take_along_axis(batch.y.reshape(n, shown), order, axis=1)
        items = np.take_along_axis(batch.items.reshape(n, shown), order, axis=1)
        users = np.array([int(query[1:]) for query in batch.queries])
        told = {
            "rating": torch.tensor(ratings, dtype=torch.float32),
            "user_id": torch.tensor(users),
            "num_pos_items": torch.full((n,), positive),
            "ideal_dcg": torch.tensor(np.maximum(ratings, 1.0).sum(axis=1), dtype=torch.float32),
            "user_item_id": torch.tensor(users[:, None] * ITEMS + items),
        }
        steps.append((torch.tensor(X, dtype=torch.float32), told))

    def learn() -> None:
        for X, told in steps:
            value = loss(model(X).squeeze(-1), told)
            optimiser.zero_grad()
            value.backward()
            optimiser.step()

    return learn


def hidden() -> list[tuple[str, dict[str, Any]]]:
    """Some learners with a hidden layer."""
    return [
        (name, {"hidden": units}) for units in (16, 32) for name in ("ranknet", "listnet", "song", "ksong")
    ]


def learning(ranker: Ranker, batches: list[Batch]) -> float:
    """Microseconds a list."""
    learn = learner(ranker, batches)
    learn()  # compiles, and meets every query
    return 1e6 * min(seconds(learn) for _ in range(REPEATS)) / sum(batch.n_lists for batch in batches)


def learner(ranker: Ranker, batches: list[Batch]) -> Callable[[], None]:
    """Learns them all."""

    def learn() -> None:
        for batch in batches:
            ranker.learn_batch(batch)

    return learn


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
