"""Ids to rows of a table of bounded size."""

from bisect import insort
from collections.abc import Callable, Hashable, Mapping, Sequence
from itertools import islice, repeat
from typing import Any

import numpy as np

from ..features.batch import Ints

BLOCK = 4096  # ids an entry of state
KINDS = (str, bytes, int, float, np.integer)


class _Taking(dict[Hashable, int]):
    """Rows by id; one that is looked up by [] and not there takes a row: a single look for old and new."""

    def __init__(self, take: Callable[[Hashable], int]) -> None:
        super().__init__()
        self._take = take

    def __missing__(self, key: Hashable) -> int:
        return self._take(key)


class Rows:
    """Each id has a row, counted up; when `limit` are taken, the sixteenth that was used longest ago goes.

    Evicting many at once costs little an id. Free rows are taken again, the lowest first.

    >>> rows = Rows(limit=2)
    >>> rows.take("a"), rows.take("b"), rows.find("c"), rows.is_full
    (0, 1, -1, True)
    >>> rows.evict(np.array([7, 3])), rows.take("c")
    (array([1]), 1)
    """

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self.ids: list[Hashable | None] = []
        self._row = _Taking(self.take)
        self._free: list[int] = []  # highest first
        self._dirty: set[int] = set()

    def __len__(self) -> int:
        return len(self._row)

    @property
    def is_full(self) -> bool:
        """Whether the next new id needs room."""
        return len(self._row) >= self.limit

    def find(self, key: Hashable) -> int:
        """The row of an id, -1 if it has none."""
        return self._row.get(key, -1)

    def places(self, keys: Sequence[Hashable]) -> Ints:
        """`find` of each."""
        return np.fromiter(map(self._row.get, keys, repeat(-1)), np.int64, len(keys))

    def lacks_room_for(self, key: Hashable) -> bool:
        """Whether a row must be freed before this id can have one."""
        return self.is_full and key not in self._row

    def has_room_for(self, keys: Sequence[Hashable]) -> bool:
        """Whether all of them can have a row as it is."""
        new = len(self._row) + len(keys) > self.limit and len({k for k in keys if k not in self._row})
        return len(self._row) + new <= self.limit

    def rows(self, keys: Sequence[Hashable]) -> tuple[Ints, list[Hashable]]:
        """The row of each id, and the ids that had none and took one, in order; there must be room.

        >>> Rows(limit=4).rows(["a", "b", "a"])
        (array([0, 1, 0]), ['a', 'b'])
        """
        known, n_ids = len(self._row), len(self.ids)
        try:
            rows = np.fromiter(map(self._row.__getitem__, keys), np.int64, len(keys))
        except (TypeError, ValueError):  # an id that is none: as if they had never come
            self.give_back(self._newest(known), n_ids)
            raise
        return rows, self._newest(known)

    def _newest(self, known: int) -> list[Hashable]:
        """The ids that took a row since there were `known`, in order."""
        return list(islice(reversed(self._row), len(self._row) - known))[::-1]

    def give_back(self, new: Sequence[Hashable], n_ids: int) -> None:
        """Undo what these took last, when there had been `n_ids` rows in all."""
        for key in reversed(new):
            row = self._row.pop(key)
            if row >= n_ids:
                self.ids.pop()
            else:
                self.ids[row] = None
                self._free.append(row)

    def release(self, key: Hashable) -> None:
        """Free the row of an id."""
        row = self._row.pop(key)
        self.ids[row] = None
        self._dirty.add(row // BLOCK)
        insort(self._free, row, key=lambda free: -free)

    def refuse(self, key: Hashable) -> None:
        """ValueError for an id that would not be the same once it was stored."""
        if not isinstance(key, KINDS) or key != key or (isinstance(key, int) and not -(2**63) <= key < 2**63):
            raise ValueError(f"{key!r:.80} is no id: give text, bytes, a whole number of 64 bits or a float")

    def take(self, key: Hashable) -> int:
        """Give a new id its row."""
        self.refuse(key)
        if self._free:
            row = self._free.pop()
            self.ids[row] = key
        else:
            row = len(self.ids)
            self.ids.append(key)
        self._row[key] = row
        self._dirty.add(row // BLOCK)
        return row

    def evict(self, last: Ints) -> Ints:
        """Free the rows used longest ago by `last`, one a row; returns them."""
        used = np.array(sorted(self._row.values()), dtype=np.int64)
        gone = used[np.argsort(last[used], kind="stable")[: -(-self.limit // 16)]]
        for row in gone.tolist():
            del self._row[self.ids[row]]
            self.ids[row] = None
            self._dirty.add(row // BLOCK)
        self._free = sorted([*self._free, *gone.tolist()], reverse=True)
        return gone

    def to_state(self, name: str) -> dict[str, Any]:
        """`name/k` holds the ids of rows 4096 k and on, None for a free one."""
        return {
            f"{name}/{k}": self.ids[k * BLOCK : (k + 1) * BLOCK] for k in range(-(-len(self.ids) // BLOCK))
        }

    def from_state(self, name: str, state: Mapping[str, Any]) -> None:
        """Take up what `to_state` gave."""
        blocks = sorted(int(key.removeprefix(name + "/")) for key in state if key.startswith(name + "/"))
        self.ids = [key for k in blocks for key in state[f"{name}/{k}"]]
        self._row = _Taking(self.take)
        self._row.update({key: row for row, key in enumerate(self.ids) if key is not None})
        self._free = [row for row in range(len(self.ids) - 1, -1, -1) if self.ids[row] is None]
        self._dirty = set()

    def dirty(self, name: str) -> dict[str, None]:
        """The entries that changed since the last call."""
        changed = dict.fromkeys(f"{name}/{k}" for k in sorted(self._dirty))
        self._dirty = set()
        return changed
