"""RoBiRankMF: quality on MovieLens beside BPR, popularity and `implicit` (if there), speed beside river."""

import gzip
import importlib.util
import multiprocessing
import resource
import time
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from river import reco
from scipy.sparse import csr_matrix

from streamrank.learners.latent import RoBiRankMF
from streamrank.pipeline.recommend import evaluate_interactions, measures, rank_as_they_come, split
from streamrank.pipeline.recommender import CUT, hits
from streamrank.sources.ratings import Interactions, read_interactions

from .quality import DATA

SETS = {"MovieLens-1M": "movielens-1m/pairs.parquet", "MovieLens-100K": "movielens-100k/u.data.gz"}
HOW, SEED, PASSES = "ratio:0.8", 3, 5
NAMES = ("precision@1", "precision@10", "recall@10", "ndcg@10")
REPEATS = 5  # of each, taking turns


def main() -> None:
    """Print all tables; those on MovieLens where it is at hand."""
    speed()
    strata()
    million()
    if not all((DATA / path).exists() for path in SETS.values()):
        print(f"MovieLens is not in {DATA}: no figures of quality")
        return
    for name, path in SETS.items():
        quality(name, read_interactions([DATA / path]))
    small = read_interactions([DATA / SETS["MovieLens-100K"]])
    prequential(small)
    fields(small)
    shards(small)


def quality(title: str, data: Interactions) -> None:
    """Random 80/20, all other items ranked for each user."""
    print(f"{title}, {HOW}, seed {SEED}, {PASSES} passes (seconds of training)")
    print(f"  {'':34s}" + "".join(f"{name:>14s}" for name in NAMES))
    ours: list[tuple[str, str, dict[str, Any]]] = [
        ("popularity", "popularity", {}),
        ("bpr", "bpr", {}),
        ("bpr, rate .3", "bpr", {"rate": 0.3}),
        ("robirank-mf", "robirank-mf", {}),
        ("robirank-mf, 128 negatives", "robirank-mf", {"negatives": 128}),
    ]
    for label, learner, params in ours:
        result = evaluate_interactions(
            data, learner=learner, params=params, passes=PASSES, how=HOW, seed=SEED
        )
        _line(label, result["test"], result["seconds"])
    if importlib.util.find_spec("implicit") is None:
        print("  implicit is not installed")
    else:
        _implicit(data)


def _implicit(data: Interactions) -> None:
    from implicit.als import AlternatingLeastSquares
    from implicit.bpr import BayesianPersonalizedRanking

    train = split(data, HOW, SEED)
    users, items = data.user[train].astype(np.int64), data.item[train].astype(np.int64)
    shape = len(data.users), len(data.items)
    clicks = csr_matrix((np.ones(len(users), np.float32), (users, items)), shape=shape)
    for label, model in (
        ("implicit BPR, 5 iterations", BayesianPersonalizedRanking(
            factors=16, iterations=PASSES, learning_rate=0.05, num_threads=1, random_state=SEED)),
        ("implicit BPR, 100 iterations", BayesianPersonalizedRanking(
            factors=16, iterations=100, learning_rate=0.05, num_threads=1, random_state=SEED)),
        ("implicit ALS, 15 iterations", AlternatingLeastSquares(
            factors=16, iterations=15, num_threads=1, random_state=SEED)),
    ):  # fmt: skip
        began = time.perf_counter()
        model.fit(clicks, show_progress=False)
        seconds = time.perf_counter() - began
        U, V = (np.asarray(part, np.float64) for part in (model.user_factors, model.item_factors))
        V[np.bincount(items, minlength=len(V)) == 0] = -np.inf
        _line(label, measures(U, V, (users, items), (data.user[~train], data.item[~train])), seconds)


def _line(label: str, test: Mapping[str, float], seconds: float) -> None:
    print(f"  {label:34s}" + "".join(f"{test[name]:14.4f}" for name in NAMES) + f"   {seconds:6.1f} s")


def prequential(data: Interactions) -> None:
    """Every rating of MovieLens-100K in time order ranked against all items, then learnt."""
    print("MovieLens-100K click by click, in time order, against all items not yet had")
    for label, learner, params in (
        ("popularity", "popularity", {}),
        ("bpr, taste alone", "bpr", {"recent": 0}),
        ("bpr", "bpr", {}),
        ("robirank-mf, taste alone", "robirank-mf", {"recent": 0}),
        ("robirank-mf", "robirank-mf", {}),
        ("robirank-mf, 128 negatives", "robirank-mf", {"negatives": 128}),
    ):
        test = rank_as_they_come(data, learner=learner, params=params, seed=SEED)["test"]
        print(f"  {label:34s} HR@10 {test['hr@10']:.4f}  NDCG@10 {test['ndcg@10']:.4f}")


