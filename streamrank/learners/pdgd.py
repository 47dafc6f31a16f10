"""PDGD: learning from clicks on lists that were shown in an order drawn at random."""

from ..features.batch import Floats, Ints
from ..kernels.losses import PDGD as LOSS
from ..kernels.sampling import plackett_luce
from .linear import LinearRanker


class PDGD(LinearRanker):
    """Pairwise differentiable gradient descent: it explores as far as it is unsure, and needs no theta.

    The order shown is drawn from the Plackett-Luce model of the scores s (`shown_order`): next comes each of
    the items left with chance exp(s_i)/sum exp(s). Of pairs (i better than j, weight c) of a list shown in
    the order R, R* being R with i and j exchanged,

        rho_ij = P(R*)/(P(R) + P(R*))                                                   (1)
        g      = -sum_P c rho_ij sigmoid'(s_i - s_j) (x_i - x_j)                        (2)
        m     <- .9 m + .1 g,   w <- w - rate m                                         (3)

    By (1) two items of equal worth pull at each other with equal strength, however the clicks favour the
    upper places. Slopes vanish as the order becomes sure, which ends the exploration: on MQ2007 what is shown
    is as good as the best order known after about 10,000 rankings.

    The rows of a list stand in the order in which they were shown, as those of every ranking do that comes
    from the stream. A judged list that was never shown to anybody counts as shown in the order given.

    Parameters
    ----------
    rate
        Step size, > 0. Lower explores longer.
    horizon
        As of `RankNet`. 1, the default, shows by the same weights that (1) is computed with.
    scale, hidden
        As of `RankNet`.

    Examples
    --------
    >>> import numpy as np
    >>> ranker = PDGD()
    >>> xs = [{"fresh": 0.0}, {"fresh": 1.0}, {"fresh": 0.2}]
    >>> for _ in range(300):
    ...     ranker.learn_list(xs, [0.0, 1.0, 0.0])  # the one in the middle was clicked
    >>> ranker.rank(xs)
    [1, 2, 0]
    >>> {tuple(ranker.shown_order(np.array([1.0, 0.0, 0.0]), draw).tolist()) for draw in range(9)} >= {
    ...     (0, 1, 2), (1, 0, 2)}
    True

    References
    ----------
    [1] Differentiable unbiased online learning to rank (Oosterhuis, de Rijke), CIKM 2018.
    """

    _loss = LOSS
    _adam = False
    explores = True

    def __init__(self, rate: float = 0.03, horizon: int = 1, scale: bool = True, hidden: int = 0) -> None:
        super().__init__(rate, horizon, scale, hidden)

    def shown_order(self, scores: Floats, draw: int) -> Ints:
        """An order drawn from the Plackett-Luce model of the scores, by the number `draw`."""
        return plackett_luce(scores, draw)
