"""How well learners rank on LETOR 4.0. Folds: two parts to learn from, one to choose on, one to test.

Every query is tested in one fold, so means and standard errors are over all queries, and learners are
compared by their differences on the same queries. `rankrls` takes the training lists as a whole and chooses
its lambda; every other learner sees each list once, in the order of the file, or impressions: ten documents
of queries that come again, few of them often. A new learner of lists appears by itself under its name in the
registry; a line in `LINEUP` sets its parameters or shows another form of it, one in `EXPECTED` what it should
reach.
"""

import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from scipy.sparse import csr_matrix, diags

from streamrank.features.batch import Floats
from streamrank.kernels.statistics import ROWS
from streamrank.learners.base import Ranker
from streamrank.learners.egdm import EGDM
from streamrank.learners.rankrls import GRID, RankRLS
from streamrank.learners.registry import LEARNERS, build
from streamrank.metrics.functions import ndcg, pairwise_error
from streamrank.pipeline.evaluate import as_batch, linear_scores, read_lists
from streamrank.sources.dataset import Dataset

DATA = Path(os.environ.get("STREAMRANK_DATA") or Path(__file__).parents[3] / "shared" / "data")
SETS = {"MQ2007": "letor4-mq2007-partial", "MQ2008": "letor4-mq2008"}
BATCH = "rankrls"
HIDDEN = ("listnet", "ranknet", "lambdarank", "song", "ksong")  # also through a hidden layer of 32 units
PAIRED = "song"  # and what it is ahead of each by
LINEUP: dict[str, tuple[str, dict[str, Any]]] = {
    BATCH: (BATCH, {"lam": GRID, "method": "hybrid"}),
    "egdm, unscaled": ("egdm", {"scale": False, "lam": 3e-3}),
    **{name: (name, {}) for name in sorted(LEARNERS)},
    "song, momentum": ("song", {"optimiser": "momentum", "rate": 0.003}),
    "ksong, prac.": ("ksong", {"practical": True}),
    **{f"{name}, 32": (name, {"hidden": 32}) for name in HIDDEN},
}
STREAMING = {name: entry for name, entry in LINEUP.items() if entry[0] != BATCH}
REFERENCES = {"full lists": BATCH, "impressions": "ranknet"}
# NDCG@10 of prototypes, tuned where the learner here is: what to expect
EXPECTED = {
    "MQ2007": {
        BATCH: 0.5179,
        "ranknet": 0.5156,
        "robirank": 0.5216,
        "lambdarank": 0.5176,
        "listnet": 0.5182,
        "approxndcg": 0.5012,
        "song": 0.5156,
        "ksong": 0.5108,
        "listnet, 32": 0.5153,
        "song, 32": 0.5075,
    },
    "MQ2008": {
        BATCH: 0.6924,
        "ranknet": 0.6883,
        "robirank": 0.6904,
        "lambdarank": 0.6930,
        "listnet": 0.6898,
        "approxndcg": 0.6815,
        "song": 0.6903,
        "ksong": 0.6853,
    },
}
CUTS = (1, 3, 5, 10)
EVENTS, SHOWN = 20_000, 10  # impressions, and the documents of each
# queries come as 1/rank^ZIPF, and all figures move with it (ListNet, NDCG@10: .483 at 1, .515 at .5): compare
# learners within a table, not impressions with figures from elsewhere
ZIPF = 0.75
CHUNK = 2000  # lists learnt at a time, to spare memory


class Fold(NamedTuple):
    """Lists to learn from, to choose on, to test on."""

    train: Dataset
    valid: Dataset
    test: Dataset


def folds(folder: Path) -> Iterator[Fold]:
    """The parts S1..S4, rotated."""
    parts = [folder / f"S{k}.svmlight.gz" for k in (1, 2, 3, 4)]
    for k in range(4):
        a, b, c, d = parts[k:] + parts[:k]
        yield Fold(read_lists([a, b]), read_lists([c]), read_lists([d]))


def taken(data: Dataset, rows: Any, sizes: Any, queries: Any) -> Dataset:
    """Some rows of a set, as lists of these sizes."""
    X = csr_matrix((data.data, data.indices, data.indptr), shape=data.shape)[rows]
    lists, qids = np.concatenate([[0], np.cumsum(sizes)]), [data.qids[q] for q in queries]
    docs = [data.docs[r] for r in rows]
    return Dataset(X.indptr.astype(np.int64), X.indices, X.data, data.y[rows], lists, qids, docs, data.names)


def impressions(data: Dataset, seed: int) -> Dataset:
    """`EVENTS` lists of up to `SHOWN` documents each."""
    rng = np.random.default_rng(seed)
    share = (1.0 + rng.permutation(data.n_lists)) ** -ZIPF
    drawn = rng.choice(data.n_lists, EVENTS, p=share / share.sum())
    all_of = [np.arange(a, b) for a, b in zip(data.lists[:-1], data.lists[1:], strict=True)]
    rows = [rng.permutation(all_of[q])[:SHOWN] for q in drawn]
    return taken(data, np.concatenate(rows), [len(some) for some in rows], drawn)


def by_query(data: Dataset, scores: Floats) -> Floats:
    """Pairwise error and NDCG at `CUTS` of each list, NaN where it has none."""
    borders = zip(data.lists[:-1], data.lists[1:], strict=True)
    lists = [(data.y[a:b], scores[a:b]) for a, b in borders]
    return np.array([[pairwise_error(y, s), *(ndcg(y, s, k) for k in CUTS)] for y, s in lists])


