"""LinearRegressionRanker: predict the label of each item, rank by the prediction."""

from collections.abc import Mapping
from typing import Any, Self

import numpy as np

from ..errors import ConfigError
from ..features.batch import Batch, Floats, Ints
from ..kernels.pointwise import examples
from .base import Ranker, StateEntries
from .closedform import ClosedForm, Solution
from .descent import Descent

SOLVERS = ("closed", "sgd")


class LinearRegressionRanker(Ranker):
    """Least squares on the labels themselves: a score is a predicted label, intercept included.

    With rows N, E(w) = 1/2 sum (y - w_0 - w'x)^2 + (lam N/2)|w|^2, [1] (3), (4), the intercept w_0 free:

        closed   (A + lam N) w = b,  A = sum (x - mean)(x - mean)',  b = sum (x - mean)(y - mean of y)  (1)
        sgd      w <- w + eta ((y - w_0 - w'x) x - lam w)                                               (2)

    (1) is exact on a stream, and shards add up. (2) is [1] (6)-(10), its ridge over the number of rows, as
    else one pass regularises N times more than (1); the step is an implicit one, which cannot diverge, and
    the running average of w is served.

    Every row of a list is an example of its label, so a list without a preference teaches too. Where the rows
    have different weights, as clicks have, each counts by the pairs it takes part in; a preference is an
    example of 1 and one of 0 (`streamrank.kernels.pointwise`). As in any least squares an outlier counts with
    its square.

    Parameters
    ----------
    solver
        "closed" for up to `columns` columns, "sgd" for any number. Behind `GaussianBasis` either.
    lam
        Ridge per row seen, > 0.
    rate
        eta of sgd, > 0. One rate suits columns of about one size: put a `StandardScaler` before it where they
        are not.
    horizon
        Of sgd: steps over which the served weights are averaged once the stream is long (before that: about
        the last half of it). 1 serves the last ones.
    intercept
        False fixes w_0 at 0: behind `GaussianBasis`, whose phi_0 is 1, this is [1] (4) to the letter.
    columns
        Of closed: A holds the square of this many columns at most; later columns count nothing.

    Examples
    --------
    >>> ranker = LinearRegressionRanker(lam=1e-9)
    >>> for price, stars in ((3.0, 5.0), (9.0, 2.0), (5.0, 4.0), (4.0, 4.5)):
    ...     ranker.learn_one({"price": price}, stars)
    >>> round(ranker.predict_one({"price": 7.0}), 3)
    3.0
    >>> ranker.rank([{"price": 8.0}, {"price": 4.0}])
    [1, 0]

    References
    ----------
    [1] Learning to rank using linear regression (Shikhar).
    """

    def __init__(
        self,
        solver: str = "closed",
        lam: float = 1e-4,
        rate: float = 0.03,
        horizon: int = 20_000,
        intercept: bool = True,
        columns: int = 1024,
    ) -> None:
        super().__init__()
        if solver not in SOLVERS:
            raise ConfigError(f"solver is {solver!r}: choose one of {', '.join(SOLVERS)}")
        if not 0 < lam < np.inf or not 0 < rate < np.inf:
            raise ConfigError(f"lam is {lam}, rate is {rate}: both are numbers above 0")
        if isinstance(horizon, bool) or not isinstance(horizon, int) or horizon < 1:
            raise ConfigError(f"horizon is {horizon!r}: a whole number of steps, at least 1")
        if not 1 <= columns <= 20_000:
            raise ConfigError(
                f"columns is {columns}: A holds its square, so 1 to 20000 (1024 is the default)"
            )
        self.solver, self.lam, self.rate, self.horizon = solver, lam, rate, horizon
        self.intercept, self.columns = intercept, columns
        self._learnt: ClosedForm | Descent
        if solver == "closed":
            self._learnt = ClosedForm(lam, intercept, columns)
        else:
            self._learnt = Descent(lam, rate, horizon, intercept)
        self._refused = 0

    def learn_batch(self, batch: Batch) -> Floats:
        """Learn each list in order; returns the score each row had just before its list was learnt."""
        out = np.empty(len(batch.y))
        arrays = batch.arrays
        target, weight, refused = examples(arrays[0], *arrays[2:])
        self._learnt.learn(batch, target, weight, out)
        self._refused += int(np.count_nonzero(refused))
        return out

    def scores(self, batch: Batch) -> Floats:
        """The predicted label of each row as served now; changes nothing."""
        return self._learnt.scores(batch.indptr, batch.indices, batch.values)

    def explain_columns(self, batch: Batch) -> Floats:
        """The share of each stored value in its row's score; the intercept belongs to none."""
        w = self._learnt.served().w
        known = batch.indices < len(w)
        return np.where(known, w[np.where(known, batch.indices, 0)] * batch.values, 0.0)

    def served(self) -> Solution:
        """The weight of each column and the intercept, as served now."""
        return self._learnt.served()

    def solve(self, lam: float | None = None) -> Solution:
        """The exact optimum of all that was seen, under this ridge or another; changes nothing."""
        if isinstance(self._learnt, Descent):
            raise ValueError("sgd keeps no statistics to solve: use solver='closed'")
        return self._learnt.solve(self.lam if lam is None else lam)

    # -- state ---------------------------------------------------------------------------------------------

    def to_state(self) -> StateEntries:
        """What the solver learnt, by name; names."""
        return {**self._learnt.to_state(), "refused": self._refused, **self._columns.to_state()}

    def from_state(self, state: Mapping[str, Any]) -> None:
        """Take up what `to_state` gave."""
        self._refused = int(state["refused"])
        self._take_names(state)
        self._learnt.from_state(state)

    def dirty(self) -> dict[str, list[int] | None]:
        """What changed of the solver, and names."""
        return {**self._learnt.dirty(), **dict.fromkeys(["refused", *self._columns.dirty()])}

    def merge(self, other: Self, columns: Ints | None = None) -> None:
        """Add the statistics of another shard: exact. Of sgd, average the weights."""
        if columns is None:
            theirs = [name for block in other._columns.to_state().values() for name in block]
            columns = np.array([self._columns.add(name) for name in theirs], dtype=np.int64)
            if not theirs:
                columns = np.arange(len(other.served().w), dtype=np.int64)
        if self.solver != other.solver:
            raise ConfigError(f"a shard by {other.solver!r} cannot be merged into one by {self.solver!r}")
        self._learnt.merge(other._learnt, columns)  # type: ignore[arg-type]
        self._refused += other._refused
