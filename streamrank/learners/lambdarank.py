"""LambdaRank: pairs weighed by NDCG."""

from ..kernels.losses import LAMBDARANK
from .linear import LinearRanker


class LambdaRank(LinearRanker):
    """One step a list on pairs, each weighed by its weight c and by what swapping it would do to NDCG.

    Gains are 2^y - 1, or y c of a scored list; two rows of the same gain are no pair.

    Parameters
    ----------
    rate, horizon, scale, hidden
        As of `RankNet`.

    Examples
    --------
    >>> ranker = LambdaRank()
    >>> for _ in range(20):
    ...     ranker.learn_list([{"fresh": 1.0}, {"fresh": 0.5}, {"fresh": 0.0}], [2.0, 1.0, 0.0])
    >>> ranker.rank([{"fresh": 0.0}, {"fresh": 1.0}])
    [1, 0]

    References
    ----------
    [1] Learning to rank with nonsmooth cost functions, NIPS 2006.
    """

    _loss = LAMBDARANK

    def __init__(self, rate: float = 0.01, horizon: int = 5000, scale: bool = True, hidden: int = 0) -> None:
        super().__init__(rate, horizon, scale, hidden)
