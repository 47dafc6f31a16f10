"""Batch solvers: a product beside scipy's, two threads beside one, memory, and the choice among 21 lambdas.

Each part runs in a process of its own, so that its memory can be read off. Times are the best of some
repeats; beside them the spread, as other work on the machine shows there.
"""

import multiprocessing
import statistics
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
from scipy.sparse import csr_matrix

from streamrank.features.batch import Columns, Floats, Ints
from streamrank.kernels.cg import cg
from streamrank.kernels.csr import Matrix
from streamrank.kernels.jit import jit
from streamrank.kernels.krylov import krylov_select
from streamrank.kernels.misorder import PairwiseError
from streamrank.kernels.operators import ScoreOperator
from streamrank.learners.rankrls import GRID, RankRLS
from streamrank.metrics.functions import list_metrics
from streamrank.sources.letor import read_letor

ROWS, COLUMNS, DRAWS = 781_265, 47_152, 78  # the size of Reuters RCV1
REPEATS = 7


@jit
def text(m: int, n: int, draws: int, seed: int, indptr: Ints, indices: Columns, data: Floats) -> int:
    """Rows of `draws` words, frequent ones often, repeated ones once; straight into the given arrays."""
    np.random.seed(seed)
    at = 0
    row = np.empty(draws, np.int64)
    for r in range(m):
        for k in range(draws):
            row[k] = int(n * np.random.random() ** 3)
        row.sort()
        first = at
        total = 0.0
        for k in range(draws):
            if k == 0 or row[k] != row[k - 1]:
                indices[at] = row[k]
                data[at] = 0.1 + np.random.random()
                total += data[at] ** 2
                at += 1
        for k in range(first, at):
            data[k] /= np.sqrt(total)  # rows of length 1, as tf-idf has them
        indptr[r + 1] = at
    return at


def rows(m: int, n: int, draws: int, seed: int, dtype: type[np.floating]) -> csr_matrix:
    """A seeded sparse matrix, made without a copy."""
    indptr, indices = np.zeros(m + 1, np.int64), np.empty(m * draws, np.int32)
    data = np.empty(m * draws, dtype)
    at = text(m, n, draws, seed, indptr, indices, data)
    X = csr_matrix((m, n), dtype=dtype)  # the constructor with arrays would copy the borders
    X.indptr, X.indices, X.data = indptr, indices[:at], data[:at]
    return X


def timed(function: Callable[[], object], repeats: int) -> tuple[float, str]:
    """Best seconds, and a text that also shows the spread and what the machine gave."""
    seconds, cores = [], []
    for _ in range(repeats):
        began, used = time.perf_counter(), time.process_time()
        function()
        seconds.append(time.perf_counter() - began)
        cores.append((time.process_time() - used) / seconds[-1])
    spread, given = statistics.pstdev(seconds) / statistics.mean(seconds), cores[np.argmin(seconds)]
    return min(seconds), f"{1e3 * min(seconds):8.1f} ms (+-{100 * spread:.0f} %, {given:.2f} cores given)"


def peak() -> float:
    """Megabytes this process has held at most, mapped files included.

    Not `ru_maxrss`: after a spawn that begins at what the parent held, and would pass for the interpreter.
    """
    status = Path("/proc/self/status").read_text("ascii")
    return int(status.split("VmHWM:")[1].split()[0]) / 1024


def products(dtype: type[np.floating], lists: int) -> None:
    """A product with X'LX as [003] (8) is written with scipy, and ours in one and two threads."""
    warm = rows(100, 50, 5, 0, dtype)
    for n_threads in (1, 2):  # compiles
        ScoreOperator(warm, n_threads=n_threads, form="sparse")(np.ones(50))
    bare = peak()
    X = rows(ROWS, COLUMNS, DRAWS, 1, dtype)
    size = (X.data.nbytes + X.indices.nbytes + X.indptr.nbytes) / 2**20
    borders = np.linspace(0, ROWS, lists + 1).astype(np.int64)
    v = np.random.default_rng(0).standard_normal(COLUMNS)
    one, two = (ScoreOperator(X, borders, n_threads=k) for k in (1, 2))
    result = one(v)
    pair = two(v)
    ours = peak()
    b = one.rhs(np.random.default_rng(1).standard_normal(ROWS))
    solved = cg(lambda p: two(p) + p, b, rtol=1e-3, max_iter=10)
    after = peak()

    # borders of the type of the columns: else scipy converts both for each product
    S = csr_matrix((X.data, X.indices, X.indptr.astype(np.int32)), shape=X.shape, copy=False)
    query, count = np.repeat(np.arange(lists), np.diff(borders)), np.diff(borders)
    u = v.astype(dtype)  # of the type of the data, for the same reason

    def plain() -> Floats:
        s = S @ u
        mean = s.mean() if lists == 1 else (np.bincount(query, s, lists) / count).astype(dtype)[query]
        return np.asarray(S.T @ (s - mean))

    expected = plain()
    runs = {"scipy": plain, "1 thread": lambda: one(v), "2 threads": lambda: two(v)}
    best = dict.fromkeys(runs, (np.inf, ""))
    for _ in range(REPEATS):  # in turn: noise should meet all alike
        for name, function in runs.items():
            best[name] = min(best[name], timed(function, 3))
    print(
        f"product, {ROWS} x {COLUMNS}, {X.nnz / 1e6:.1f} million entries, {np.dtype(dtype)}, {lists} list(s)"
    )
    for name, (seconds, shown) in best.items():
        print(f"  {name:10} {shown}  {best['scipy'][0] / seconds:5.2f} x scipy")
    print(f"  two threads {best['1 thread'][0] / best['2 threads'][0]:.2f} x one")
    print(f"  data {size:.0f} MB, interpreter {bare:.0f} MB, peak {ours:.0f} MB, after CG {after:.0f} MB:")
    print(f"  {(after - bare) / size:.2f} x the data without the interpreter, {after / size:.2f} x with it")
    scale = np.linalg.norm(result)
    print(f"  |1 - 2 threads| {np.linalg.norm(result - pair) / scale:.1e}, |ours - scipy| ", end="")
    print(f"{np.linalg.norm(result - expected) / scale:.1e}; CG made {solved.n_iter} steps")


