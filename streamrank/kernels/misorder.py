"""Misordered pairs of long lists in O(m log m): the pairwise error of a whole validation set.

Two labels of a list are compared, scores decide: a pair y_i > y_j counts 1 when s_i < s_j, 1/2 when they are
equal. The error is the mean over the lists that have such a pair of their share of them, [1] (1): each list
counts alike, however long; lists whose labels are all equal are left out.

References
----------
[1] Large scale training methods for linear RankRLS (Airola, Pahikkala, Salakoski), equation (1).
"""

import itertools

import numpy as np
import numpy.typing as npt

from .jit import jit

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]

SHORT = 64  # rows: up to here comparing every pair is faster than sorting


@jit
def _halves_short(level: Ints, scores: Floats) -> int:
    halves = 0  # integers: the order of counting cannot show in the result
    for i in range(len(level)):
        for j in range(i):
            if level[i] != level[j]:
                d = scores[i] - scores[j] if level[i] > level[j] else scores[j] - scores[i]
                halves += int(d < 0.0) + int(d <= 0.0)
    return halves


@jit
def _halves_sorted(level: Ints, scores: Floats, order: Ints, n_levels: int) -> int:
    """Walk the rows by descending score; a Fenwick tree over the labels counts those already met."""
    met = np.zeros(n_levels + 1, np.int64)
    halves, first, m = 0, 0, len(order)
    while first < m:
        end = first
        while end < m and scores[order[end]] == scores[order[first]]:
            end += 1
        for again in range(2):  # before and after the tied rows are entered: together 2 above + 1 tied
            for at in range(first, end):
                k = level[order[at]]  # labels below this one: levels 0 .. k-1, tree places 1 .. k
                while k > 0:
                    halves += met[k]
                    k -= k & -k
            if again == 0:
                for at in range(first, end):
                    k = level[order[at]] + 1
                    while k <= n_levels:
                        met[k] += 1
                        k += k & -k
        first = end
    return halves


@jit
def _short_errors(lists: Ints, level: Ints, n_pairs: Ints, scores: Floats, out: Floats) -> None:
    for q in range(len(n_pairs)):
        a, b = lists[q], lists[q + 1]
        if n_pairs[q] > 0 and b - a <= SHORT:
            out[q] = 0.5 * _halves_short(level[a:b], scores[a:b]) / n_pairs[q]


class PairwiseError:
    """The pairwise error of many score vectors against one set of judged lists.

    Scores must be finite. NaN when no list has two different labels.

    Examples
    --------
    >>> error = PairwiseError(np.array([1.0, 0.0, 2.0, 0.0, 0.0]), np.array([0, 2, 5]))
    >>> error(np.array([[0.1, 0.3], [0.2, 0.2], [0.5, 0.5], [0.5, 0.1], [0.1, 0.6]]))
    array([0.625, 0.25 ])
    """

    def __init__(self, y: Floats, lists: Ints) -> None:
        self.lists = np.ascontiguousarray(lists, np.int64)
        self._level = np.empty(len(y), np.int64)
        self._n_levels, self._n_pairs = np.zeros((2, len(lists) - 1), np.int64)
        for q, (a, b) in enumerate(itertools.pairwise(lists)):
            _, level, counts = np.unique(y[a:b], return_inverse=True, return_counts=True)
            self._level[a:b], self._n_levels[q] = level, len(counts)
            self._n_pairs[q] = ((b - a) ** 2 - (counts**2).sum()) // 2
        self._long = np.flatnonzero((np.diff(self.lists) > SHORT) & (self._n_pairs > 0))
        self._used = self._n_pairs > 0
        self.n_lists = int(self._used.sum())  # those that have a pair to compare

    def __call__(self, scores: Floats) -> Floats:
        """One error for each column of `scores` (rows x columns)."""
        return np.array([self.one(np.ascontiguousarray(column)) for column in scores.T])

    def one(self, scores: Floats) -> float:
        """The error of one score vector."""
        if not self.n_lists:
            return float("nan")
        errors = np.zeros(len(self._n_pairs))
        _short_errors(self.lists, self._level, self._n_pairs, scores, errors)
        for q in self._long:
            part = slice(self.lists[q], self.lists[q + 1])
            order = np.argsort(-scores[part])
            halves = _halves_sorted(self._level[part], scores[part], order, self._n_levels[q])
            errors[q] = 0.5 * halves / self._n_pairs[q]
        return float(errors[self._used].mean())
