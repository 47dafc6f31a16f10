"""EGDM by statistics beside river's LinearRegression: microseconds a document, by arrays and by dicts."""

import time
from collections.abc import Callable

import numpy as np
from river import linear_model, optim

from streamrank.features.batch import BatchBuilder, Rows
from streamrank.learners.egdm import EGDM

LISTS, ROWS, COLUMNS = 2000, 10, 46
REPEATS = 9


def main() -> None:
    """Print microseconds a document, best of some repeats that take turns, and ratios to river."""
    rng = np.random.default_rng(3)
    X = rng.random((LISTS * ROWS, COLUMNS))
    y = rng.integers(0, 3, LISTS * ROWS).astype(float)
    builder = BatchBuilder()
    for q in range(LISTS):
        part = slice(q * ROWS, (q + 1) * ROWS)
        rows = Rows(ROWS, np.arange(COLUMNS, dtype=np.int32), X[part].ravel())
        builder.add(rows, y[part].tolist(), [1.0] * ROWS)
    batch = builder.build()
    names = [f"f{j}" for j in range(COLUMNS)]
    dicts = [dict(zip(names, row, strict=True)) for row in X[: LISTS * ROWS // 10].tolist()]
    labels = y[: len(dicts)].tolist()

    def river() -> None:
        model = linear_model.LinearRegression(optim.SGD(0.01))
        for x, label in zip(dicts, labels, strict=True):
            model.learn_one(x, label)

    def by_dicts() -> None:
        ranker = EGDM()
        for k in range(0, len(dicts), ROWS):
            ranker.learn_list(dicts[k : k + ROWS], labels[k : k + ROWS])

    def by_batch() -> None:
        EGDM().learn_batch(batch)

    best = _best({"river": river, "dicts": by_dicts, "batch": by_batch})
    documents = {"river": len(dicts), "dicts": len(dicts), "batch": len(X)}
    us = {name: 1e6 * seconds / documents[name] for name, seconds in best.items()}
    print(f"EGDM, lists of {ROWS} x {COLUMNS}, best of {REPEATS}, us a document:")
    print(f"  river LinearRegression.learn_one {us['river']:6.2f}")
    for name, call in (("dicts", "learn_list"), ("batch", "learn_batch")):
        print(f"  EGDM.{call:27s} {us[name]:6.2f}   {us['river'] / us[name]:5.1f} x river")


def _best(runs: dict[str, Callable[[], None]]) -> dict[str, float]:
    best = dict.fromkeys(runs, float("inf"))
    for run in runs.values():
        run()  # compiled, warm
    for _ in range(REPEATS):
        for name, run in runs.items():
            began = time.perf_counter()
            run()
            best[name] = min(best[name], time.perf_counter() - began)
    return best


if __name__ == "__main__":
    main()