def learnt(learner: str, params: dict[str, Any], fold: Fold, stream: Dataset) -> tuple[Floats, Ranker | None]:
    """Figures of the test lists, by the batch solution or after one pass over the stream."""
    if learner == BATCH:
        model = RankRLS(**params).fit(fold.train, valid=fold.valid)
        return by_query(fold.test, model.predict(fold.test)), None
    ranker = build(learner, params)
    for first in range(0, stream.n_lists, CHUNK):
        order = np.arange(first, min(first + CHUNK, stream.n_lists))
        ranker.learn_batch(as_batch(stream, order, items=ranker.wants_items))
    return by_query(fold.test, ranker.scores(as_batch(fold.test, np.arange(fold.test.n_lists)))), ranker


def mean_error(values: Floats) -> tuple[float, float]:
    """Mean and its standard error, without the queries that have no value."""
    held = values[np.isfinite(values)]
    return float(held.mean()), float(held.std(ddof=1) / np.sqrt(len(held)))


def table(title: str, found: dict[str, Floats], reference: str, expected: Mapping[str, float]) -> None:
    """Means over queries with their standard errors, and the differences to the reference."""
    print(f"{title}: mean +- standard error over queries; difference to {reference} on the same queries")
    head = "".join(f"{name:>17}" for name in ("err", *(f"NDCG@{k}" for k in CUTS)))
    print(f"  {'':14}{head}{'err, diff.':>20}{'NDCG@10, diff.':>18}{PAIRED + ' ahead':>18}{'expected':>10}")
    for name, values in found.items():
        cells = "".join(f"{mean:9.4f} +-{error:.4f}" for mean, error in map(mean_error, values.T))
        apart = (values - found[reference])[:, [0, -1]]
        cells += " " + "".join(f"{mean:+10.4f} +-{error:.4f}" for mean, error in map(mean_error, apart.T))
        ahead, error = mean_error((found[PAIRED] - values)[:, -1])
        cells += f"{ahead:+10.4f} +-{error:.4f}"
        print(f"  {name:14}{cells}{expected.get(name, float('nan')):10.4f}".replace("nan", "  -"))


def batch_optimum(ranker: EGDM, train: Dataset, *, tied: bool) -> Floats:
    """The weights of RankRLS at the lambda of EGDM; EGDM leaves lists out whose labels are all equal."""
    borders = zip(train.lists[:-1], train.lists[1:], strict=True)
    kept = [q for q, (a, b) in enumerate(borders) if tied or np.ptp(train.y[a:b]) > 0]
    rows = np.concatenate([np.arange(train.lists[q], train.lists[q + 1]) for q in kept])
    data = taken(train, rows, np.diff(train.lists)[kept], kept)
    state, n = ranker.to_state(), train.shape[1]
    spread = np.sqrt(np.diag(state["H"])[:n]) if ranker.scale else np.ones(n)
    D = diags(np.divide(1.0, spread, out=np.zeros(n), where=spread > 0))
    X = csr_matrix((data.data, data.indices, data.indptr), shape=data.shape) @ D
    lam = ranker.lam * (1.0 if ranker.scale else state["numbers"][ROWS])
    queries = np.repeat(np.arange(data.n_lists), np.diff(data.lists))
    return np.asarray(D @ RankRLS(lam, solver="cg", rtol=1e-10).fit(X, data.y, queries).weights)


def distances(name: str, rankers: list[Any], sets: list[Fold]) -> None:
    """How far one pass of EGDM is from its own optimum, and from RankRLS in batch at the same lambda."""
    rows = []
    for ranker, fold in zip(rankers, sets, strict=True):
        n = fold.train.shape[1]
        w, own = ranker.served_weights()[:n], ranker.solve()[:n]
        same, whole = (batch_optimum(ranker, fold.train, tied=tied) for tied in (False, True))
        errors = (by_query(fold.test, linear_scores(fold.test, v))[:, 0] for v in (w, own, same, whole))
        apart = np.linalg.norm([w - own, same - own], axis=1) / np.linalg.norm(own)
        rows.append([*(mean_error(values)[0] for values in errors), *apart])
    w, own, same, whole, moved, solved = np.mean(rows, axis=0)
    print(f"  {name}: err {w:.4f}; its own direct solution {own:.4f} ({100 * (w / own - 1):+.2f} %)", end="")
    print(f"; rankrls at the same lambda {same:.4f} ({100 * (w / same - 1):+.2f} %)", end="")
    print(f", with tied lists {whole:.4f} ({100 * (w / whole - 1):+.2f} %)")
    print(f"    |w - own|/|own| {moved:.3f}, |rankrls - own|/|own| {solved:.1e}; means of the folds")


def main() -> None:
    """Print the tables of the sets that are there."""
    for title, folder in SETS.items():
        if not (DATA / folder).is_dir():
            print(f"{title} left out: no {DATA / folder}; STREAMRANK_DATA names the folder of data sets")
            continue
        sets = list(folds(DATA / folder))
        streams = {"full lists": [fold.train for fold in sets]}
        if title == "MQ2007":
            streams["impressions"] = [impressions(fold.train, seed) for seed, fold in enumerate(sets)]
        for kind, stream in streams.items():
            whole = kind == "full lists"
            runs = {
                name: [learnt(*entry, fold, lists) for fold, lists in zip(sets, stream, strict=True)]
                for name, entry in (LINEUP if whole else STREAMING).items()
            }
            found = {name: np.concatenate([values for values, _ in run]) for name, run in runs.items()}
            table(f"{title}, {kind}", found, REFERENCES[kind], EXPECTED[title] if whole else {})
            for name, run in runs.items():
                if whole and LINEUP[name][0] == "egdm":
                    distances(name, [ranker for _, ranker in run], sets)


if __name__ == "__main__":
    main()
