"""Train a learner on judged lists and say how well it ranks others."""

import time
from collections.abc import Callable, Mapping, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse

from ..errors import ConfigError, SourceError
from ..features.batch import BY_LABEL, NO_ITEMS, Batch, Floats, Ints, item_keys
from ..kernels.statistics import score
from ..learners.base import Ranker
from ..learners.closedform import Solution
from ..learners.rankrls import GRID, RankRLS
from ..learners.registry import LEARNERS, build, parameters, refuse_unknown
from ..learners.regression import LinearRegressionRanker
from ..metrics.functions import average_precision, ndcg, pairwise_error
from ..sources.dataset import Dataset
from ..sources.letor import read_letor
from ..sources.parquet import PARQUET_ENDINGS, read_parquet_lists
from .rbf import BASIS, RBF, in_front

CUTS = (1, 3, 5, 10)
BATCH = "rankrls"
RIDGES = tuple(10.0**k for k in range(-8, 0))  # per row: what `regression` chooses from on `valid`


def read_lists(paths: Sequence[str | Path]) -> Dataset:
    """Judged lists from LETOR/svmlight or, by their ending, Parquet files."""
    parquet = [str(path).endswith(PARQUET_ENDINGS) for path in paths]
    if any(parquet) and not all(parquet):
        raise SourceError("LETOR and Parquet files cannot be mixed: their columns are named differently")
    return read_parquet_lists(paths) if all(parquet) else read_letor(paths)


def evaluate(
    train: Dataset,
    test: Dataset,
    *,
    learner: str,
    params: Mapping[str, Any],
    valid: Dataset | None = None,
    passes: int = 1,
    seed: int = 0,
    looks: Sequence[int] = (),
    look: Callable[[Ranker, int], None] | None = None,
) -> dict[str, Any]:
    """Train on one set, test on another: `rankrls` in batch, every other learner list by list.

    The first pass takes the lists in the order of the file, later ones in an order drawn by `seed`. On
    `valid` rankrls chooses its regularisation, and so does regression by its closed form. `rbf` is regression
    behind a Gaussian basis. A streaming learner is shown to `look` after as many lists as `looks` say (behind
    a basis it knows the columns of that); where those fall changes nothing, and their time does not count.
    """
    refuse_orderless(train, "--train")
    refuse_orderless(test, "--test")
    began = time.perf_counter()
    if learner == RBF:
        refuse_unknown(RBF, params, [*BASIS, *parameters(LinearRegressionRanker)])
        front = in_front(train, test, valid, params, seed)
        task: dict[str, Any] = {"passes": passes, "seed": seed, "looks": looks, "look": look}
        took = time.perf_counter() - began
        result = evaluate(
            front.train, front.test, valid=front.valid, learner="regression", params=front.params, **task
        )
        chosen, seconds = {**front.chosen, **result["chosen"]}, took + result["seconds"]
        return {**result, "learner": learner, "seconds": seconds, "chosen": chosen}
    n_columns = max(data.shape[1] for data in (train, test, valid or test))
    if learner == BATCH:
        chosen, iterations, scores = _in_batch(train, valid, test, params, n_columns)
    elif learner in LEARNERS:
        ranker = build(learner, params)
        order = np.arange(train.n_lists)
        rng = np.random.default_rng(seed)
        for number in range(passes):
            before = number * train.n_lists
            stops = [at - before for at in looks if before < at < before + train.n_lists]
            for first, end in pairwise([0, *stops, train.n_lists]):
                ranker.learn_batch(as_batch(train, order[first:end], items=ranker.wants_items))
                if look is not None:
                    paused = time.perf_counter()
                    look(ranker, before + end)
                    began += time.perf_counter() - paused
            rng.shuffle(order)
        chosen, iterations = dict(params), passes * train.n_lists
        scores = ranker.scores(as_batch(test, np.arange(test.n_lists)))
        if isinstance(ranker, LinearRegressionRanker):
            chosen |= {"solver": ranker.solver, "lam": ranker.lam}
            if valid is not None and "lam" not in params and ranker.solver == "closed":
                chosen["lam"] = _best_ridge(ranker, valid)
                scores = _predicted(test, ranker.solve(chosen["lam"]))
    else:
        names = ", ".join(sorted([*LEARNERS, BATCH, RBF]))
        raise ConfigError(f"there is no learner {learner!r}; choose one of: {names}")
    return {
        "learner": learner,
        "seconds": time.perf_counter() - began,
        "iterations": iterations,
        "chosen": chosen,
        "test": measures(test, scores),
    }


def refuse_orderless(data: Dataset, option: str) -> None:
    """`ConfigError` for lists from which no order can be learnt, and on which none can be shown."""
    if not data.n_lists:
        raise ConfigError(f"there are no lists in the files of {option}")
    if not np.isfinite(data.data).all():
        row = int(np.searchsorted(data.indptr, np.argmin(np.isfinite(data.data)), side="right")) - 1
        raise ConfigError(
            f"row {row + 1} of {option} holds NaN or infinity: leave it out, or give the value a number"
        )
    if all(np.ptp(data.y[first:end]) == 0.0 for first, end in pairwise(data.lists)):
        raise ConfigError(f"the labels are constant in every list of {option}: there is nothing to rank")


