"""What SONG remembers by query and item: bounded, saved by query, written where it changed."""

from collections import OrderedDict
from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np

from ..features.batch import EXPLICIT, NO_ITEMS, Batch
from ..kernels.keyed import FREE, HELD, Chains, Visit, chain, enter_all


def _chains(entries: int, slots: int) -> Chains:
    return Chains(
        key=np.zeros(entries, dtype=np.int64),
        u=np.zeros(entries),
        next=np.arange(1, entries + 1, dtype=np.int32),
        head=np.full(slots, -1, dtype=np.int32),
        held=np.zeros(slots, dtype=np.int32),
        query=np.zeros((slots, 3)),
        room=np.zeros(2, dtype=np.int64),
    )


NO_CHAINS = _chains(0, 0)
NO_VISIT = Visit(np.zeros(0, dtype=np.int64), np.zeros(0, dtype=np.bool_), NO_ITEMS, 0)


class KeyedMemory:
    """A value for each item of each of the last `max_queries` queries, and three for the query itself.

    Of more queries the one used longest ago is forgotten whole, of more than `max_items` items of a query the
    one that came first; either starts again at zero if it returns. The empty query is nobody's: nothing is
    kept of it, nor of explicit pairs. An entry takes 20 bytes, and as much again at most where the room has
    just been doubled.
    """

    def __init__(self, max_queries: int, max_items: int) -> None:
        self.max_queries, self.max_items = max_queries, max_items
        self._begin()

    def _begin(self) -> None:
        self.chains = _chains(16, 16)
        self.chains.next[-1] = -1
        self._slots: OrderedDict[str, int] = OrderedDict()  # least recently used first
        self._used: dict[str, int] = {}
        self._tick = 0
        self._touched: set[str] = set()

    def visit(self, batch: Batch) -> Visit:
        """Which queries the lists of a batch are of; new ones get their place, and all items room."""
        self._make_room(len(batch.y))
        n = batch.n_lists
        slot, fresh = np.empty(n, dtype=np.int64), np.zeros(n, dtype=np.bool_)
        for q, query in enumerate(batch.queries):
            if query and batch.mode[q] != EXPLICIT:
                slot[q], fresh[q] = self._slot(query)
            else:
                slot[q] = -1
        return Visit(slot, fresh, batch.items, self.max_items)

    def _slot(self, query: str) -> tuple[int, bool]:
        slot = self._slots.get(query)
        fresh = slot is None
        if slot is not None:
            self._slots.move_to_end(query)
        else:
            slot = len(self._slots)
            if slot >= self.max_queries:
                forgotten, slot = self._slots.popitem(last=False)
                del self._used[forgotten]
                self._touched.add(forgotten)
            elif slot >= len(self.chains.head):
                more = _chains(0, len(self.chains.head))
                self.chains = self.chains._replace(
                    head=np.concatenate([self.chains.head, more.head]),
                    held=np.concatenate([self.chains.held, more.held]),
                    query=np.concatenate([self.chains.query, more.query]),
                )
            self._slots[query] = slot
        self._tick += 1
        self._used[query] = self._tick
        self._touched.add(query)
        return slot, fresh

    def _make_room(self, rows: int) -> None:
        size, room = len(self.chains.key), self.chains.room
        if room[HELD] + rows <= size:
            return
        more = max(size, rows)
        fresh = _chains(more, 0)
        following = fresh.next + np.int32(size)
        following[-1] = room[FREE]  # new ones first, then what is left of the old
        self.chains = self.chains._replace(
            key=np.concatenate([self.chains.key, fresh.key]),
            u=np.concatenate([self.chains.u, fresh.u]),
            next=np.concatenate([self.chains.next, following]),
        )
        room[FREE] = size

    def __len__(self) -> int:
        """How many entries are held."""
        return int(self.chains.held[list(self._slots.values())].sum())

    def of(self, query: str) -> dict[str, Any]:
        """What is known of a query: items (their keys, the newest first), u, lambda, curvature, Z."""
        entries = chain(self.chains, self._slots[query])
        names = ("lam", "s", "Z")
        values = dict(zip(names, self.chains.query[self._slots[query]].tolist(), strict=True))
        return {"items": self.chains.key[entries], "u": self.chains.u[entries], **values}

    # -- state ---------------------------------------------------------------------------------------------

    def entries(self, names: Iterable[str]) -> dict[str, Any]:
        """These entries of the state, where they are there."""
        found = {}
        for name in names:
            query = name.removeprefix("u/")
            if name.startswith("u/") and query in self._slots:
                known = self.of(query)
                numbers = self.chains.query[self._slots[query]].copy()
                found[name] = [self._used[query], numbers, known["items"], known["u"]]
        return found

    def to_state(self) -> dict[str, Any]:
        """One entry a query: when it was used, its own three values, its items' keys and u."""
        return self.entries(f"u/{query}" for query in self._slots)

    def from_state(self, state: Mapping[str, Any]) -> None:
        """Take up what `to_state` gave; of more than there is room for by now, what was used last."""
        self._begin()
        names = sorted((state[name][0], name.removeprefix("u/")) for name in state if name.startswith("u/"))
        kept = names[max(0, len(names) - self.max_queries) :]
        self._put({query: state[f"u/{query}"][1:] for _, query in kept})
        self._used = {query: used for used, query in kept}
        self._tick = kept[-1][0] if kept else 0
        large = {query for _, query in kept if len(state[f"u/{query}"][2]) > self.max_items}
        self._touched = {query for _, query in names if query not in self._slots} | large

    def _put(self, known: Mapping[str, Any]) -> None:
        """Let these queries be used, in this order, with exactly these numbers, items and u."""
        queries = [
            (numbers, items[: self.max_items], u[: self.max_items]) for numbers, items, u in known.values()
        ]
        lists = np.concatenate([[0], np.cumsum([len(items) for _, items, _ in queries])]).astype(np.int64)
        slot = np.array([self._slot(query)[0] for query in known], dtype=np.int64)
        # the newest last: it is first in its chain
        keys, u = (_joined([row[k][::-1] for row in queries]) for k in (1, 2))
        self._make_room(len(keys))
        visit = Visit(slot, np.ones(len(slot), dtype=np.bool_), keys.astype(np.int64), self.max_items)
        enter_all(self.chains, visit, lists, u)
        self.chains.query[slot] = np.reshape([numbers for numbers, _, _ in queries], (-1, 3))

    def dirty(self) -> list[str]:
        """Names of the entries that changed since the last call."""
        names = [f"u/{query}" for query in sorted(self._touched)]
        self._touched.clear()
        return names

    def merge(self, other: "KeyedMemory") -> None:
        """The union: of a query that both know, what is known here keeps its values; Z is the larger one."""
        for name, (_, numbers, items, u) in other.to_state().items():
            query = name.removeprefix("u/")
            if query in self._slots:
                mine = self.of(query)
                extra = ~np.isin(items, mine["items"])
                here = self.chains.query[self._slots[query]]
                numbers = np.where(np.isnan(here), numbers, np.append(here[:2], max(here[2], numbers[2])))
                items = np.concatenate([mine["items"], items[extra]])
                u = np.concatenate([mine["u"], u[extra]])
            self._put({query: (numbers, items, u)})


def _joined(parts: list[Any]) -> Any:
    return np.concatenate(parts) if parts else np.zeros(0)
