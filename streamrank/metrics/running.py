"""The functions of one list as river metrics: their running mean over a stream of lists."""

import abc
import math

import numpy as np
import numpy.typing as npt
from river.base import Classifier, Clusterer, Estimator
from river.metrics.base import Metric, Metrics

from streamrank.errors import ConfigError
from streamrank.features.batch import Floats
from streamrank.metrics import functions


class RankingMetric(Metric):
    """Running mean, over the lists that have a value, of a function of one list.

    `update` and `revert` take the labels and the scores of ONE list, as sequences or arrays, and its weight.
    A list without a (finite) value is left out and weighs nothing: `streamrank.metrics.functions` says when
    that is, and how ties are ranked. Before the first value `get` is 0.0, as river has it.

    The sums carry their rounding errors along (Knuth's two-sum), so reverting what was updated returns to
    the value before; `river.utils.Rolling` therefore does not drift.
    """

    bigger_is_better = True
    requires_labels = True  # river: hand over what predict_one says, not probabilities

    def __init__(self) -> None:
        self._n_lists = 0
        self._total = (0.0, 0.0)  # sum of w * value, and the rounding errors made so far
        self._weight = (0.0, 0.0)

    @abc.abstractmethod
    def _value(self, y: Floats, scores: Floats) -> float: ...

    @property
    def name(self) -> str:
        """What the metric is called in reports."""
        return type(self).__name__

    @property
    def n_lists(self) -> int:
        """How many lists had a value."""
        return self._n_lists

    def update(self, y_true: npt.ArrayLike, y_pred: npt.ArrayLike, w: float = 1.0) -> None:
        """Take one list in."""
        self._move(y_true, y_pred, w, +1)

    def revert(self, y_true: npt.ArrayLike, y_pred: npt.ArrayLike, w: float = 1.0) -> None:
        """Take one list, updated earlier with the same arguments, out again."""
        self._move(y_true, y_pred, w, -1)

    def get(self) -> float:
        """The mean over the lists with a value; 0.0 when there is none yet."""
        weight = sum(self._weight)
        return sum(self._total) / weight if self._n_lists and weight > 0.0 else 0.0

    def works_with(self, model: Estimator) -> bool:
        """True for what scores items with predict_one; a class or a cluster is not a score."""
        return callable(getattr(model, "predict_one", None)) and not isinstance(model, Classifier | Clusterer)

    def _move(self, y_true: npt.ArrayLike, y_pred: npt.ArrayLike, w: float, sign: int) -> None:
        y, scores = np.ascontiguousarray(y_true, np.float64), np.ascontiguousarray(y_pred, np.float64)
        if np.ndim(y_true) != 1 or np.ndim(y_pred) != 1:
            raise ValueError(
                f"{self.name} takes the labels and the scores of one list, not {y_true!r} and {y_pred!r}"
            )
        value = self._value(y, scores)
        if not math.isfinite(value):
            return
        if self._n_lists + sign < 0:
            raise ValueError(f"{self.name}: a list is reverted that was never updated")
        self._n_lists += sign
        self._total = _add(self._total, sign * w * value)
        self._weight = _add(self._weight, sign * w)

    def __add__(self, other: Metric) -> Metrics:
        if not isinstance(other, RankingMetric):
            raise ValueError(f"{self.name} and {type(other).__name__} metrics are not compatible")
        return Metrics([self, other])

    def __repr__(self) -> str:
        return f"{self.name}: {self.get():,.4f}"


class _AtK(RankingMetric):
    """A metric of the first k ranks; k = 0 takes the whole list."""

    def __init__(self, k: int = 10) -> None:
        if k < 0:
            raise ConfigError(f"k = {k}: the number of ranks looked at is 1 or more, or 0 for all")
        super().__init__()
        self.k = k

    @property
    def name(self) -> str:
        """What the metric is called in reports, such as NDCG@10."""
        name = type(self).__name__.removesuffix("At")
        return f"{name}@{self.k}" if self.k else name