def _in_batch(
    train: Dataset, valid: Dataset | None, test: Dataset, params: Mapping[str, Any], n_columns: int
) -> tuple[dict[str, Any], int, Floats]:
    refuse_unknown(BATCH, params, parameters(RankRLS))
    known = dict(params)
    if "lam" not in known and valid is not None:
        known["lam"] = GRID
    try:
        model = RankRLS(**known)
    except (TypeError, ValueError) as error:
        raise ConfigError(f"rankrls cannot take {dict(params)}: {error}") from None
    if valid is None and (model.method != "tikhonov" or np.size(model.lam) > 1):
        raise ConfigError(
            f"rankrls with method {model.method!r} and lam {model.lam} chooses on lists held out: "
            "give them by --valid FILE"
        )
    held_out = None if valid is None else (_matrix(valid, n_columns), valid.y, _queries(valid))
    try:
        model.fit(_matrix(train, n_columns), train.y, _queries(train), valid=held_out)
    except ValueError as error:
        raise ConfigError(f"rankrls cannot learn from this: {error}") from None
    chosen = {**params, "lam": model.report.lam, "solver": model.report.solver}
    return chosen, model.report.n_iter, model.predict(_matrix(test, n_columns))


def _best_ridge(ranker: LinearRegressionRanker, valid: Dataset) -> float:
    """The ridge whose exact solution orders the validation lists best; of equal ones the largest."""
    errors = {lam: measures(valid, _predicted(valid, ranker.solve(lam)))["pairwise_error"] for lam in RIDGES}
    return min(RIDGES, key=lambda lam: (errors[lam], -lam))


def _predicted(data: Dataset, solution: Solution) -> Floats:
    return linear_scores(data, solution.w) + solution.intercept


def measures(data: Dataset, scores: Floats) -> dict[str, float]:
    """Means over the lists that have a value; RMS and accuracy (score rounded to a label) over the rows."""
    columns = [*(f"ndcg@{k}" for k in CUTS), "map", "pairwise_error"]
    rows = []
    for first, end in zip(data.lists[:-1], data.lists[1:], strict=True):
        y, s = data.y[first:end], scores[first:end]
        rows.append([*(ndcg(y, s, k) for k in CUTS), average_precision(y, s), pairwise_error(y, s)])
    values = np.array(rows, dtype=np.float64).reshape(-1, len(columns))
    held = np.isfinite(values)
    means = np.where(held, values, 0.0).sum(axis=0) / np.maximum(held.sum(axis=0), 1)
    result = dict(zip(columns, means.tolist(), strict=True))
    rounded = np.clip(np.round(scores), data.y.min(initial=0.0), data.y.max(initial=0.0))
    result["rms"] = float(np.sqrt(np.mean((scores - data.y) ** 2))) if len(scores) else 0.0
    result["accuracy"] = float(np.mean(rounded == data.y)) if len(scores) else 0.0
    return result


def as_batch(data: Dataset, order: Ints, *, items: bool = False) -> Batch:
    """The lists of a data set, in an order, for a learner; with the keys of its documents where wanted."""
    sizes = np.diff(data.lists)[order]
    lists = np.concatenate([[0], np.cumsum(sizes)])
    rows = np.concatenate([np.arange(data.lists[q], data.lists[q + 1]) for q in order]).astype(np.int64)
    widths = np.diff(data.indptr)[rows]
    indptr = np.concatenate([[0], np.cumsum(widths)])
    entries = np.repeat(data.indptr[rows] - indptr[:-1], widths) + np.arange(indptr[-1])
    n = len(order)
    return Batch(
        indptr=indptr,
        indices=data.indices[entries],
        values=data.data[entries],
        lists=lists,
        y=data.y[rows],
        c=np.ones(len(rows)),
        mode=np.full(n, BY_LABEL, dtype=np.int8),
        pairs=np.zeros(n + 1, dtype=np.int64),
        better=np.zeros(0, dtype=np.int32),
        worse=np.zeros(0, dtype=np.int32),
        pair_c=np.zeros(0),
        queries=tuple(data.qids[q] for q in order),
        items=item_keys([data.docs[r] for r in rows]) if items else NO_ITEMS,
    )


def linear_scores(data: Dataset, w: Floats) -> Floats:
    """w'x of each row; columns that w does not have count nothing."""
    out = np.empty(len(data.y))
    score(data.indptr, data.indices, data.data, w, out)
    return out


def _matrix(data: Dataset, n_columns: int) -> Any:
    return scipy.sparse.csr_matrix((data.data, data.indices, data.indptr), shape=(len(data.y), n_columns))


def _queries(data: Dataset) -> Ints:
    return np.repeat(np.arange(data.n_lists), np.diff(data.lists))
