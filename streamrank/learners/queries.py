"""Open queries of single examples: how many were seen, and their means, so that each is centred exactly."""

from collections import OrderedDict
from collections.abc import Mapping
from typing import Any

import numpy as np

from ..features.batch import EXAMPLE, Batch, Floats, Ints

_NO_SLOTS, _NOT_FRESH = np.zeros(0, dtype=np.int64), np.zeros(0, dtype=np.bool_)  # no kernel looks at them


class OpenQueries:
    """The last `limit` queries; the least recently used is forgotten, and begins anew if it returns."""

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self._begin()

    def _begin(self) -> None:
        self.counts = np.zeros(0, dtype=np.int64)  # one entry a slot
        self.label_means = np.zeros(0)
        self.means = np.zeros((0, 0))
        self._slots: OrderedDict[str, int] = OrderedDict()  # least recently used first
        self._used: dict[str, int] = {}
        self._tick = 0
        self._touched: set[str] = set()

    def slots(self, batch: Batch, n_columns: int) -> tuple[Ints, np.ndarray[Any, np.dtype[np.bool_]]]:
        """The slot of each list that is an example, and where a slot is begun anew; empty if none is one."""
        modes = batch.mode.tolist()
        if EXAMPLE not in modes:
            self._fit(len(self._slots), n_columns)
            return _NO_SLOTS, _NOT_FRESH
        slots = np.full(len(modes), -1, dtype=np.int64)
        fresh = np.zeros(len(modes), dtype=np.bool_)
        for q, mode in enumerate(modes):
            if mode == EXAMPLE:
                slots[q], fresh[q] = self._slot(batch.queries[q])
        self._fit(len(self._slots), n_columns)
        return slots, fresh

    def _slot(self, query: str) -> tuple[int, bool]:
        slot = self._slots.get(query)
        fresh = slot is None
        if slot is None:
            slot = len(self._slots)
            if slot >= self.limit:
                forgotten, slot = self._slots.popitem(last=False)
                del self._used[forgotten]
                self._touched.add(forgotten)
        self._slots[query] = slot
        self._slots.move_to_end(query)
        self._tick += 1
        self._used[query] = self._tick
        self._touched.add(query)
        return slot, fresh

    def _fit(self, n_slots: int, n_columns: int) -> None:
        n_slots, n_columns = max(n_slots, len(self.counts)), max(n_columns, self.means.shape[1])
        if n_columns > self.means.shape[1]:
            self._touched.update(self._slots)  # every stored mean gets longer
        if (n_slots, n_columns) != self.means.shape:
            means = np.zeros((n_slots, n_columns))
            means[: self.means.shape[0], : self.means.shape[1]] = self.means
            self.counts = np.concatenate([self.counts, np.zeros(n_slots - len(self.counts), dtype=np.int64)])
            self.label_means = np.concatenate([self.label_means, np.zeros(n_slots - len(self.label_means))])
            self.means = means

    def merge(self, other: "OpenQueries", H: Floats, b: Floats, keep: Ints, to: Ints) -> None:
        """Take in another's open queries; one that is open in both is pooled, with the term that parts them.

        With counts k, l and means apart by d (labels by e), the pooled sum has k l/(k + l) d d' more.
        """
        for query in other._slots:
            there = other._slots[query]
            mean = np.zeros(len(b))
            mean[to] = other.means[there][keep]
            slot, fresh = self._slot(query)
            self._fit(len(self._slots), len(b))
            if fresh:
                self.counts[slot], self.label_means[slot], self.means[slot] = 0, 0.0, 0.0
            k, more = self.counts[slot], other.counts[there]
            d = mean - self.means[slot]
            e = other.label_means[there] - self.label_means[slot]
            if k and more:
                H += (k * more / (k + more)) * np.outer(d, d)
                b += (k * more / (k + more)) * e * d
            if more:
                self.means[slot] += d * (more / (k + more))
                self.label_means[slot] += e * (more / (k + more))
                self.counts[slot] += more

    def to_state(self) -> dict[str, Any]:
        """One entry a query: when it was used, its count, its means."""
        return {
            f"query/{query}": [
                self._used[query],
                int(self.counts[slot]),
                float(self.label_means[slot]),
                self.means[slot],
            ]
            for query, slot in self._slots.items()
        }

    def from_state(self, state: Mapping[str, Any], n_columns: int) -> None:
        """Take up what `to_state` gave."""
        self._begin()
        entries = sorted((state[key][0], key) for key in state if key.startswith("query/"))
        for used, key in entries:
            slot, _ = self._slot(key.removeprefix("query/"))
            self._fit(slot + 1, n_columns)
            _, count, label_mean, mean = state[key]
            self.counts[slot], self.label_means[slot] = count, label_mean
            self.means[slot, : len(mean)] = mean
            self._used[key.removeprefix("query/")] = self._tick = used
        self._touched.clear()

    def dirty(self) -> list[str]:
        """Names of the entries that changed since the last call."""
        names = [f"query/{query}" for query in sorted(self._touched)]
        self._touched.clear()
        return names
