"""What every feature ranker is: river's habits above, one array interface below."""

import abc
import math
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar, Self

import numpy as np
import river.base

from ..errors import ConfigError
from ..features.batch import BY_LABEL, EXAMPLE, Batch, BatchBuilder, Floats, Ints, item_keys, sparse_rows
from ..features.columns import Vocabulary
from ..features.layouts import Layouts

if TYPE_CHECKING:
    import pandas as pd

Features = Mapping[str, float]
StateEntries = dict[str, Any]  # name -> array, number, text or list of them: what a store can keep


class Ranker(river.base.MiniBatchRegressor):
    """A learner of scores that order the items of a query.

    It learns from scored examples (`learn_one`), preferences (`learn_pair`) and judged lists (`learn_list`);
    all three become a `Batch` for `learn_batch`, which does the work, so a batch of many is the same bits as
    one at a time. Names become columns in order of appearance, those of one example sorted, so the order of
    a dict's keys changes nothing; there is room for 2^26 names, later ones count nothing. A value of NaN is
    missing, as if its name were not there. Predicting changes nothing at all.
    """

    explores: ClassVar[bool] = False  # whether `shown_order` samples, so that no ranking need be shuffled
    wants_items: ClassVar[bool] = False  # whether it keeps values by item: a batch should then carry `items`

    def __init__(self) -> None:
        # what is learnt stays private: it is reached through to_state
        self._columns = Vocabulary(limit=1 << 26)
        self._layouts = Layouts(self._columns)

    # -- the array interface: what a learner must define ---------------------------------------------------

    @abc.abstractmethod
    def learn_batch(self, batch: Batch) -> Floats:
        """Learn each list in order; returns the score each row had just before its list was learnt."""

    @abc.abstractmethod
    def scores(self, batch: Batch) -> Floats:
        """The score of each row as served now; changes nothing."""

    @abc.abstractmethod
    def explain_columns(self, batch: Batch) -> Floats:
        """The share of each stored value of `batch` in its row's score (their sum, for a linear learner)."""

    @abc.abstractmethod
    def to_state(self) -> StateEntries:
        """All that was learnt, by name, and how many lists were "refused".

        Arrays are the learner's own memory: copy before changing them.
        """

    @abc.abstractmethod
    def from_state(self, state: Mapping[str, Any]) -> None:
        """Take up a saved state; the parameters are this learner's own."""

    @abc.abstractmethod
    def dirty(self) -> dict[str, list[int] | None]:
        """Names whose entry changed since the last call: which blocks of 4096, or None for the whole.

        A name that is not in `to_state` any more is gone.
        """

    @abc.abstractmethod
    def merge(self, other: Self, columns: Ints | None = None) -> None:
        """Take in what another shard of the same model learnt.

        ``columns[j]`` is the column here of the other's column j; without it the dict interface's names are
        matched, or, where none are used, columns are the same on both sides.
        """

    def served_weights(self) -> Floats:
        """The weight of each column on raw values, as served now; `ConfigError` where there is no such."""
        raise ConfigError(f"{type(self).__name__} does not score by one weight a column")

    def take_weights(self, w: Floats) -> None:
        """Serve these weights, one a column on raw values, and learn on from them; columns beyond weigh 0.

        What else was learnt (statistics, moments, step sizes) stays.
        """
        raise ConfigError(f"{type(self).__name__} cannot take {len(w)} weights: it has not one a column")

    def shown_order(self, scores: Floats, draw: int) -> Ints:  # noqa: ARG002
        """The order in which to show rows of these scores: best first, ties as they came.

        A learner that explores samples one instead: a function of the scores and the number `draw`, which is
        to be another for each ranking. Asking changes nothing.
        """
        return np.argsort(-scores, kind="stable")

    def entries(self, names: Iterable[str]) -> StateEntries:
        """The named entries of `to_state`, without those that are gone."""
        state = self.to_state()
        return {name: state[name] for name in names if name in state}

    @property
    def refused(self) -> int:
        """How many lists were refused so far: they held a value or weight beyond all sense."""
        return int(self.to_state()["refused"])

    # -- river's interface ---------------------------------------------------------------------------------

    def learn_one(self, x: Features, y: float, query: str = "") -> None:  # type: ignore[override]
        """Learn one scored example of a query."""
        self._learn([x], [y], None, EXAMPLE, query)

    def learn_pair(self, better: Features, worse: Features, weight: float = 1.0) -> None:
        """Learn that one item is better than another: a list of two."""
        self._learn([better, worse], [1.0, 0.0], [weight, weight], BY_LABEL, "")

    def learn_list(
        self,
        xs: Sequence[Features],
        ys: Sequence[float],
        query: str = "",
        weights: Sequence[float] | None = None,
        items: Sequence[str] | None = None,
    ) -> None:
        """Learn a judged list: items, their labels, and the weight of each where it is the better one.

        `items` are their ids, for learners that remember an item of a query (SONG); without, its place.
        """
        if items is not None and len(items) != len(xs):
            raise ValueError(f"a list of {len(xs)} items came with {len(items)} ids")
        if len(xs) != len(ys) or (weights is not None and len(weights) != len(xs)):
            raise ValueError(
                f"a list of {len(xs)} items came with {len(ys)} labels"
                + (f" and {len(weights)} weights" if weights is not None else "")
            )
        self._learn(xs, ys, weights, BY_LABEL, query, items if self.wants_items else None)

    def learn_many(self, X: "pd.DataFrame", y: "pd.Series[Any]") -> None:
        """Learn each row of a frame as an example of the global query, in order."""
        for x, target in zip(_records(X), y, strict=True):
            self.learn_one(x, float(target))

    def predict_one(self, x: Features) -> float:  # type: ignore[override]
        """The score of an item; unknown names count nothing."""
        return float(self.scores(self._known([x]))[0])

    def predict_many(self, X: "pd.DataFrame") -> "pd.Series[Any]":
        """The scores of the rows of a frame."""
        import pandas as pd  # optional, as in river: whoever passes a frame has it

        return pd.Series(self.scores(self._known(_records(X))), index=X.index, name="score", dtype=float)

    def rank(self, xs: Sequence[Features]) -> list[int]:
        """The indices of `xs`, best first; ties keep their order."""
        return [int(i) for i in np.argsort(-self.scores(self._known(xs)), kind="stable")]

    def explain(self, x: Features) -> dict[str, float]:
        """Each feature's share of the score of `x`, largest first."""
        batch = self._known([x])
        shares = self.explain_columns(batch)
        named = [
            (self._columns.name(int(j)), float(share)) for j, share in zip(batch.indices, shares, strict=True)
        ]
        return dict(sorted(named, key=lambda pair: (-abs(pair[1]), pair[0])))

    # -- dicts to arrays -----------------------------------------------------------------------------------

    def _learn(
        self,
        xs: Sequence[Features],
        y: Sequence[float],
        c: Sequence[float] | None,
        mode: int,
        query: str,
        items: Sequence[str] | None = None,
    ) -> None:
        batch = self._layouts.batch(xs, y, c, mode, query)
        if batch is None:
            builder = BatchBuilder()
            rows = sparse_rows([self._row(x) for x in xs])
            builder.add(rows, list(y), [1.0] * len(xs) if c is None else list(c), mode, query=query)
            batch = builder.build()
        if items is not None:
            batch = batch._replace(items=item_keys(items))
        self.learn_batch(batch)

    def _take_names(self, state: Mapping[str, Any]) -> None:
        self._columns.from_state({key: state[key] for key in state if key.startswith("names#")})
        self._layouts.clear()

    def _row(self, x: Features) -> dict[int, float]:
        # sorted: names new in this example get their columns in an order of their own, not the dict's
        columns = self._columns
        rows = ((columns.add(name), float(x[name])) for name in sorted(x) if not math.isnan(x[name]))
        return dict(sorted(row for row in rows if row[0] >= 0))

    def _known(self, xs: Sequence[Features]) -> Batch:
        batch = self._layouts.batch(xs)
        if batch is not None:
            return batch
        find = self._columns.find
        rows = [
            dict(
                sorted(
                    (j, float(v))
                    for j, v in ((find(name), x[name]) for name in x)
                    if j >= 0 and not math.isnan(v)
                )
            )
            for x in xs
        ]
        builder = BatchBuilder()
        builder.add(sparse_rows(rows), [0.0] * len(xs), [0.0] * len(xs))
        return builder.build()


def _records(X: "pd.DataFrame") -> list[dict[str, float]]:
    names = [str(name) for name in X.columns]
    return [dict(zip(names, row, strict=True)) for row in X.to_numpy().tolist()]
