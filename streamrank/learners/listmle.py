"""ListMLE: the likelihood of the right order."""

from ..kernels.losses import LISTMLE
from .linear import LinearRanker


class ListMLE(LinearRanker):
    """One Adam step a list on the Plackett-Luce likelihood of the order of its labels, over its rows.

    Each row that beats another is drawn from the rows that do not beat it, with weight c; tied rows have no
    order among them. Of clicks every clicked row is drawn from the whole list.

    Parameters
    ----------
    rate, horizon, scale, hidden
        As of `RankNet`.

    Examples
    --------
    >>> ranker = ListMLE()
    >>> for _ in range(20):
    ...     ranker.learn_list([{"fresh": 1.0}, {"fresh": 0.5}, {"fresh": 0.0}], [2.0, 1.0, 0.0])
    >>> ranker.rank([{"fresh": 0.0}, {"fresh": 1.0}])
    [1, 0]

    References
    ----------
    [1] Listwise approach to learning to rank: theory and algorithm, ICML 2008.
    """

    _loss = LISTMLE

    def __init__(self, rate: float = 0.01, horizon: int = 5000, scale: bool = True, hidden: int = 0) -> None:
        super().__init__(rate, horizon, scale, hidden)
