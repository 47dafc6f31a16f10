"""The lists of a micro-batch that is not full yet: appended to in place, saved as they are."""

from collections.abc import Mapping
from typing import Any

import numpy as np

from ..features.batch import EXAMPLE, Batch, Floats, Ints
from ..kernels.microbatch import Open, take
from ..kernels.resting import Weights


class OpenLists:
    """Lists in order, in arrays with room for more."""

    def __init__(self) -> None:
        self.lists = Open(
            indptr=np.zeros(1, dtype=np.int64),
            indices=np.zeros(0, dtype=np.int32),
            values=np.zeros(0),
            lists=np.zeros(1, dtype=np.int64),
            y=np.zeros(0),
            c=np.zeros(0),
            mode=np.zeros(0, dtype=np.int8),
            pairs=np.zeros(1, dtype=np.int64),
            better=np.zeros(0, dtype=np.int32),
            worse=np.zeros(0, dtype=np.int32),
            pair_c=np.zeros(0),
        )
        self._queries: list[str] = []  # of each list; of examples only, the others need none

    def clear(self) -> None:
        """Begin anew. The room stays: fresh memory would cost more than the step."""
        self._queries = []

    @property
    def n_lists(self) -> int:
        """How many lists."""
        return len(self._queries)

    @property
    def n_rows(self) -> int:
        """How many rows they have."""
        return int(self.lists.lists[self.n_lists])

    def take(self, batch: Batch, first: int, end: int, weights: Weights, clock: float, out: Floats) -> int:
        """Score lists `first` to `end`, append those that say anything; returns how many were refused."""
        a, b = batch.lists[first], batch.lists[end]
        self._reserve(
            end - first, b - a, batch.indptr[b] - batch.indptr[a], batch.pairs[end] - batch.pairs[first]
        )
        kept = np.zeros(end - first, dtype=np.bool_)
        refused = take(*batch.arrays, first, end, weights, clock, self.lists, self.n_lists, kept, out)
        taken = zip(kept.tolist(), batch.mode[first:end].tolist(), batch.queries[first:end], strict=True)
        self._queries += [query if mode == EXAMPLE else "" for keep, mode, query in taken if keep]
        return refused

    def groups(self) -> tuple[Ints, int]:
        """Which lists are centred together: examples of one query; every other list by itself."""
        modes = self.lists.mode[: self.n_lists]
        if EXAMPLE not in modes:
            return np.arange(self.n_lists), self.n_lists
        ids: dict[str | int, int] = {}
        group = [
            ids.setdefault(query if mode == EXAMPLE else q, len(ids))
            for q, (query, mode) in enumerate(zip(self._queries, modes.tolist(), strict=True))
        ]
        return np.array(group, dtype=np.int64), len(ids)

    def append(self, other: "OpenLists", columns: Ints) -> None:
        """Take in another's lists; its column j is ``columns[j]`` here, or nothing where that is below 0."""
        mine, theirs = self.trimmed(), other.trimmed()
        to = columns[theirs.indices]
        keep = to >= 0
        stops = np.append(0, np.cumsum(keep))[theirs.indptr]
        more = theirs._replace(
            indptr=mine.indptr[-1] + stops[1:],
            indices=to[keep].astype(np.int32),
            values=theirs.values[keep],
            lists=mine.lists[-1] + theirs.lists[1:],
            pairs=mine.pairs[-1] + theirs.pairs[1:],
        )
        self.lists = Open(*(np.concatenate(both) for both in zip(_arrays(mine), _arrays(more), strict=True)))
        self._queries += other._queries

    def trimmed(self) -> Open:
        """The arrays without the room."""
        lists = self.lists
        n, rows, pairs = self.n_lists, self.n_rows, int(lists.pairs[self.n_lists])
        values = int(lists.indptr[rows])
        sizes = (rows + 1, values, values, n + 1, rows, rows, n, n + 1, pairs, pairs, pairs)
        return Open(*(array[:size] for array, size in zip(_arrays(lists), sizes, strict=True)))

    def to_state(self) -> dict[str, Any]:
        """The lists as arrays, and the queries of examples."""
        arrays = {f"open_{name}": array for name, array in self.trimmed()._asdict().items()}
        return {**arrays, "open_queries": list(self._queries)}

    def from_state(self, state: Mapping[str, Any]) -> None:
        """Take up what `to_state` gave."""
        self.lists = Open(*(np.array(state[f"open_{name}"]) for name in Open._fields))
        self._queries = list(state["open_queries"])

    def _reserve(self, n_lists: int, n_rows: int, n_values: int, n_pairs: int) -> None:
        # twice what is needed, so that lists that come one by one are not copied each time
        rows, pairs = self.n_rows, self.lists.pairs[self.n_lists]
        needed = {
            "lists": self.n_lists + n_lists + 1,
            "pairs": self.n_lists + n_lists + 1,
            "mode": self.n_lists + n_lists,
            "indptr": rows + n_rows + 1,
            "y": rows + n_rows,
            "c": rows + n_rows,
            "indices": self.lists.indptr[rows] + n_values,
            "values": self.lists.indptr[rows] + n_values,
            **dict.fromkeys(("better", "worse", "pair_c"), pairs + n_pairs),
        }
        short = {
            name: np.concatenate([array, np.zeros(2 * size - len(array), array.dtype)])
            for name, size in needed.items()
            if size > len(array := getattr(self.lists, name))
        }
        if short:
            self.lists = self.lists._replace(**short)


def _arrays(lists: Open) -> tuple[Any, ...]:
    return tuple(lists)
