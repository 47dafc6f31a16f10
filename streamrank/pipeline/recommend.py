"""Who liked what: train on a part and rank all items for each user, or rank each click as it comes."""

import time
from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from ..errors import ConfigError
from ..features.batch import Floats, Ints
from ..learners.registry import build_recommender
from ..sources.ratings import Interactions
from .recommender import CUT, hits

Mask = npt.NDArray[np.bool_]


def split(data: Interactions, how: str, seed: int) -> Mask:
    """Which rows are trained on: all but each user's last, a random share, or those before a share of time.

    `leave-last` keeps the only row of a user for training; rows of one time count in file order.
    """
    n = len(data.user)
    kind, _, text = how.partition(":")
    if kind == "leave-last" and not text:
        order = np.lexsort((np.arange(n), data.time_ms, data.user))
        last = np.append(data.user[order][1:] != data.user[order][:-1], True)
        train = np.ones(n, bool)
        train[order[last]] = np.bincount(data.user)[data.user[order[last]]] < 2
        return train
    try:
        share = float(text)
    except ValueError:
        share = 0.0
    if kind not in ("ratio", "time") or not 0 < share < 1:
        raise ConfigError(f"--split {how}: give leave-last, ratio:0.8 or time:0.8 (a share between 0 and 1)")
    if kind == "ratio":
        chosen: Mask = np.random.default_rng(seed).random(n) < share
        return chosen
    early = np.zeros(n, bool)
    early[np.argsort(data.time_ms, kind="stable")[: round(share * n)]] = True
    return early


def evaluate_interactions(
    data: Interactions,
    *,
    learner: str,
    params: Mapping[str, Any],
    passes: int,
    how: str,
    seed: int,
) -> dict[str, Any]:
    """Train on one part, rank all items the user was not trained on, compare with the rest.

    Of a `time` split the first pass goes in time order; every other pass is shuffled by `fit`. Means are over
    the users that have something to find; what a user was trained on is not asked for again; an item that was
    never trained on cannot be found and counts as missed.
    """
    _refuse_none(data)
    train = split(data, how, seed)
    users, items = data.user[train].astype(np.int64), data.item[train].astype(np.int64)
    if not len(users) or train.all():
        raise ConfigError(f"--split {how} leaves nothing to train on, or nothing to test: give more rows")
    order = np.argsort(data.time_ms[train], kind="stable")
    began = time.perf_counter()
    if learner == "popularity":
        counts = np.bincount(items, minlength=len(data.items)).astype(np.float64)
        U, V = np.ones((len(data.users), 1)), counts[:, None]
    else:
        model = build_recommender(learner, {"seed": seed, **params})
        if in_order := how.startswith("time"):
            model.learn_batch(users[order], items[order])
        try:
            model.fit(users, items, passes=passes - in_order)
        except ValueError as error:
            raise ConfigError(str(error).partition(", or")[0]) from None
        U, V = model.factors_of(range(len(data.users)), range(len(data.items)))
    seconds = time.perf_counter() - began
    V[np.bincount(items, minlength=len(data.items)) == 0] = -np.inf
    return {
        "learner": learner,
        "split": how,
        "passes": passes,
        "seconds": seconds,
        "us_per_click": 1e6 * seconds / (len(users) * passes),
        "test": measures(U, V, (users, items), (data.user[~train], data.item[~train])),
    }


def measures(U: Floats, V: Floats, train: tuple[Any, Any], test: tuple[Any, Any]) -> dict[str, float]:
    """Precision@1 and @10, recall@10 and NDCG@10 of all items but those trained on, means over users."""
    known: Mask = np.asarray(np.isfinite(V).all(axis=1))
    V = np.where(known[:, None], V, 0.0)
    rows = np.unique(test[0])
    discount = 1.0 / np.log2(np.arange(CUT) + 2.0)
    ideal = np.concatenate([[0.0], np.cumsum(discount)])
    totals, n_seen = np.zeros(4), 0
    by_train, by_test = _grouped(*train, len(U)), _grouped(*test, len(U))
    for user in rows.tolist():
        trained = by_train[0][by_train[1][user] : by_train[1][user + 1]]
        scores = V @ U[user]
        scores[~known] = -np.inf
        scores[trained] = -np.inf
        wanted = np.setdiff1d(by_test[0][by_test[1][user] : by_test[1][user + 1]], trained)
        if not len(wanted):
            continue
        k = min(CUT, len(scores))
        best = np.argpartition(-scores, k - 1)[:k]
        best = best[np.lexsort((best, -scores[best]))]
        hits = np.isin(best, wanted) & (scores[best] > -np.inf)
        found = hits.sum()
        totals += (
            hits[0],
            found / CUT,
            found / len(wanted),
            hits @ discount[:k] / ideal[min(len(wanted), CUT)],
        )
        n_seen += 1
    names = ("precision@1", f"precision@{CUT}", f"recall@{CUT}", f"ndcg@{CUT}")
    return dict(zip(names, (totals / max(n_seen, 1)).tolist(), strict=True))


def rank_as_they_come(
    data: Interactions, *, learner: str, params: Mapping[str, Any], seed: int
) -> dict[str, Any]:
    """Every row in time order ranked against all items known so far, then learnt: HR@10 and NDCG@10.

    What the user had before is not among them. A row whose item is new counts as missed.
    """
    _refuse_none(data)
    order = np.argsort(data.time_ms, kind="stable")
    users, items = data.user[order], data.item[order]
    began = time.perf_counter()
    if learner == "popularity":
        ranked = popularity_ranks(users, items)
    else:
        ranked = build_recommender(learner, {"seed": seed, **params}).prequential(users, items)
    hit, gain = hits(ranked)
    seconds = time.perf_counter() - began
    return {
        "learner": learner,
        "split": "prequential",
        "seconds": seconds,
        "us_per_click": 1e6 * seconds / max(len(order), 1),
        "test": {f"hr@{CUT}": float(hit.mean()), f"ndcg@{CUT}": float(gain.mean())},
    }


def popularity_ranks(users: Any, items: Any) -> Ints:
    """As `RoBiRankMF.prequential`, by the number of clicks so far.

    >>> popularity_ranks([0, 0, 1, 1], [5, 6, 6, 5])
    array([-1, -1,  0,  0])
    """
    counts = np.zeros(max(items) + 1, np.int64)
    had: dict[int, list[int]] = {}
    ranked = np.full(len(users), -1, np.int64)
    for t, (user, item) in enumerate(zip(users, items, strict=True)):
        mine = had.setdefault(int(user), [])
        if counts[item]:
            others = counts.copy()
            others[[*mine, item]] = 0
            ranked[t] = (others > counts[item]).sum() + (others == counts[item]).sum() // 2
        mine.append(item)
        counts[item] += 1
    return ranked


def _refuse_none(data: Interactions) -> None:
    if not len(data.user):
        raise ConfigError("--interactions: there is no row in it, so nothing to learn from: check the file")


def _grouped(users: Any, items: Any, n_users: int) -> tuple[Ints, Ints]:
    order = np.argsort(users, kind="stable")
    starts = np.concatenate([[0], np.cumsum(np.bincount(users, minlength=n_users))])
    return items[order], starts
