"""The rows of users and items of a factor model: bounded, stored by blocks, merged between shards."""

from collections.abc import Callable, Hashable, Mapping, Sequence
from typing import Any, Self
from zlib import crc32

import numpy as np

from ..features.batch import Ints
from ..kernels.factors import CLICKS, LAST, RECENT, Factors, begin_rows
from ..kernels.latent import BLOCK_BITS, Bytes
from ..kernels.splitmix import Words
from .rows import Rows

NOISE = 0.1  # spread of new factors
OF_USERS, OF_ITEMS = ("users", "user_marks"), ("items", "item_marks")


class FactorTables:
    """`arrays` hold a row for each id of `users` and `items`, and room to grow: a power of two of rows.

    How large they are follows from the rows taken alone, so it is the same however clicks were batched.
    """

    def __init__(self, d: int, recent: int, max_users: int, max_items: int, seed: int) -> None:
        self._d, self._recent, self._seed = d, recent, seed
        self.users, self.items = Rows(max_users), Rows(max_items)
        self._ones = np.array([d, d + 1, 2 * d + 2][: 3 if recent else 2])  # G of U; of V, and of W
        self.arrays = self._empty(16, 16)
        self.standing: Ints = np.zeros(2, np.int64)  # items in use, rows of items
        self.dirty_users: Bytes = np.ones(1, np.uint8)
        self.dirty_items: Bytes = np.ones(1, np.uint8)

    # -- rows ----------------------------------------------------------------------------------------------

    def user(self, key: Hashable) -> int:
        """The row of a user; who is new starts near zero, by noise that the id decides."""
        row = self.users.find(key)
        return row if row >= 0 else int(self.user_rows([key])[0])

    def item(self, key: Hashable) -> int:
        """The row of an item; what is new is noise, until its first click."""
        row = self.items.find(key)
        return row if row >= 0 else int(self.item_rows([key])[0])

    def user_rows(self, keys: Sequence[Hashable]) -> Ints:
        """As `user`, of each; there must be room for the new ones."""
        rows, new = self.users.rows(keys)
        if new:
            self._grow(len(self.users.ids), 0)
            a, begun = self.arrays, self.users.rows(new)[0]
            begin_rows(a.users, a.user_marks, begun, self._words(new), self._d, self._ones[:1], NOISE)
        return rows

    def item_rows(self, keys: Sequence[Hashable]) -> Ints:
        """As `item`, of each; there must be room for the new ones."""
        rows, new = self.items.rows(keys)
        if new:
            self._grow(0, len(self.items.ids))
            a, begun = self.arrays, self.items.rows(new)[0]
            begin_rows(a.items, a.item_marks, begun, self._words(new), self._d, self._ones[1:], NOISE)
        return rows

    def _words(self, keys: Sequence[Hashable]) -> Words:
        # by the id: every shard starts an item alike, whenever it comes
        return np.array([(crc32(repr(key).encode()) << 31) ^ self._seed for key in keys], np.uint64)

    def make_room(self, users: bool, items: bool) -> None:
        """Evict of the tables named, if full, the sixteenth not clicked for longest."""
        a = self.arrays
        if users and self.users.is_full:
            gone = self.users.evict(a.user_marks[:, LAST])
            a.user_marks[gone, LAST] = -1
            self.dirty_users[gone >> BLOCK_BITS] = 1
        if items and self.items.is_full:
            gone = self.items.evict(a.item_marks[:, LAST])
            a.item_marks[gone, LAST] = -1
            self.dirty_items[gone >> BLOCK_BITS] = 1
            self.standing[0] -= len(gone)
            # the row will be another item's, which nobody has clicked yet
            left = np.isin(a.user_marks[:, RECENT:], gone)
            a.user_marks[:, RECENT:][left] = -1
            self.dirty_users[np.flatnonzero(left.any(axis=1)) >> BLOCK_BITS] = 1

    def _empty(self, n_users: int, n_items: int) -> Factors:
        d = self._d
        return Factors(
            users=np.zeros((n_users, d + 2)),
            items=np.zeros((n_items, 2 * d + 3 if self._recent else d + 2)),
            user_marks=np.full((n_users, RECENT + self._recent), -1, np.int64),
            item_marks=np.full((n_items, RECENT), -1, np.int64),
        )

    def _grow(self, n_users: int, n_items: int) -> None:
        users, items = len(self.arrays.users), len(self.arrays.items)
        more_users, more_items = n_users > users, n_items > items
        if more_users or more_items:
            grown = self._empty(_room(n_users) if more_users else 0, _room(n_items) if more_items else 0)
            names = (OF_USERS if more_users else ()) + (OF_ITEMS if more_items else ())
            for name in names:
                old = getattr(self.arrays, name)
                getattr(grown, name)[: len(old)] = old
            self.arrays = self.arrays._replace(**{name: getattr(grown, name) for name in names})
            if more_users:
                self.dirty_users = _all_blocks(self.arrays.users)
            if more_items:
                self.dirty_items = _all_blocks(self.arrays.items)

    # -- state ---------------------------------------------------------------------------------------------

    def to_state(self) -> dict[str, Any]:
        """Arrays by name (the tables' own memory), and ids by row."""
        return {**self.arrays._asdict(), **self.users.to_state("user_ids"), **self.items.to_state("item_ids")}

    def from_state(self, state: Mapping[str, Any]) -> None:
        """Take up what `to_state` gave."""
        self.arrays = Factors(*(np.array(state[name]) for name in Factors._fields))
        self.users.from_state("user_ids", state)
        self.items.from_state("item_ids", state)
        self.in_use()
        self.dirty_users, self.dirty_items = _all_blocks(self.arrays.users), _all_blocks(self.arrays.items)
        self.dirty_users[:] = self.dirty_items[:] = 0

    def dirty(self) -> dict[str, list[int] | None]:
        """The blocks of rows that changed since the last call, and the ids."""
        changed: dict[str, list[int] | None] = {
            **self.users.dirty("user_ids"),
            **self.items.dirty("item_ids"),
        }
        for marks, names in ((self.dirty_users, OF_USERS), (self.dirty_items, OF_ITEMS)):
            blocks = np.flatnonzero(marks).tolist()
            marks[:] = 0
            if blocks:
                changed |= dict.fromkeys(names, blocks)
        return changed

    def in_use(self) -> None:
        """Count what stands in the table of items."""
        self.standing[:] = len(self.items), len(self.items.ids)

    def mark_all(self) -> None:
        """Everything changed."""
        self.dirty_users, self.dirty_items = _all_blocks(self.arrays.users), _all_blocks(self.arrays.items)

    def merge(self, other: Self) -> None:
        """Users are one shard's or the other's (of both: where they clicked more), items averaged by clicks.

        What finds no room is left out. Squared gradients are the larger ones.
        """
        d, there = self._d, other.arrays
        rows, at = _matched(other.items, self.items, self.item)
        mine = self.arrays
        a, b = mine.item_marks[at, CLICKS].clip(0), there.item_marks[rows, CLICKS].clip(0)
        share = np.where(a + b > 0, b / np.maximum(a + b, 1), 0.5)[:, None]
        before, theirs = mine.items[at], there.items[rows]
        merged = before + share * (theirs - before)
        for column in (d + 1, 2 * d + 2) if self._recent else (d + 1,):
            merged[:, column] = np.maximum(before[:, column], theirs[:, column])
        mine.items[at] = merged
        mine.item_marks[at, LAST] = np.maximum(mine.item_marks[at, LAST], there.item_marks[rows, LAST])
        mine.item_marks[at, CLICKS] = a + b
        of_theirs = np.full(len(other.items.ids) + 1, -1, np.int64)  # the last for "none"
        of_theirs[rows] = at

        rows, at = _matched(other.users, self.users, self.user)
        mine = self.arrays
        more = there.user_marks[rows, CLICKS] > mine.user_marks[at, CLICKS]
        rows, at = rows[more], at[more]
        mine.users[at], mine.user_marks[at] = there.users[rows], there.user_marks[rows]
        mine.user_marks[at, RECENT:] = of_theirs[there.user_marks[rows, RECENT:]]
        self.in_use()
        self.mark_all()


def _matched(other: Rows, mine: Rows, take: Callable[[Hashable], int]) -> tuple[Ints, Ints]:
    """Rows of another table and of this one of the same ids; who is new here takes a row if there is one."""
    pairs = [
        (row, mine.find(key) if mine.is_full else take(key))
        for row, key in enumerate(other.ids)
        if key is not None
    ]
    rows, at = np.array(pairs, np.int64).reshape(-1, 2).T
    return rows[at >= 0], at[at >= 0]


def _room(n: int) -> int:
    return max(16, 1 << (n - 1).bit_length())


def _all_blocks(table: Any) -> Bytes:
    return np.ones((len(table) - 1 >> BLOCK_BITS) + 1, np.uint8)
