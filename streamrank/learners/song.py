"""SONG and K-SONG: NDCG by moving averages kept for each item of each query."""

from collections.abc import Iterable, Mapping
from typing import Any, Self

from ..errors import ConfigError
from ..features.batch import Batch, Ints
from ..kernels.losses import SONG as LOSS
from ..kernels.losses import Loss
from ..kernels.losses.song import SongSettings
from .base import StateEntries
from .checking import positive, whole
from .keyed import KeyedMemory
from .linear import LinearRanker


class SONG(LinearRanker):
    """One Adam step a list on smooth NDCG, whose places are moving averages over all lists of a query.

    For item i of query q, of gain a_i and weight c_i, N items known of the query,

        g-hat = 1/N sum over all N of l(s_j - s_i), estimated from the list shown; l(d) = max(0, d + margin)^2
        u[q,i] <- (1 - gamma) u[q,i] + gamma g-hat                                               (1)
        f(u)   = c_i (1 - 2^y)/(Z_q log2(1 + N u)),   slope f'(u) dg-hat/dw                      (2)

    so an impression of ten items teaches as part of its query's whole list. u starts at 0, floored in (2) at
    the item's own pair margin^2/N: new items first see a squared hinge. Which item is which the batch says
    (`items`), or `learn_list(items=…)`; without ids the place in the list counts as the item. N is how many
    items of the query have been shown, Z the largest ideal DCG of its lists. A list without a query, a pair,
    an example: as of a query that never comes again.

    Parameters
    ----------
    rate, horizon, scale, hidden
        As of `RankNet`.
    margin
        Of the squared hinge, > 0.
    gamma
        How much of u is new at each visit, above 0 up to 1, of lists judged by label, each row with a
        weight; what clicks say comes and goes, so of theirs u is all new.
    max_queries
        Queries remembered; the one used longest ago is forgotten whole and starts again at zero.
    max_items
        Items remembered of a query; the one that came first is forgotten.
    optimiser
        "adam", or "momentum": m <- .9 m + .1 g, w <- w - rate m, as in [1]; it wants a rate of about .003.

    Examples
    --------
    >>> ranker = SONG()
    >>> for _ in range(20):
    ...     ranker.learn_list([{"fresh": 1.0}, {"fresh": 0.0}], [1.0, 0.0], query="news", items=["a", "b"])
    >>> ranker.rank([{"fresh": 0.0}, {"fresh": 1.0}])
    [1, 0]

    References
    ----------
    [1] Large-scale stochastic optimization of NDCG surrogates for deep learning, ICML 2022.
    """

    _loss = LOSS
    wants_items = True

    def __init__(
        self,
        rate: float = 0.01,
        horizon: int = 5000,
        scale: bool = True,
        margin: float = 1.0,
        gamma: float = 0.1,
        max_queries: int = 20_000,
        max_items: int = 1000,
        optimiser: str = "adam",
        hidden: int = 0,
    ) -> None:
        if optimiser not in ("adam", "momentum"):
            raise ConfigError(f"optimiser is {optimiser!r}: adam or momentum")
        self.optimiser, self._adam = optimiser, optimiser == "adam"
        super().__init__(rate, horizon, scale, hidden)
        self.margin, self.gamma = positive("margin", margin), positive("gamma", gamma)
        if gamma > 1:
            raise ConfigError(f"gamma is {gamma!r}: above 0 and at most 1 (1 keeps nothing of what was)")
        self.max_queries = whole("max_queries", max_queries)
        self.max_items = whole("max_items", max_items, 2)
        self._keyed = KeyedMemory(max_queries, max_items)
        self._song = SongSettings(float(margin), float(gamma), 0.0, 0.1, 1e-4, 0.1, 0.9, False)

    def _loss_of(self, batch: Batch) -> Loss:
        visit = self._keyed.visit(batch)
        return Loss(self._loss, self._knob, self._song, self._keyed.chains, visit)

    def remembered(self, query: str) -> dict[str, Any]:
        """Item keys (the newest first), their u, lambda, its curvature and Z of a query."""
        return self._keyed.of(query)

    def to_state(self) -> StateEntries:
        """As of every linear ranker, and one entry a query."""
        return {**super().to_state(), **self._keyed.to_state()}

    def entries(self, names: Iterable[str]) -> StateEntries:
        """These entries of `to_state`; queries that did not change are not even looked at."""
        wanted = set(names)
        rest = {name: value for name, value in super().to_state().items() if name in wanted}
        return {**rest, **self._keyed.entries(wanted)}

    def from_state(self, state: Mapping[str, Any]) -> None:
        """Take up what `to_state` gave."""
        super().from_state(state)
        self._keyed.from_state(state)

    def dirty(self) -> dict[str, list[int] | None]:
        """As of every linear ranker, and the queries that were used or forgotten."""
        return {**super().dirty(), **dict.fromkeys(self._keyed.dirty())}

    def merge(self, other: Self, columns: Ints | None = None) -> None:
        """Average the weights, unite the memories."""
        super().merge(other, columns)
        self._keyed.merge(other._keyed)


class KSONG(SONG):
    """SONG for NDCG@K: an item counts by how surely it is among the first K.

    With lambda_q the score that K of the query's N items exceed, f of SONG is multiplied by
    psi = sigmoid(2 (s_i - lambda_q)), and Z is of the first K places. lambda_q starts where
    (K + 1/2)/N + tau2 lambda - mean sigmoid((s - lambda)/tau1) = 0, then moves by a tenth of that a visit.
    It depends on w, so the slope holds psi' f (ds_i - dlambda); `practical` leaves that out. Where the query
    has no more than K items psi is 1.

    Parameters
    ----------
    k
        How many places count.
    practical
        Without the slope of psi: cheaper, and about as good.
    rate, horizon, scale, hidden, margin, gamma, max_queries, max_items, optimiser
        As of `SONG`.

    Examples
    --------
    >>> ranker = KSONG(k=1)
    >>> for _ in range(20):
    ...     ranker.learn_list([{"fresh": 1.0}, {"fresh": 0.0}], [1.0, 0.0], query="news", items=["a", "b"])
    >>> ranker.rank([{"fresh": 0.0}, {"fresh": 1.0}])
    [1, 0]

    References
    ----------
    [1] Large-scale stochastic optimization of NDCG surrogates for deep learning, ICML 2022.
    """

    def __init__(
        self,
        k: int = 10,
        rate: float = 0.01,
        horizon: int = 5000,
        scale: bool = True,
        margin: float = 1.0,
        gamma: float = 0.1,
        max_queries: int = 20_000,
        max_items: int = 1000,
        optimiser: str = "adam",
        practical: bool = False,
        hidden: int = 0,
    ) -> None:
        super().__init__(rate, horizon, scale, margin, gamma, max_queries, max_items, optimiser, hidden)
        if not isinstance(practical, bool):
            raise ConfigError(f"practical is {practical!r}: true or false")
        self.k, self.practical = whole("k", k), practical
        self._song = self._song._replace(top=float(k), practical=practical)
