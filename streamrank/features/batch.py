"""The one array form that learners work on: rows in CSR, grouped into lists, with what the clicks say."""

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from ..kernels.jit import jit

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]
Columns = npt.NDArray[np.int32]
Modes = npt.NDArray[np.int8]
AnyArray = npt.NDArray[Any]

# How the pairs of a list follow from its labels y and weights c.
BY_LABEL = 0  # i beats j where y_i > y_j, with weight c_i
EVERY_OTHER = 1  # i with y_i > 0 beats every other j, with weight c_i (IPS: two clicks beat each other)
EXPLICIT = 2  # the pairs are listed
SCORED = 3  # the label is y c (a click over its propensity); i beats j where y_i c_i > y_j c_j, with weight 1
EXAMPLE = 4  # one scored row: a learner of pairs sets it against the last examples of its query


NO_ITEMS = np.zeros(0, dtype=np.int64)


@lru_cache(maxsize=1 << 17)
def item_key(item: str) -> int:
    """64 bits of an item's id, the same in every process: enough to tell the items of a query apart."""
    digest = hashlib.blake2b(item.encode("utf-8", "surrogatepass"), digest_size=8).digest()
    return int.from_bytes(digest, "little", signed=True)


def item_keys(items: Sequence[str]) -> Ints:
    """`item_key` of each."""
    return np.array([item_key(item) for item in items], dtype=np.int64)


class Batch(NamedTuple):
    """Lists, in the order in which they must be learnt.

    Row r holds columns ``indices[indptr[r]:indptr[r+1]]`` with ``values`` beside them; list q holds rows
    ``lists[q]:lists[q+1]``; ``better`` and ``worse`` of explicit pairs count rows from the start of their
    list. A row whose weight c is 0 is never the better one, so a list can be learnt click by click.
    """

    indptr: Ints
    indices: Columns
    values: Floats
    lists: Ints
    y: Floats
    c: Floats
    mode: Modes
    pairs: Ints  # explicit pairs of list q: pairs[q]:pairs[q+1]
    better: Columns
    worse: Columns
    pair_c: Floats
    queries: tuple[str, ...]
    items: Ints = NO_ITEMS  # `item_key` of each row, for learners that keep values by item; or of none

    @property
    def arrays(
        self,
    ) -> tuple[Ints, Columns, Floats, Ints, Floats, Floats, Modes, Ints, Columns, Columns, Floats]:
        """What every kernel that learns lists takes first, in its order."""
        return self[:11]

    def part(self, first: int, end: int) -> "Batch":
        """Lists `first` to `end` alone."""
        a, b, p, t = self.lists[first], self.lists[end], self.pairs[first], self.pairs[end]
        values = slice(self.indptr[a], self.indptr[b])
        return Batch(
            indptr=self.indptr[a : b + 1] - self.indptr[a],
            indices=self.indices[values],
            values=self.values[values],
            lists=self.lists[first : end + 1] - a,
            y=self.y[a:b],
            c=self.c[a:b],
            mode=self.mode[first:end],
            pairs=self.pairs[first : end + 1] - p,
            better=self.better[p:t],
            worse=self.worse[p:t],
            pair_c=self.pair_c[p:t],
            queries=self.queries[first:end],
            items=self.items[a:b],
        )

    def taken(self, rows: Ints) -> "Rows":
        """Some of its rows, in the order named: what was shown of a list."""
        return Rows(len(rows), *take(self.indptr, self.indices, self.values, rows))

    @property
    def n_lists(self) -> int:
        """How many lists."""
        return len(self.lists) - 1

    @property
    def n_columns(self) -> int:
        """One more than the largest column named."""
        return int(self.indices.max()) + 1 if len(self.indices) else 0


@dataclass(frozen=True, slots=True)
class Rows:
    """The feature rows of one list. Dense (``indptr`` is None): every row has the same `columns`."""

    n: int
    columns: Columns
    values: Floats
    indptr: Ints | None = None


def sparse_rows(rows: Sequence[Mapping[int, float]]) -> Rows:
    """Rows given as column -> value, in the order of each mapping."""
    indptr = np.zeros(len(rows) + 1, dtype=np.int64)
    np.cumsum([len(row) for row in rows], out=indptr[1:])
    return Rows(
        n=len(rows),
        columns=np.array([column for row in rows for column in row], dtype=np.int32),
        values=np.array([value for row in rows for value in row.values()], dtype=np.float64),
        indptr=indptr,
    )


