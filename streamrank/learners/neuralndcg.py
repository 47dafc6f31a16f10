"""NeuralNDCG: NDCG with smooth sorting."""

from ..kernels.losses import NEURALNDCG
from .checking import positive
from .linear import LinearRanker


class NeuralNDCG(LinearRanker):
    """One Adam step a list on NDCG of the list sorted by a relaxed permutation (NeuralSort).

    Gains are c (2^y - 1), or y c of a scored list, over the ideal DCG without weights.

    Parameters
    ----------
    rate, horizon, scale, hidden
        As of `RankNet`.
    temperature
        Of the permutation, > 0: lower is nearer to sorting.

    Examples
    --------
    >>> ranker = NeuralNDCG()
    >>> for _ in range(20):
    ...     ranker.learn_list([{"fresh": 1.0}, {"fresh": 0.5}, {"fresh": 0.0}], [2.0, 1.0, 0.0])
    >>> ranker.rank([{"fresh": 0.0}, {"fresh": 1.0}])
    [1, 0]

    References
    ----------
    [1] NeuralNDCG: direct optimisation of a ranking metric via differentiable relaxation of sorting, 2021.
    """

    _loss = NEURALNDCG

    def __init__(
        self,
        rate: float = 0.03,
        horizon: int = 5000,
        scale: bool = True,
        temperature: float = 10.0,
        hidden: int = 0,
    ) -> None:
        super().__init__(rate, horizon, scale, hidden)
        self.temperature = positive("temperature", temperature)
        self._knob = float(temperature)
