"""What is typical of a number: the mean of its first values, so that a missing one is taken for average.

A learner takes an absent column for 0. For a year or a price 0 is not "unknown" but far off; counted from the
typical value it is. Within a list where every item has the number this changes nothing.
"""

from collections.abc import Mapping
from typing import Any

import numpy as np

from .batch import Columns, Floats, Ints, Rows

SETTLED = 100  # values after which an offset stays as it is
BLOCK = 1024  # columns an entry of state
LAYOUTS = 100


class Offsets:
    """The offset of each column that holds numbers; 0 for all others.

    >>> offsets = Offsets()
    >>> offsets.mark(0)
    >>> rows = Rows(2, np.array([0], dtype=np.int32), np.array([2000.0, 2004.0]))
    >>> offsets.centred(rows, learn=True).values
    array([-2.,  2.])
    """

    def __init__(self) -> None:
        self._count = np.full(0, -1, dtype=np.int64)  # values seen, up to SETTLED; -1: not a number
        self._mean = np.zeros(0)
        self._touched: set[int] = set()
        # a cache: columns of dense rows whose offsets are all settled, by identity, and those offsets
        self._settled: dict[int, tuple[Columns, Floats]] = {}

    def mark(self, column: int) -> None:
        """This column holds a number."""
        self._fit(column + 1)
        if self._count[column] < 0:
            self._count[column] = 0
            self._touched.add(column // BLOCK)
            self._settled.clear()

    def centred(self, rows: Rows, *, learn: bool) -> Rows:
        """The rows counted from the offsets, which see the values first while they are not settled."""
        columns = rows.columns
        if len(columns) == 0:
            return rows
        known = self._settled.get(id(columns))
        if known is None or known[0] is not columns:
            self._fit(int(columns.max()) + 1)
            count = self._count[columns]
            unsettled = bool(((count >= 0) & (count < SETTLED)).any())
            if unsettled and learn:
                self._see(np.tile(columns, rows.n) if rows.indptr is None else columns, rows.values)
            known = columns, self._mean[columns]
            if not unsettled and rows.indptr is None:
                if len(self._settled) >= LAYOUTS:
                    self._settled.clear()
                self._settled[id(columns)] = known
        if rows.indptr is None:
            values: Floats = (rows.values.reshape(rows.n, len(columns)) - known[1]).ravel()
        else:
            values = rows.values - known[1]
        return Rows(rows.n, columns, values, rows.indptr)

    def _see(self, columns: Columns, values: Floats) -> None:
        for column, value in zip(columns.tolist(), values.tolist(), strict=True):
            count = int(self._count[column])
            if 0 <= count < SETTLED:
                self._count[column] = count + 1
                self._mean[column] += (value - self._mean[column]) / (count + 1)
                self._touched.add(column // BLOCK)

    def _fit(self, n_columns: int) -> None:
        if n_columns > len(self._count):
            more = max(n_columns, 2 * len(self._count)) - len(self._count)
            self._count = np.concatenate([self._count, np.full(more, -1, dtype=np.int64)])
            self._mean = np.concatenate([self._mean, np.zeros(more)])

    def _block(self, block: int) -> list[list[float]]:
        start = block * BLOCK
        numbers = np.flatnonzero(self._count[start : start + BLOCK] >= 0) + start
        return [[int(j), int(self._count[j]), float(self._mean[j])] for j in numbers]

    def merge(self, other: "Offsets", columns: Ints) -> None:
        """Means weighted by the values seen on either side; ``columns[j]`` is the other's column j here."""
        for entry in other.to_state().values():
            for theirs, count, mean in entry:
                column = int(columns[int(theirs)])
                if column >= 0:
                    self.mark(column)
                    seen = int(self._count[column])
                    if seen + count:
                        self._mean[column] += (mean - self._mean[column]) * count / (seen + count)
                    self._count[column] = min(seen + int(count), SETTLED)
                    self._touched.add(column // BLOCK)

    def to_state(self) -> dict[str, list[list[float]]]:
        """Blocks of (column, values seen, mean)."""
        blocks = range(-(-len(self._count) // BLOCK))
        return {str(block): entry for block in blocks if (entry := self._block(block))}

    def from_state(self, state: Mapping[str, Any]) -> None:
        """Take up what `to_state` gave."""
        self._count, self._mean, self._settled = np.full(0, -1, dtype=np.int64), np.zeros(0), {}
        for entry in state.values():
            for column, count, mean in entry:
                self._fit(int(column) + 1)
                self._count[int(column)], self._mean[int(column)] = count, mean
        self._touched.clear()

    def dirty(self) -> dict[str, list[list[float]]]:
        """The blocks that changed since the last call."""
        changed = {str(block): self._block(block) for block in sorted(self._touched)}
        self._touched.clear()
        return changed
