"""The quality of one ranked list: labels and scores in, one number out.

The rules, for every function alike:

- Items are ranked by descending score; equal scores keep their input order; NaN scores come last.
- An item is relevant when its label y > 0; a NaN label is not.
- `k` looks at the first k ranks only; k = 0 looks at all.
- A list without a relevant item (`pairwise_error`: without two different labels; `rms`: without an item) has
  no value: NaN. Averages leave it out, for no ranking of it is better than another.

`list_metrics` is the same for many lists at once and is built of the same pieces, so its numbers are the
same to the last bit. All take contiguous float64 arrays.

>>> y = np.array([0.0, 2.0, 0.0, 1.0])
>>> scores = np.array([0.9, 0.8, 0.1, 0.4])
>>> ranked(scores)
array([0, 1, 3, 2])
>>> round(ndcg(y, scores, 10), 3)
0.659
>>> reciprocal_rank(y, scores), recall_at(y, scores, 2), pairwise_error(y, scores)
(0.5, 0.5, 0.4)
>>> ndcg(np.zeros(4), scores, 10)
nan
"""

import numpy as np

from streamrank.features.batch import Floats, Ints
from streamrank.kernels.jit import jit

MAX_LABEL = 1000.0  # 2^1024 is infinite; below 2^1000 the gains of 2^23 items still have a finite sum
INSERTION = 32  # up to here the quadratic sort is the faster one: it calls and allocates nothing


@jit
def _check(y: Floats, scores: Floats) -> None:
    if len(y) != len(scores):  # compiled code would read past the end of the shorter one
        raise ValueError("labels and scores differ in length; give one score for every label")


@jit
def _rank_into(scores: Floats, order: Ints) -> None:
    n = len(scores)
    if n > INSERTION:
        order[:] = np.argsort(-scores, kind="mergesort")  # stable, and NaN last
        return
    for i in range(n):
        score = scores[i]
        j = i
        while j > 0:
            above = scores[order[j - 1]]
            if not (score > above or (np.isnan(above) and not np.isnan(score))):
                break
            order[j] = order[j - 1]
            j -= 1
        order[j] = i


@jit
def _gain(label: float) -> float:
    return float(np.exp2(min(label, MAX_LABEL)) - 1.0) if label > 0.0 else 0.0


@jit
def _n_relevant(y: Floats) -> int:
    n = 0
    for label in y:
        n += label > 0.0
    return n


@jit
def _n_cut(n: int, k: int) -> int:
    return min(n, k) if k > 0 else n


@jit
def _dcg(y: Floats, order: Ints, k: int) -> float:
    total = 0.0
    for rank in range(_n_cut(len(y), k)):
        gain = _gain(y[order[rank]])
        if gain > 0.0:  # most items of a clicked list have none: spare the logarithm
            total += gain / np.log2(rank + 2.0)
    return total


@jit
def _ndcg(y: Floats, order: Ints, ideal: Ints, k: int) -> float:
    _rank_into(y, ideal)
    best = _dcg(y, ideal, k)
    return _dcg(y, order, k) / best if best > 0.0 else np.nan


@jit
def _reciprocal_rank(y: Floats, order: Ints) -> float:
    for rank in range(len(y)):
        if y[order[rank]] > 0.0:
            return 1.0 / (rank + 1.0)
    return np.nan


@jit
def _pairwise_error(y: Floats, scores: Floats) -> float:
    lowest = np.inf
    for label in y:
        if label < lowest:
            lowest = label
    n_pairs, halves = 0, 0  # integers: the order of counting cannot show in the result
    for i in range(len(y)):
        if not y[i] > lowest:
            continue  # never the better one; so a list with few clicks costs n a click, not n^2
        if np.isnan(scores[i]):
            for j in range(len(y)):
                if y[j] < y[i]:
                    n_pairs += 1
                    halves += 1 if np.isnan(scores[j]) else 2
        else:  # a NaN score of the worse one compares false twice: it lies below, as it should
            for j in range(len(y)):
                if y[j] < y[i]:
                    n_pairs += 1
                    halves += int(scores[j] > scores[i]) + int(scores[j] >= scores[i])
    return 0.5 * halves / n_pairs if n_pairs > 0 else np.nan


@jit
def _n_hits(y: Floats, scores: Floats, k: int) -> int:
    order = ranked(scores)
    n = 0
    for rank in range(_n_cut(len(y), k)):
        n += y[order[rank]] > 0.0
    return n


