"""RankNet: the pairwise logistic loss."""

from ..kernels.losses import RANKNET
from .linear import LinearRanker


class RankNet(LinearRanker):
    """One Adam step a list on the pairwise logistic loss.

    With s = w'x, m the items of the list and P its pairs (i better than j, weight c),

        l(w) = (1/m) sum_P c log(1 + exp(s_j - s_i))                    (1)
        g    = (1/m) sum_P c sigmoid(s_j - s_i) (x_j - x_i)             (2)   the gradient of (1)
        w   <- Adam(w, g),   v <- v + a (w - v)                         (3)   v is served

    with a as in `streamrank.kernels.weights.decay`. A scored example is set against the last eight of its
    query; a preference is a list of two.

    Parameters
    ----------
    rate
        Step size of Adam, > 0. Lower it when the prequential metric jumps about.
    horizon
        Steps over which the served weights are averaged once the stream is long (before that: about the last
        half of it). 1 serves the last iterate; lower it where taste moves fast.
    scale
        Divide each column by its running spread, so that prices in thousands and rates below one learn alike.
    hidden
        Units of a hidden layer (`streamrank.kernels.hidden`); 0: none, the score is linear. Start without: it
        takes longer streams than most to earn its keep.

    Examples
    --------
    >>> ranker = RankNet()
    >>> for _ in range(20):
    ...     ranker.learn_pair(better={"fresh": 1.0, "price": 900.0}, worse={"fresh": 0.0, "price": 950.0})
    >>> ranker.rank([{"fresh": 0.0, "price": 940.0}, {"fresh": 1.0, "price": 910.0}])
    [1, 0]
    >>> ranker.predict_one({"fresh": 1.0}) > 0 > ranker.explain({"price": 900.0})["price"]
    True

    References
    ----------
    [1] Learning to rank using gradient descent, ICML 2005, section 3.
    """

    _loss = RANKNET
