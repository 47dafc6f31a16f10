"""ApproxNDCG: NDCG with smooth places."""

from ..kernels.losses import APPROXNDCG
from .checking import positive
from .linear import LinearRanker


class ApproxNDCG(LinearRanker):
    """One Adam step a list on NDCG with the place of a row replaced by a sum of sigmoids.

    Gains are c (2^y - 1), or y c of a scored list, over the ideal DCG without weights.

    Parameters
    ----------
    rate, horizon, scale, hidden
        As of `RankNet`.
    temperature
        Of the sigmoids, > 0: lower is nearer to NDCG and teaches only where scores are near each other.

    Examples
    --------
    >>> ranker = ApproxNDCG()
    >>> for _ in range(20):
    ...     ranker.learn_list([{"fresh": 1.0}, {"fresh": 0.5}, {"fresh": 0.0}], [2.0, 1.0, 0.0])
    >>> ranker.rank([{"fresh": 0.0}, {"fresh": 1.0}])
    [1, 0]

    References
    ----------
    [1] A general approximation framework for direct optimization of information retrieval measures,
        Information Retrieval 13, 2010.
    """

    _loss = APPROXNDCG

    def __init__(
        self,
        rate: float = 0.03,
        horizon: int = 5000,
        scale: bool = True,
        temperature: float = 1.0,
        hidden: int = 0,
    ) -> None:
        super().__init__(rate, horizon, scale, hidden)
        self.temperature = positive("temperature", temperature)
        self._knob = float(temperature)