@jit
def ranked(scores: Floats) -> Ints:
    """Rows by descending score: equal scores in input order, NaN last."""
    order = np.empty(len(scores), np.int64)
    _rank_into(scores, order)
    return order


@jit
def dcg(y: Floats, scores: Floats, k: int) -> float:
    """Discounted cumulative gain, sum over ranks r = 1..k of (2^y_r - 1) / log2(r + 1).

    Labels below 0 gain nothing, those above 1000 as much as 1000 (a finite sum). NaN without a relevant item.
    """
    _check(y, scores)
    return _dcg(y, ranked(scores), k) if _n_relevant(y) > 0 else np.nan


@jit
def ndcg(y: Floats, scores: Floats, k: int) -> float:
    """`dcg` over the dcg of the best order of the same list, in [0, 1]; NaN without a relevant item."""
    _check(y, scores)
    return _ndcg(y, ranked(scores), np.empty(len(y), np.int64), k)


@jit
def reciprocal_rank(y: Floats, scores: Floats) -> float:
    """1 / rank of the first relevant item; NaN without one."""
    _check(y, scores)
    return _reciprocal_rank(y, ranked(scores))


@jit
def average_precision(y: Floats, scores: Floats) -> float:
    """Mean over the relevant items of the precision at their rank; NaN without a relevant item."""
    _check(y, scores)
    order = ranked(scores)
    n, total = 0, 0.0
    for rank in range(len(y)):
        if y[order[rank]] > 0.0:
            n += 1
            total += n / (rank + 1.0)
    return total / n if n > 0 else np.nan


@jit
def precision_at(y: Floats, scores: Floats, k: int) -> float:
    """Relevant items in the first k ranks / k, also when the list is shorter (k = 0: / its length).

    NaN without a relevant item.
    """
    _check(y, scores)
    return _n_hits(y, scores, k) / (k if k > 0 else len(y)) if _n_relevant(y) > 0 else np.nan


@jit
def recall_at(y: Floats, scores: Floats, k: int) -> float:
    """Relevant items in the first k ranks / relevant items; NaN without a relevant item."""
    _check(y, scores)
    n = _n_relevant(y)
    return _n_hits(y, scores, k) / n if n > 0 else np.nan


@jit
def hit_at(y: Floats, scores: Floats, k: int) -> float:
    """1 when a relevant item is in the first k ranks, else 0; NaN without a relevant item."""
    _check(y, scores)
    return (1.0 if _n_hits(y, scores, k) > 0 else 0.0) if _n_relevant(y) > 0 else np.nan


@jit
def pairwise_error(y: Floats, scores: Floats) -> float:
    """Share of the pairs y_i > y_j with score_i < score_j, ties counting 1/2: [1] (1) for one list.

    Input order does not break ties here, so a constant scorer has 1/2; two NaN scores are tied. NaN when all
    labels are equal. Costs n x (items above the lowest label).

    References
    ----------
    [1] Large scale training methods for linear RankRLS (Airola, Pahikkala, Salakoski), equation (1).
    """
    _check(y, scores)
    return _pairwise_error(y, scores)


@jit
def rms(y: Floats, scores: Floats) -> float:
    """Root of the mean squared difference of score and label; NaN for an empty list or a NaN in it."""
    _check(y, scores)
    total = 0.0
    for i in range(len(y)):
        total += (scores[i] - y[i]) ** 2
    return float(np.sqrt(total / len(y))) if len(y) > 0 else np.nan


@jit
def list_metrics(lists: Ints, y: Floats, scores: Floats, k: int) -> Floats:
    """`ndcg` at k, `reciprocal_rank` and `pairwise_error` of every list, one row a list.

    List q holds rows ``lists[q]:lists[q+1]``, as in `streamrank.features.batch.Batch`.
    """
    _check(y, scores)
    longest = 0
    for q in range(len(lists) - 1):
        if not 0 <= lists[q] <= lists[q + 1] <= len(y):
            raise ValueError("borders of lists must ascend and stay within the labels")
        longest = max(longest, lists[q + 1] - lists[q])
    order, ideal = np.empty(longest, np.int64), np.empty(longest, np.int64)
    values = np.empty((len(lists) - 1, 3))
    for q in range(len(lists) - 1):
        start, end = lists[q], lists[q + 1]
        y_q, scores_q, order_q = y[start:end], scores[start:end], order[: end - start]
        _rank_into(scores_q, order_q)
        values[q, 0] = _ndcg(y_q, order_q, ideal[: end - start], k)
        values[q, 1] = _reciprocal_rank(y_q, order_q)
        values[q, 2] = _pairwise_error(y_q, scores_q)
    return values