def selection() -> None:
    """21 lambdas: one Krylov run, shifted CG, and 21 separate solves."""
    X = rows(40_000, COLUMNS, 82, 2, np.float64)
    V = rows(10_000, COLUMNS, 82, 3, np.float64)
    T = rows(20_000, COLUMNS, 82, 4, np.float64)
    rng = np.random.default_rng(5)
    taste = rng.standard_normal(COLUMNS)

    def labels(part: csr_matrix) -> Floats:
        return np.asarray(part @ taste + rng.standard_normal(part.shape[0]) > 0.0, np.float64)

    y, y_v, y_t = labels(X), labels(V), labels(T)
    print(f"choice of lambda, {X.shape[0]} x {COLUMNS}, {X.nnz / X.shape[0]:.0f} entries a row, one thread")
    chosen = {}
    for name, model in {
        "krylov_select": RankRLS(GRID, method="hybrid"),
        "shifted cg": RankRLS(GRID),
        "21 x cg": RankRLS(GRID, solver="cg"),
    }.items():
        seconds = []
        for _ in range(1 if name == "21 x cg" else 3):
            began = time.perf_counter()
            model.fit(X, y, valid=(V, y_v))
            seconds.append(time.perf_counter() - began)
        error = PairwiseError(y_t, np.array([0, len(y_t)])).one(model.predict(T))
        chosen[name] = min(seconds)
        report = model.report
        print(
            f"  {name:14} {min(seconds):7.2f} s  {report.n_iter:5} products  lambda {report.lam:<8} "
            f"err valid {report.errors.min():.4f} test {error:.4f}"
        )
    print(f"  one run is {chosen['21 x cg'] / chosen['krylov_select']:.0f} x faster than 21 solves")
    operator = ScoreOperator(X)
    error_v = PairwiseError(y_v, np.array([0, len(y_v)]))
    found = krylov_select(operator, operator.rhs(y), GRID, Matrix(V).scores, error_v)
    at = GRID.index(found.lam)
    print(f"  along the run, lambda {found.lam}: " + " ".join(f"{e:.4f}" for e in found.errors[:, at]))


def letor(folder: Path) -> None:
    """MQ2007 (85 % of it), S1 and S2 to learn, S3 to choose, S4 to judge."""
    train = read_letor([folder / "S1.svmlight.gz", folder / "S2.svmlight.gz"])
    valid, judge = (read_letor([folder / f"{name}.svmlight.gz"]) for name in ("S3", "S4"))
    print(f"MQ2007, {len(train.y)} rows in {train.n_lists} lists; {judge.n_lists} lists to judge")
    for name, model in {
        "hybrid": RankRLS(GRID, method="hybrid"),
        "tikhonov": RankRLS(GRID),
        "early": RankRLS(method="early"),
    }.items():
        model.fit(train, valid=valid)
        ndcg, _, error = np.nanmean(list_metrics(judge.lists, judge.y, model.predict(judge), 10), axis=0)
        report = model.report
        print(
            f"  {name:9} err {error:.4f}  NDCG@10 {ndcg:.4f}  lambda {report.lam:<8} "
            f"{report.n_iter:3} products  {report.seconds:.2f} s"
        )


def main() -> None:
    """Print all parts, each from a process of its own."""
    parts: list[tuple[Callable[..., None], tuple[object, ...]]] = [
        (products, (np.float32, 1)),
        (products, (np.float32, 20_000)),
        (products, (np.float64, 1)),
        (selection, ()),
    ]
    folder = Path(__file__).parents[3] / "shared" / "data" / "letor4-mq2007-partial"
    if folder.is_dir():
        parts.append((letor, (folder,)))
    for part, arguments in parts:
        process = multiprocessing.get_context("spawn").Process(target=part, args=arguments)
        process.start()
        process.join()


if __name__ == "__main__":
    main()
