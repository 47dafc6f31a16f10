"""More rows than memory, and than a machine: blocks mapped from disk, and over two Dask workers.

A set of five times the budget is written and solved in a process of its own, whose peak is read off; the same
rows are then held in memory by another one.
"""

import multiprocessing
import os
import signal
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from streamrank.features.batch import Floats, Ints
from streamrank.kernels.blocked import BlockedOperator
from streamrank.kernels.cg import cg
from streamrank.kernels.operators import ScoreOperator
from streamrank.pipeline.cluster import DaskOperator, dask_client
from streamrank.sources.blockfile import MB, block_mb, read_blocks, write_blocks

from .solvers import COLUMNS, DRAWS, peak, rows

BUDGET_MB = 400
CHUNK, LIST = 50_000, 50  # rows made at a time, rows of a list
CHUNKS = 72
ITERATIONS, REPEATS = 6, 3


def chunks(count: int) -> Iterator[tuple[Any, Floats, Ints]]:
    """Seeded rows as texts have them, in lists."""
    for k in range(count):
        y = np.random.default_rng(k).standard_normal(CHUNK)
        yield rows(CHUNK, COLUMNS, DRAWS, k, np.float32), y, np.arange(0, CHUNK + 1, LIST)


def iteration(operator: Any, b: Floats) -> float:
    """Milliseconds of a CG iteration, the best of some runs."""
    best = np.inf
    for _ in range(REPEATS):
        began = time.perf_counter()
        cg(lambda p: operator(p) + p, b, rtol=1e-30, max_iter=ITERATIONS)
        best = min(best, (time.perf_counter() - began) / ITERATIONS)
    return 1e3 * best


def outside(path: Path, results: Any) -> None:
    """Write and solve within the budget."""
    bare = peak()
    began = time.perf_counter()
    n, blocks = write_blocks(path, chunks(CHUNKS), block_mb(BUDGET_MB) * MB)
    written, size = time.perf_counter() - began, path.stat().st_size / MB
    b = BlockedOperator(blocks, n).rhs()
    times = {k: iteration(BlockedOperator(blocks, n, n_threads=k), b) for k in (1, 2)}
    print(f"blocks on disk: {size:.0f} MB, {size / BUDGET_MB:.1f} x the budget of {BUDGET_MB} MB")
    print(f"  {len(blocks)} blocks of {block_mb(BUDGET_MB)} MB, made and written in {written:.0f} s")
    print(f"  peak {peak():.0f} MB, {peak() / BUDGET_MB:.2f} x the budget (interpreter alone {bare:.0f} MB)")
    results.put((times, b))


def inside(path: Path, outside_ms: dict[int, float], b: Floats) -> None:
    """The same rows in memory."""
    n, blocks = read_blocks(path)
    held = [block() for block in blocks]
    shape = (sum(len(block.y) for block in held), n)
    X = type("X", (), {"shape": shape})()
    X.indices = np.concatenate([block.matrix.indices for block in held])
    X.data = np.concatenate([block.matrix.data for block in held])
    widths = np.concatenate([np.diff(block.matrix.indptr) for block in held])
    X.indptr = np.concatenate([[0], np.cumsum(widths)])
    lists = np.arange(0, shape[0] + 1, LIST)
    blocked = BlockedOperator(blocks, n)(b)
    for k in (1, 2):
        operator = ScoreOperator(X, lists, n_threads=k)
        whole, ms = operator(b), iteration(operator, b)
        apart = np.linalg.norm(whole - blocked) / np.linalg.norm(whole)
        print(f"  {k} thread(s): {outside_ms[k]:7.1f} ms an iteration, in memory {ms:7.1f}: ", end="")
        print(f"{outside_ms[k] / ms:.2f} x; products differ by {apart:.0e}")


def dask(path: Path) -> None:
    """Two worker processes beside one process, and one of them killed on the way."""
    n, blocks = write_blocks(path, chunks(16), 16 * MB)
    size = path.stat().st_size / MB
    here = BlockedOperator(blocks, n)
    b = here.rhs()

    def solved(operator: Any, **options: Any) -> Floats:
        return cg(lambda p: operator(p) + 100.0 * p, b, rtol=1e-11, **options).x

    w = solved(here)
    with dask_client("local", 2) as client:
        there = DaskOperator(client, blocks, n)
        u = solved(there)
        print(f"two Dask workers, {size:.0f} MB in {len(blocks)} blocks:")
        alone = {k: iteration(BlockedOperator(blocks, n, n_threads=k), b) for k in (1, 2)}
        ms = iteration(there, b)
        print(f"  {ms:.1f} ms an iteration; in process {alone[1]:.1f} ms, with two threads {alone[2]:.1f} ms")
        print(f"  w differs by {np.linalg.norm(w - u) / np.linalg.norm(w):.0e}, relative")
        pids = sorted(client.run(os.getpid).values())

        def kill(k: int, _: Floats) -> None:
            if k == 3:
                os.kill(pids[0], signal.SIGKILL)

        began = time.perf_counter()
        again = solved(there, callback=kill)
        same = "the same bits" if (again == u).all() else "OTHER BITS"
        print(f"  a worker killed at iteration 3: {same}, {time.perf_counter() - began:.1f} s")


def main() -> None:
    """Print all parts."""
    context = multiprocessing.get_context("spawn")
    with tempfile.TemporaryDirectory() as folder:
        path, results = Path(folder) / "rows", context.Queue()
        process = context.Process(target=outside, args=(path, results))
        process.start()
        times, b = results.get()
        process.join()
        process = context.Process(target=inside, args=(path, times, b))
        process.start()
        process.join()
        dask(path)


if __name__ == "__main__":
    main()
