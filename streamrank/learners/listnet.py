"""ListNet: who should stand first."""

from ..kernels.losses import LISTNET
from .linear import LinearRanker


class ListNet(LinearRanker):
    """One Adam step a list on the cross-entropy of the top-one probabilities.

    With p = softmax(s) over the list, gains a = 2^y - 1 and weights c: l = sum_i (c_i a_i/sum a)(-log p_i).
    Of clicks with inverse propensities c each click pulls c times; of a scored list the gain is y c.

    Parameters
    ----------
    rate, horizon, scale, hidden
        As of `RankNet`.

    Examples
    --------
    >>> ranker = ListNet()
    >>> for _ in range(20):
    ...     ranker.learn_list([{"fresh": 1.0}, {"fresh": 0.5}, {"fresh": 0.0}], [2.0, 1.0, 0.0])
    >>> ranker.rank([{"fresh": 0.0}, {"fresh": 1.0}])
    [1, 0]

    References
    ----------
    [1] Learning to rank: from pairwise approach to listwise approach, ICML 2007.
    """

    _loss = LISTNET

    def __init__(self, rate: float = 0.01, horizon: int = 5000, scale: bool = True, hidden: int = 0) -> None:
        super().__init__(rate, horizon, scale, hidden)
