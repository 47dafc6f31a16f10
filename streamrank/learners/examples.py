"""Single examples for learners of pairs: each new one is set against the last few of its query."""

from collections import OrderedDict
from collections.abc import Mapping
from typing import Any

import numpy as np

from ..features.batch import EXAMPLE, EXPLICIT, Batch, BatchBuilder, Ints, Rows
from ..kernels.weights import STEEPEST


class RecentExamples:
    """The last `depth` examples of each of the last `queries` queries; older ones are forgotten.

    `expand` turns each list of mode EXAMPLE (one row) into an explicit list: the new row first, then the
    remembered ones; whichever has the higher label is the better one. Least recently used queries go first.
    An example with a value beyond all sense is not remembered: the next ones would be refused with it.
    """

    def __init__(self, depth: int = 8, queries: int = 1000) -> None:
        self.depth, self.queries = depth, queries
        self._last: OrderedDict[str, list[tuple[float, Rows]]] = OrderedDict()  # least recently used first
        self._used: dict[str, int] = {}  # when each query was used: the order, kept across a restart
        self._tick = 0
        self._touched: set[str] = set()

    def expand(self, batch: Batch) -> tuple[Batch, Ints]:
        """The batch with examples expanded, and where each of its original rows stands there."""
        builder = BatchBuilder()
        positions = np.empty(len(batch.y), dtype=np.int64)
        at = 0
        for q in range(batch.n_lists):
            first, end = int(batch.lists[q]), int(batch.lists[q + 1])
            rows = _slice(batch, first, end)
            y, c = batch.y[first:end].tolist(), batch.c[first:end].tolist()
            positions[first:end] = np.arange(at, at + end - first)
            if batch.mode[q] != EXAMPLE:
                a, b = batch.pairs[q], batch.pairs[q + 1]
                pairs = list(
                    zip(
                        batch.better[a:b].tolist(),
                        batch.worse[a:b].tolist(),
                        batch.pair_c[a:b].tolist(),
                        strict=True,
                    )
                )
                items = batch.items[first:end]
                builder.add(rows, y, c, int(batch.mode[q]), pairs, batch.queries[q], items)
                at += end - first
                continue
            known = self._last.get(batch.queries[q], [])
            pairs = []
            for k, (label, _) in enumerate(known, start=1):
                if y[0] != label:
                    pairs.append((0, k, c[0]) if y[0] > label else (k, 0, c[0]))
            labels = [y[0], *(label for label, _ in known)]
            builder.add(_stack([rows, *(row for _, row in known)]), labels, c * len(labels), EXPLICIT, pairs)
            at += len(labels)
            if bool((np.abs(rows.values) < STEEPEST).all()):  # not so of NaN
                self._remember(batch.queries[q], y[0], rows)
        return builder.build(), positions

    def _remember(self, query: str, label: float, row: Rows) -> None:
        known = self._last.setdefault(query, [])
        self._last.move_to_end(query)
        self._tick += 1
        self._used[query] = self._tick
        known.append((label, row))
        del known[: -self.depth]
        self._touched.add(query)
        if len(self._last) > self.queries:
            forgotten, _ = self._last.popitem(last=False)
            del self._used[forgotten]
            self._touched.add(forgotten)

    def to_state(self) -> dict[str, Any]:
        """One entry a query: when it was used, then labels, columns and values."""
        return {
            f"example/{query}": [
                self._used[query],
                [[label, row.columns, row.values] for label, row in known],
            ]
            for query, known in self._last.items()
        }

    def from_state(self, state: Mapping[str, Any]) -> None:
        """Take up what `to_state` gave."""
        entries = sorted((value[0], key) for key, value in state.items() if key.startswith("example/"))
        self._last, self._used = OrderedDict(), {}
        self._tick = entries[-1][0] if entries else 0
        for used, key in entries:
            query = key.removeprefix("example/")
            self._used[query] = used
            self._last[query] = [
                (float(label), Rows(1, columns, values, np.array([0, len(columns)], dtype=np.int64)))
                for label, columns, values in state[key][1]
            ]
        self._touched.clear()

    def dirty(self) -> list[str]:
        """Names of the entries that changed since the last call."""
        names = [f"example/{query}" for query in sorted(self._touched)]
        self._touched.clear()
        return names


def _slice(batch: Batch, first: int, end: int) -> Rows:
    a, b = batch.indptr[first], batch.indptr[end]
    # copies: a remembered row must not keep its whole batch in memory
    return Rows(
        end - first, batch.indices[a:b].copy(), batch.values[a:b].copy(), batch.indptr[first : end + 1] - a
    )


def _stack(parts: list[Rows]) -> Rows:
    sizes = [len(part.columns) for part in parts]
    return Rows(
        len(parts),
        np.concatenate([part.columns for part in parts]),
        np.concatenate([part.values for part in parts]),
        np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64),
    )