def fields(data: Interactions) -> None:
    """What fields of films and users add: click by click, and for films that are not trained on at all."""
    told = {"items": _films(), "users": _people()}
    order = np.argsort(data.time_ms, kind="stable")
    users = [data.users[k] for k in data.user[order]]
    items = [data.items[k] for k in data.item[order]]
    # in no order: the lower its number, the more popular a film is
    cold = np.random.default_rng(SEED).permutation(data.items)[: len(data.items) // 5].tolist()
    trained = [k for k, item in enumerate(items) if item not in cold]
    wanted: dict[str, set[str]] = {}
    for user, item in zip(users, items, strict=True):
        if item in cold:
            wanted.setdefault(user, set()).add(item)
    print(f"MovieLens-100K with fields, NDCG@10 click by click; of {len(cold)} films not trained on")
    for names in ([], ["genre"], ["genre", "year"], ["genre", "year", "age", "sex", "job"]):
        one, other = (_described(names, told) for _ in range(2))
        ranked = one.prequential(users, items)
        clicks = [users[k] for k in trained], [items[k] for k in trained]
        other.learn_batch(*clicks)
        other.fit(*clicks, passes=PASSES - 1)
        gains = [_ndcg(other.rank(user, cold), those) for user, those in wanted.items()]
        print(f"  {', '.join(names) or 'none':34s} {hits(ranked)[1].mean():.4f}   {np.mean(gains):.4f}")


def _described(names: list[str], told: Mapping[str, Mapping[str, dict[str, Any]]]) -> RoBiRankMF:
    ranker = RoBiRankMF(fields=names or None, seed=SEED)
    for table, known in told.items():
        for key, values in known.items():
            ranker.describe(table, key, values)
    return ranker


def _ndcg(ranked: list[Any], wanted: set[str]) -> float:
    discount = 1.0 / np.log2(np.arange(10) + 2.0)
    found = np.array([item in wanted for item in ranked[:10]])
    return float(found @ discount / discount[: len(wanted)].sum())


def _films() -> dict[str, dict[str, Any]]:
    genres = [row[0] for row in _rows("u.genre.gz") if row[0]]
    return {
        row[0]: {"genre": [name for name, flag in zip(genres, row[5:], strict=True) if flag == "1"],
                 "year": row[2][-4:]}
        for row in _rows("u.item.gz") if len(row) > 5
    }  # fmt: skip


def _people() -> dict[str, dict[str, Any]]:
    rows = [row for row in _rows("u.user.gz") if len(row) == 5]
    return {row[0]: {"age": int(row[1]) // 10, "sex": row[2], "job": row[3]} for row in rows}


def _rows(name: str) -> list[list[str]]:
    text = gzip.decompress((DATA / "movielens-100k" / name).read_bytes()).decode("latin-1")
    return [line.split("|") for line in text.splitlines()]


def shards(data: Interactions) -> None:
    """Users in several shards, merged where they are served: apart, or pooled so many times a pass."""
    print(f"MovieLens-100K in shards by user, {HOW}, two passes, NDCG@10")
    print(f"  {'':34s}" + "".join(f"{f'in {n}':>14s}" for n in (1, 2, 4)))
    for label, times, pools in (
        ("apart", 100, ""),
        ("pooled once a pass", 1, "at once"),
        ("pooled 10 times a pass", 10, "at once"),
        ("pooled 100 times a pass", 100, "at once"),
        ("100 times, one after the other", 100, "in turn"),
    ):
        found = [f"{_in_shards(data, n, times, pools if n > 1 else ''):14.4f}" for n in (1, 2, 4)]
        print(f"  {label:34s}" + "".join(found))


def _in_shards(data: Interactions, n_shards: int, times: int, pools: str) -> float:
    train = split(data, HOW, SEED)
    users, items = data.user[train].astype(np.int64), data.item[train].astype(np.int64)
    rng, rankers = np.random.default_rng(SEED), [RoBiRankMF(seed=SEED) for _ in range(n_shards)]
    for part in [part for _ in range(2) for part in np.array_split(rng.permutation(len(users)), times)]:
        for k, ranker in enumerate(rankers):
            mine = part[users[part] % n_shards == k]
            ranker.fit(users[mine], items[mine])
            if pools == "in turn":
                ranker.pool([other.taught() for other in rankers if other is not ranker])
        if pools == "at once":
            said = [ranker.taught() for ranker in rankers]
            for k, ranker in enumerate(rankers):
                ranker.pool(said[:k] + said[k + 1 :])
    for other in rankers[1:]:
        rankers[0].merge(other)
    U, V = rankers[0].factors_of(range(len(data.users)), range(len(data.items)))
    V[np.bincount(items, minlength=len(V)) == 0] = -np.inf
    return measures(U, V, (users, items), (data.user[~train], data.item[~train]))[f"ndcg@{CUT}"]


def speed() -> None:
    """Microseconds a click (d = 16, 32 negatives, clicks as of MovieLens-100K); recommending of 100,000."""
    users, items = _zipf(100_000, 943, 1682, 7)
    pairs = list(zip(users.tolist(), items.tolist(), strict=True))

    def river() -> None:
        model = reco.BiasedMF(n_factors=16, seed=0)
        for user, item in pairs:
            model.learn_one(user, item, 1.0)

    def one(recent: int) -> Callable[[], None]:
        def run() -> None:
            model = RoBiRankMF(recent=recent)
            for user, item in pairs:
                model.learn_one(user, item, 1.0)

        return run

    def batch(recent: int) -> Callable[[], Any]:
        return lambda: RoBiRankMF(recent=recent).learn_batch(users, items)

    runs = {
        "river BiasedMF.learn_one": river,
        "learn_batch, taste alone": batch(0),
        "learn_batch": batch(10),
        "learn_one, taste alone": one(0),
        "learn_one": one(10),
    }
    best = _best(runs)
    print(f"us a click, {len(pairs)} clicks, best of {REPEATS}:")
    for name, seconds in best.items():
        ratio = best["river BiasedMF.learn_one"] / seconds
        print(f"  {name:34s} {1e6 * seconds / len(pairs):7.2f}   {ratio:5.1f} x river")
    ranker = RoBiRankMF(negatives=1)
    ranker.learn_batch(["u"] * 100_000, np.arange(100_000))
    fastest = _best({"recommend": lambda: ranker.recommend("u", 10)})["recommend"]
    print(f"  recommend 10 of 100,000: {1e3 * fastest:.2f} ms")


def strata() -> None:
    """One worker, and two in strata, with threads and one after the other; all from the same start."""
    users, items = _zipf(400_000, 20_000, 8_000, 5)

    def run(workers: int, threads: bool) -> Callable[[], Any]:
        return lambda: RoBiRankMF(recent=0).fit(users, items, 2, workers, threads=threads)

    best = _best({"1": run(1, True), "2": run(2, True), "2 serial": run(2, False)})
    print(
        f"strata, {2 * len(users)} clicks: 1 worker {best['1']:.2f} s, 2 threads {best['2']:.2f} s "
        f"({best['1'] / best['2']:.2f} x), the same schedule in one thread {best['2 serial']:.2f} s "
        f"({best['2 serial'] / best['2']:.2f} x)"
    )


def million() -> None:
    """As many users as the Million Song data has, in a process of its own."""
    with multiprocessing.get_context("spawn").Pool(1) as pool:
        seconds, clicks, peak = pool.apply(_million)
    print(
        f"386,133 users x 50,000 items, {clicks} clicks (Zipf), 2 workers: {clicks / seconds:,.0f} clicks/s, "
        f"peak {peak / 2**20:.2f} GB"
    )


def _million() -> tuple[float, int, int]:
    users, items = _zipf(3_000_000, 386_133, 50_000, 1)
    users[:386_133] = np.arange(386_133)
    items[:50_000] = np.arange(50_000)
    ranker = RoBiRankMF(recent=0)
    began = time.perf_counter()
    ranker.fit(users, items, workers=2)
    seconds = time.perf_counter() - began
    return seconds, len(users), resource.getrusage(resource.RUSAGE_SELF).ru_maxrss


def _zipf(n: int, n_users: int, n_items: int, seed: int) -> tuple[Any, Any]:
    rng = np.random.default_rng(seed)
    found = []
    for size in (n_users, n_items):
        share = 1.0 / (np.arange(size) + 10.0)
        found.append(rng.permutation(size)[rng.choice(size, n, p=share / share.sum())])
    return found[0], found[1]


def _best(runs: Mapping[str, Callable[[], Any]]) -> dict[str, float]:
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