class BatchBuilder:
    """Collects lists, then makes one `Batch` of them."""

    def __init__(self) -> None:
        self._rows: list[Rows] = []
        self._sizes: list[int] = []
        self._y: list[float] = []
        self._c: list[float] = []
        self._mode: list[int] = []
        self._queries: list[str] = []
        self._pairs: list[tuple[int, int, float]] = []
        self._pair_ends: list[int] = []
        self._items: list[tuple[int, Ints]] = []  # list, keys

    def __len__(self) -> int:
        return len(self._sizes)

    def add(
        self,
        rows: Rows,
        y: Sequence[float],
        c: Sequence[float],
        mode: int = BY_LABEL,
        pairs: Sequence[tuple[int, int, float]] = (),
        query: str = "",
        items: Ints = NO_ITEMS,
    ) -> None:
        """Append a list: rows, labels, weights, and, in mode EXPLICIT, its pairs (better, worse, weight).

        `items` are the `item_key` of the rows; without them, where others of the batch have them, the place.
        """
        if len(items):
            self._items.append((len(self._sizes), items))
        self._rows.append(rows)
        self._sizes.append(rows.n)
        self._y += y
        self._c += c
        self._mode.append(mode)
        self._queries.append(query)
        self._pairs += pairs
        self._pair_ends.append(len(self._pairs))

    def add_block(self, rows: Rows, sizes: Ints, labels: Floats, queries: Sequence[str]) -> None:
        """Append many labelled lists at once; `rows` are those of all of them."""
        n = len(sizes)
        self._rows.append(rows)
        self._sizes += sizes.tolist()
        self._y += labels.tolist()
        self._c += [1.0] * rows.n
        self._mode += [BY_LABEL] * n
        self._queries += queries
        self._pair_ends += [len(self._pairs)] * n

    def build(self) -> Batch:
        """All that was added, in order."""
        rows = self._rows
        lists = np.zeros(len(self._sizes) + 1, dtype=np.int64)
        np.cumsum(self._sizes, out=lists[1:])
        values = _joined([r.values for r in rows], np.float64)
        indptr, indices = expand(
            np.array([r.n for r in rows], dtype=np.int64),
            np.array([r.indptr is None for r in rows], dtype=np.bool_),
            np.array([len(r.columns) for r in rows], dtype=np.int64),
            _joined([r.columns for r in rows], np.int32),
            _joined([r.indptr for r in rows if r.indptr is not None], np.int64),
            len(values),
        )
        pairs = np.array(self._pairs, dtype=np.float64).reshape(-1, 3)
        return Batch(
            indptr=indptr,
            indices=indices,
            values=values,
            lists=lists,
            y=np.array(self._y, dtype=np.float64),
            c=np.array(self._c, dtype=np.float64),
            mode=np.array(self._mode, dtype=np.int8),
            pairs=np.array([0, *self._pair_ends], dtype=np.int64),
            better=pairs[:, 0].astype(np.int32),
            worse=pairs[:, 1].astype(np.int32),
            pair_c=np.ascontiguousarray(pairs[:, 2]),
            queries=tuple(self._queries),
            items=self._keys(lists) if self._items else NO_ITEMS,
        )

    def _keys(self, lists: Ints) -> Ints:
        keys = places(lists)
        for q, items in self._items:
            keys[lists[q] : lists[q + 1]] = items
        return keys


def places(lists: Ints) -> Ints:
    """The place of each row in its list."""
    return np.arange(lists[-1]) - np.repeat(lists[:-1], np.diff(lists))


def join_batches(batches: Sequence[Batch]) -> Batch:
    """One batch of all their lists, in order."""
    if not batches:
        return BatchBuilder().build()
    named = any(len(b.items) for b in batches)

    def borders(parts: list[Ints]) -> Ints:
        ends = np.cumsum([0, *(part[-1] for part in parts)])
        return np.concatenate([[0], *(part[1:] + end for part, end in zip(parts, ends[:-1], strict=True))])

    return Batch(
        indptr=borders([b.indptr for b in batches]),
        lists=borders([b.lists for b in batches]),
        pairs=borders([b.pairs for b in batches]),
        queries=tuple(query for b in batches for query in b.queries),
        **{
            name: np.concatenate([getattr(b, name) for b in batches])
            for name in ("indices", "values", "y", "c", "mode", "better", "worse", "pair_c")
        },
        items=np.concatenate([places(b.lists) if named and not len(b.items) else b.items for b in batches]),
    )


def _joined(parts: list[Any], dtype: type[np.generic]) -> AnyArray:
    return np.concatenate(parts, dtype=dtype) if parts else np.empty(0, dtype=dtype)


@jit
def take(indptr: Ints, indices: Columns, values: Floats, rows: Ints) -> tuple[Columns, Floats, Ints]:
    """Columns, values and row borders of some rows of a CSR matrix.

    >>> take(np.array([0, 1, 3]), np.array([4, 4, 7], np.int32), np.array([0.5, 1.5, 2.5]), np.array([1, 0]))
    (array([4, 7, 4], dtype=int32), array([1.5, 2.5, 0.5]), array([0, 2, 3]))
    """
    borders = np.zeros(len(rows) + 1, dtype=np.int64)
    for k in range(len(rows)):
        borders[k + 1] = borders[k] + indptr[rows[k] + 1] - indptr[rows[k]]
    columns, taken = np.empty(borders[-1], dtype=np.int32), np.empty(borders[-1])
    for k in range(len(rows)):
        stored = slice(indptr[rows[k]], indptr[rows[k] + 1])
        columns[borders[k] : borders[k + 1]] = indices[stored]
        taken[borders[k] : borders[k + 1]] = values[stored]
    return columns, taken, borders


@jit
def expand(
    sizes: Ints, dense: npt.NDArray[np.bool_], n_columns: Ints, columns: Columns, indptrs: Ints, n_values: int
) -> tuple[Ints, Columns]:
    """Row borders and columns of all lists in CSR; a dense list names its columns once, here they repeat."""
    indptr = np.zeros(sizes.sum() + 1, dtype=np.int64)
    indices = np.empty(n_values, dtype=np.int32)
    r = at = column_at = indptr_at = 0
    for q in range(len(sizes)):
        if dense[q]:
            for _ in range(sizes[q]):
                indices[at : at + n_columns[q]] = columns[column_at : column_at + n_columns[q]]
                at += n_columns[q]
                r += 1
                indptr[r] = at
        else:
            indices[at : at + n_columns[q]] = columns[column_at : column_at + n_columns[q]]
            for k in range(1, sizes[q] + 1):
                r += 1
                indptr[r] = at + indptrs[indptr_at + k]
            at += n_columns[q]
            indptr_at += sizes[q] + 1
        column_at += n_columns[q]
    return indptr, indices
