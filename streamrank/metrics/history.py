"""How quality went over a stream of any length, in a record of fixed size."""

from collections.abc import Mapping
from typing import Any, Self

import numpy as np

from streamrank.errors import ConfigError, SnapshotError
from streamrank.features.batch import Floats, Ints
from streamrank.kernels.jit import jit


@jit
def _add(sums: Floats, counts: Floats, width: int, index: Ints, values: Floats, sign: Floats) -> int:
    n_buckets, n_names = sums.shape
    for i in range(len(index)):
        while index[i] // width >= n_buckets:
            width *= 2
            for b in range(n_buckets):  # upwards, so bucket b // 2 has been emptied when it is written
                for j in range(n_names):
                    total, count = sums[b, j], counts[b, j]
                    sums[b, j], counts[b, j] = 0.0, 0.0
                    sums[b // 2, j] += total
                    counts[b // 2, j] += count
        b = index[i] // width
        for j in range(n_names):
            if np.isfinite(values[i, j]):
                sums[b, j] += sign[i] * values[i, j]
                counts[b, j] += sign[i]
    return width


class History:
    """Means of named values over the lists of a stream, in at most `buckets` buckets of `width` lists.

    List number `index` counts in bucket ``index // width``. A list past the last bucket doubles the width and
    adds neighbouring buckets up, as often as needed: (index // width) // 2 == index // (2 width), so a value
    can still be taken out (sign -1) of the bucket it has moved to. State: 2 x buckets x names numbers, a
    function of the sequence of adds alone, however they were batched.

    Parameters
    ----------
    names
        What the values are, such as ``("ndcg", "mrr", "error")``.
    buckets
        How many points the record has at most, >= 1.
    width
        How many lists a bucket holds at the start, >= 1.

    Examples
    --------
    >>> history = History(("ndcg",), buckets=2, width=2)
    >>> for index, ndcg in enumerate([0.1, 0.3, 0.5, 0.7, 0.9]):
    ...     history.add(index, np.array([ndcg]))
    >>> history.width
    4
    >>> x, means = history.series()
    >>> x, means.round(3)
    (array([2. , 4.5]), array([[0.4], [0.9]]))
    >>> history.add(0, np.array([0.1]), sign=-1.0)  # a late click changed the labels of list 0
    >>> history.add(0, np.array([0.6]))
    >>> round(history.totals()["ndcg"], 3), history.count("ndcg")
    (0.6, 5)
    """

    def __init__(self, names: tuple[str, ...], buckets: int = 256, width: int = 16) -> None:
        if not names or len(set(names)) != len(names):
            raise ConfigError(f"names = {names}: a history needs one name or more, each once")
        if buckets < 1 or width < 1:
            raise ConfigError(f"buckets = {buckets}, width = {width}: both are 1 or more")
        self.names = names
        self.buckets = buckets
        self._width = width
        self._n_lists = 0
        self._sums = np.zeros((buckets, len(names)))
        self._counts = np.zeros((buckets, len(names)))

    @property
    def width(self) -> int:
        """How many lists a bucket holds now."""
        return self._width

    @property
    def n_lists(self) -> int:
        """One more than the highest list number seen."""
        return self._n_lists

    def add(self, index: int, values: Floats, sign: float = 1.0) -> None:
        """Count the values of list number `index`; sign -1 takes an earlier contribution back.

        A value that is not finite is no value; take it back as it was added and it stays none.
        """
        self.add_many(np.array([index], np.int64), values[np.newaxis], np.array([sign]))

    def add_many(self, index: Ints, values: Floats, sign: Floats) -> None:
        """Many `add` in order, to the same bits: values has a row for each index and sign."""
        if values.shape != (len(index), len(self.names)) or len(sign) != len(index):
            raise ValueError(
                f"{len(index)} lists of {len(self.names)} values need values of shape "
                f"{(len(index), len(self.names))} and as many signs, not {values.shape} and {len(sign)}"
            )
        if len(index) == 0:
            return
        if index.min() < 0:
            raise ValueError(f"list number {index.min()}: lists are counted from 0")
        self._width = int(_add(self._sums, self._counts, self._width, index, values, sign))
        self._n_lists = max(self._n_lists, int(index.max()) + 1)

    def count(self, name: str) -> int:
        """How many lists have a value of that name."""
        return int(self._counts[:, self.names.index(name)].sum())

    def totals(self) -> dict[str, float]:
        """The mean of each name over all lists; NaN where there is none."""
        return self.recent(self.buckets)

    def recent(self, n_buckets: int) -> dict[str, float]:
        """The mean of each name over the last `n_buckets` buckets in use; NaN where there is none."""
        end = self._in_use()
        start = max(0, end - n_buckets)
        means = _means(self._sums[start:end].sum(axis=0), self._counts[start:end].sum(axis=0))
        return dict(zip(self.names, means.tolist(), strict=True))

    def series(self) -> tuple[Floats, Floats]:
        """The buckets in use: the middle list number of each, and its means, a row a bucket (NaN: none)."""
        end = self._in_use()
        borders = np.minimum(np.arange(end + 1) * self._width, self._n_lists)
        return (borders[:-1] + borders[1:]) / 2.0, _means(self._sums[:end], self._counts[:end])

    def to_state(self) -> dict[str, int | Floats]:
        """All there is to know besides the names; nothing in it changes with later adds."""
        return {
            "width": self._width,
            "n_lists": self._n_lists,
            "sums": self._sums.copy(),
            "counts": self._counts.copy(),
        }

    @classmethod
    def from_state(cls, names: tuple[str, ...], state: Mapping[str, Any]) -> Self:
        """The history that gave this state, under the same names."""
        if set(state) != {"width", "n_lists", "sums", "counts"}:
            raise SnapshotError(f"a history holds width, n_lists, sums and counts, not {sorted(state)}")
        sums, counts = np.array(state["sums"], np.float64), np.array(state["counts"], np.float64)
        if sums.ndim != 2 or sums.shape[1] != len(names) or counts.shape != sums.shape:
            raise SnapshotError(
                f"the history stored (sums {sums.shape}, counts {counts.shape}) is not one of {names}"
            )
        history = cls(names, len(sums), int(state["width"]))
        history._n_lists, history._sums, history._counts = int(state["n_lists"]), sums, counts
        return history

    def _in_use(self) -> int:
        return -(-self._n_lists // self._width)


def _means(sums: Floats, counts: Floats) -> Floats:
    held = counts > 0.0  # what is left of a sum whose values were all taken back is rounding, not a value
    means: Floats = np.full(sums.shape, np.nan)
    means[held] = sums[held] / counts[held]
    return means
