"""A reconciliation of five times its memory: peak, and seconds a step.

Lists are made as they are asked for, so what is held is what the reconciliation holds: blocks on disk, and a
sample to measure by. In a process of its own, whose peak is read off.
"""

import multiprocessing
import tempfile
import time
from collections.abc import Iterator
from typing import Any

import numpy as np

from streamrank.config import FeatureSettings, ModelSettings, ReconcileSettings, Settings
from streamrank.features.batch import Batch
from streamrank.pipeline.learnt import Learnt
from streamrank.pipeline.reconcile import reconcile
from streamrank.sources.blockfile import MB
from streamrank.state import open_store
from streamrank.state.values import encode

from .solvers import peak

BUDGET_MB, TIMES = 400, 5
COLUMNS, LIST, STORED, LISTS = 20_000, 20, 60, 500  # of a list: rows; of a row: values; of a piece: lists
PIECES = TIMES * BUDGET_MB * MB // (LISTS * LIST * STORED * 12)
MODEL = ModelSettings(name="online", learner="ranknet", params={"rate": 0.0005})


class Made:
    """Seeded lists in which the best one or two of a noisy taste were clicked."""

    def lists(self, *_: Any) -> Iterator[Learnt]:
        taste, m = np.random.default_rng(99).standard_normal(COLUMNS), LISTS * LIST
        none = np.zeros(0, np.int32)
        for k in range(PIECES):
            rng = np.random.default_rng(k)
            columns = np.sort(rng.integers(0, COLUMNS, (m, STORED)), axis=1).astype(np.int32)
            values = rng.random((m, STORED))
            scores = ((values * taste[columns]).sum(1) + 3 * rng.standard_normal(m)).reshape(LISTS, LIST)
            y = (scores >= np.sort(scores, 1)[:, -2:-1]).astype(float).ravel()
            batch = Batch(
                np.arange(0, m * STORED + 1, STORED), columns.ravel(), values.ravel(),
                np.arange(0, m + 1, LIST), y, y, np.zeros(LISTS, np.int8), np.zeros(LISTS + 1, np.int64),
                none, none, np.zeros(0), ("",) * LISTS,
            )  # fmt: skip
            number = np.arange(k * LISTS, (k + 1) * LISTS)
            yield Learnt(batch, number, number, k * LISTS, [()] * LISTS)

    def first(self, _: str) -> int:
        return 0

    def note(self, *_: Any) -> None:
        return None


def run() -> None:
    """Reconcile, and print what it took."""
    bare, total = peak(), PIECES * LISTS
    with tempfile.TemporaryDirectory() as folder, open_store("memory://") as store:
        settings = Settings(
            models=[MODEL],
            features=FeatureSettings(mode="hashed", bits=15),
            reconcile=ReconcileSettings(memory_mb=BUDGET_MB, folder=folder),
        )
        entries = {"config": settings.learning(), "counts": {"learnt": total}, "last": "", "source": ""}
        store.commit("0", store.acquire("0"), {k: encode(v) for k, v in entries.items()}, start=0, end=total)
        times: list[float] = []
        began = time.perf_counter()
        report = reconcile(
            store, Made(), settings, swap=False, watch=lambda *_: times.append(time.perf_counter())
        )
    size = total * LIST * STORED * 12 / MB
    print(f"{total} lists, {size:.0f} MB, {size / BUDGET_MB:.1f} x reconcile.memory_mb = {BUDGET_MB}")
    print(f"  peak {peak():.0f} MB, {peak() / BUDGET_MB:.2f} x that (interpreter alone {bare:.0f} MB)")
    print(
        f"  gathered and learnt again in {times[0] - began:.0f} s, then {np.diff(times).mean():.2f} s a step"
    )
    print(f"  pairwise error online {report['drift']['pairwise_error_online']:.4f}, ", end="")
    print(f"optimal {report['drift']['pairwise_error_optimal']:.4f}")


def main() -> None:
    """In a process of its own."""
    process = multiprocessing.get_context("spawn").Process(target=run)
    process.start()
    process.join()


if __name__ == "__main__":
    main()