def _add(a: tuple[float, float], b: float) -> tuple[float, float]:
    total, rest = a
    s = total + b
    seen = s - total
    return s, rest + ((total - (s - seen)) + (b - seen))


class NDCG(_AtK):
    """Mean `ndcg` of the first k ranks.

    Parameters
    ----------
    k
        How many ranks count; 0 for all.

    Examples
    --------
    >>> metric = NDCG(k=10)
    >>> metric.update([0, 2, 0, 1], [0.9, 0.8, 0.1, 0.4])
    >>> metric.update([0, 0], [0.3, 0.2])  # no relevant item: left out
    >>> metric
    NDCG@10: 0.6590
    >>> metric + MRR()
    NDCG@10: 0.6590
    MRR: 0.0000
    """

    def _value(self, y: Floats, scores: Floats) -> float:
        return functions.ndcg(y, scores, self.k)


class DCG(_AtK):
    """Mean `dcg` of the first k ranks (0: all).

    >>> metric = DCG(k=2)
    >>> metric.update([1, 1, 1], [0.3, 0.2, 0.1])
    >>> metric
    DCG@2: 1.6309
    """

    def _value(self, y: Floats, scores: Floats) -> float:
        return functions.dcg(y, scores, self.k)


class MRR(RankingMetric):
    """Mean `reciprocal_rank`.

    >>> metric = MRR()
    >>> metric.update([0, 1], [0.3, 0.2])
    >>> metric
    MRR: 0.5000
    """

    def _value(self, y: Floats, scores: Floats) -> float:
        return functions.reciprocal_rank(y, scores)


class MAP(RankingMetric):
    """Mean `average_precision`.

    >>> metric = MAP()
    >>> metric.update([1, 0, 1], [0.3, 0.2, 0.1])
    >>> metric
    MAP: 0.8333
    """

    def _value(self, y: Floats, scores: Floats) -> float:
        return functions.average_precision(y, scores)


class PrecisionAt(_AtK):
    """Mean `precision_at` k (0: the whole list).

    >>> metric = PrecisionAt(k=2)
    >>> metric.update([1, 0, 1], [0.3, 0.2, 0.1])
    >>> metric
    Precision@2: 0.5000
    """

    def _value(self, y: Floats, scores: Floats) -> float:
        return functions.precision_at(y, scores, self.k)


class RecallAt(_AtK):
    """Mean `recall_at` k (0: the whole list).

    >>> metric = RecallAt(k=1)
    >>> metric.update([1, 0, 1], [0.3, 0.2, 0.1])
    >>> metric
    Recall@1: 0.5000
    """

    def _value(self, y: Floats, scores: Floats) -> float:
        return functions.recall_at(y, scores, self.k)


class HitAt(_AtK):
    """Share of the lists with a relevant item in the first k ranks (0: the whole list).

    >>> metric = HitAt(k=1)
    >>> metric.update([1, 0, 1], [0.3, 0.2, 0.1])
    >>> metric
    Hit@1: 1.0000
    """

    def _value(self, y: Floats, scores: Floats) -> float:
        return functions.hit_at(y, scores, self.k)


class PairwiseError(RankingMetric):
    """Mean `pairwise_error`: of the pairs of a list with different labels, the share in the wrong order.

    >>> metric = PairwiseError()
    >>> metric.update([1, 0, 1], [0.3, 0.2, 0.1])
    >>> metric
    PairwiseError: 0.5000
    """

    bigger_is_better = False

    def _value(self, y: Floats, scores: Floats) -> float:
        return functions.pairwise_error(y, scores)


class ListRMS(RankingMetric):
    """Mean over lists of the root mean square of score - label; also of lists without a relevant item.

    >>> metric = ListRMS()
    >>> metric.update([1, 0], [0.0, 1.0])
    >>> metric
    ListRMS: 1.0000
    """

    bigger_is_better = False

    def _value(self, y: Floats, scores: Floats) -> float:
        return functions.rms(y, scores)
