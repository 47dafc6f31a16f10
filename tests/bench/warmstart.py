"""CG iterations of a reconciliation: cold, from the streaming weights, from the last one with 10 % new rows.

Every run solves (X'LX + lam) w = X'Ly on all rows until |residual| <= tolerance |X'Ly|. The last
reconciliation saw the first ten elevenths of the rows, and was solved to 1e-6. The streaming weights are
those of EGDM after one pass in the order of the file, with the same lambda: by statistics on MQ2007 (lists
whose labels are all equal teach it nothing, but are in X'LX here), on Reuters without H, 200 rows a step.
"""

from itertools import pairwise
from typing import Any

import numpy as np

from streamrank.features.batch import Floats, Ints
from streamrank.kernels.cg import cg
from streamrank.kernels.misorder import PairwiseError
from streamrank.kernels.operators import ScoreOperator
from streamrank.learners.egdm import EGDM
from streamrank.pipeline.evaluate import as_batch, linear_scores, read_lists
from streamrank.sources.dataset import Dataset

from .quality import DATA
from .reuters import reuters

TOLERANCES = (1e-2, 1e-3, 1e-5)
EXPECTED = {  # cold / streaming / last, of prototypes: at 1e-2, at 1e-5, to within .5 % of the final error
    "MQ2007": ("9/0/4", "21/13/17", "4/0/0"),
    "Reuters": ("10/8/5", "23/22/20", "7/5/1"),
}


def dataset(X: Any, y: Floats, size: int) -> Dataset:
    """Rows as lists of `size`, the last one shorter."""
    lists = np.append(np.arange(0, len(y), size), len(y)).astype(np.int64)
    ids, columns = [""] * (len(lists) - 1), [str(j) for j in range(X.shape[1])]
    indptr, indices = X.indptr.astype(np.int64), X.indices.astype(np.int32)
    return Dataset(indptr, indices, X.data, y, lists, ids, [""] * len(y), columns)


def first_lists(data: Dataset, lists: Ints, share: float) -> tuple[Dataset, Ints]:
    """The rows of the first lists up to a share of all; a single list is cut."""
    m = int(share * len(data.y))
    cut = np.array([0, m]) if len(lists) == 2 else lists[: np.searchsorted(lists, m, side="right")]
    entries = data.indptr[cut[-1]]
    part = Dataset(
        data.indptr[: cut[-1] + 1],
        data.indices[:entries],
        data.data[:entries],
        data.y[: cut[-1]],
        cut,
        [""] * (len(cut) - 1),
        data.docs[: cut[-1]],
        data.names,
    )
    return part, cut


def table(title: str, train: Dataset, lists: Ints, test: Dataset, test_lists: Ints, lam: float) -> None:
    """Print the iterations of one set."""
    n = train.shape[1]
    taught = sum(
        b - a for a, b in pairwise(train.lists) if np.ptp(train.y[a:b]) > 0
    )  # lam is for each of them
    ranker = EGDM(scale=False, lam=lam / taught, mode="statistics" if n < 1000 else "adagrad")
    ranker.learn_batch(as_batch(train, np.arange(train.n_lists)))
    streaming = np.zeros(n)
    learnt = ranker.served_weights()[:n]
    streaming[: len(learnt)] = learnt
    before, cut = first_lists(train, lists, 10 / 11)
    old = ScoreOperator(before, cut)
    last = cg(lambda v: old(v) + lam * v, old.rhs(before.y), rtol=1e-6).x
    operator = ScoreOperator(train, lists)
    b = operator.rhs(train.y)

    def matvec(v: Floats) -> Floats:
        return operator(v) + lam * v

    error = PairwiseError(test.y, test_lists)
    final = error.one(linear_scores(test, cg(matvec, b, rtol=1e-8).x))
    starts = {"cold": np.zeros(n), "from the streaming w": streaming, "from the last one": last}
    print(f"{title}, {len(train.y)} x {n}, lambda {lam:g}: iterations; err of the optimum {final:.4f}")
    print(f"  {'':22}" + "".join(f"{tolerance:>8.0e}" for tolerance in TOLERANCES) + "   err within .5 %")
    for name, start in starts.items():
        errors = [error.one(linear_scores(test, start))]
        runs = [cg(matvec, b, start, rtol=tolerance) for tolerance in TOLERANCES[:-1]]
        longest = cg(
            matvec,
            b,
            start,
            rtol=TOLERANCES[-1],
            callback=lambda _, x, errors=errors: errors.append(error.one(linear_scores(test, x))),
        )
        near = int(np.argmax(np.array(errors) <= 1.005 * final))
        shown = "".join(f"{run.n_iter:8}" for run in [*runs, longest])
        print(f"  {name:22}{shown} {near:8}   err at the start {errors[0]:.4f}")
    print("  expected cold/streaming/last: 1e-2 {}, 1e-5 {}, err within .5 % {}".format(*EXPECTED[title]))


def main() -> None:
    """Print the tables of the sets that are there."""
    folder = DATA / "letor4-mq2007-partial"
    if folder.is_dir():
        train, test = (read_lists([folder / f"S{k}.svmlight.gz" for k in part]) for part in ((1, 2), (4,)))
        table("MQ2007", train, train.lists, test, test.lists, 128.0)
    else:
        print(f"MQ2007 left out: no {folder}; STREAMRANK_DATA names the folder of data sets")
    folder = DATA / "reuters21578-counts"
    if folder.is_dir():
        part, _, later = reuters(folder)
        test = dataset(*later, len(later.y))
        table("Reuters", dataset(*part, 200), np.array([0, len(part.y)]), test, test.lists, 4.0)
    else:
        print(f"Reuters left out: no {folder}; STREAMRANK_DATA names the folder of data sets")


if __name__ == "__main__":
    main()
