"""The rows of users and items of a factor model: bounded, stored by blocks, merged between shards."""

from collections.abc import Callable, Hashable, Mapping, Sequence
from typing import Any, Self
from zlib import crc32

import numpy as np

from ..errors import ConfigError
from ..features.batch import Floats, Ints
from ..kernels.factors import CLICKS, LAST, RECENT, Factors, begin_rows
from ..kernels.splitmix import Words
from ..kernels.traits import BLOCK_BITS, Bytes
from .pooling import Elsewhere, own_steps
from .rows import Rows

NOISE = 0.1  # spread of new factors
OF = {
    "users": ("users", "user_marks", "user_traits"),
    "items": ("items", "item_marks", "item_traits"),
    "traits": ("traits", "trait_marks"),
    "shelf": ("shelf_traits", "shelf_marks"),
}
IDS = {"users": "user_ids", "items": "item_ids", "traits": "trait_ids", "shelf": "shelf_ids"}


class FactorTables:
    """`arrays` hold a row for each id of `users`, `items`, `traits`, and room to grow: rows by powers of two.

    How large they are follows from the rows taken alone, so it is the same however clicks were batched. Users
    and items have up to `per_row` traits each; if that is 0, there are none at all. An item that is described
    and not clicked yet stands on the shelf, which holds as many as `items`: only what was clicked is drawn.
    Shards that pool (`pooling.py`) share items and traits: of each row `elsewhere` is what others add to it.
    """

    def __init__(
        self, d: int, recent: int, per_row: int, max_users: int, max_items: int, max_traits: int, seed: int
    ) -> None:
        self._d, self._recent, self.per_row, self._seed = d, recent, per_row, seed
        self.users, self.items = Rows(max_users), Rows(max_items)
        self.traits, self.shelf = Rows(max_traits), Rows(max_items)
        self._ones = np.array([d, d + 1, 2 * d + 2][: 3 if recent else 2])  # G of U; of V, and of W
        self.arrays = self._empty(16, 16, *(16, 16) if per_row else (0, 0))
        self.shared = ("items", "traits") if per_row else ("items",)
        self.squares = {"items": self._ones[1:], "traits": self._ones[1:2]}  # columns of G
        self.elsewhere = {"items": Elsewhere(self.arrays.items.shape[1]), "traits": Elsewhere(d + 3)}
        self.is_sum = False  # merged from shards that pool
        self.standing: Ints = np.zeros(2, np.int64)  # items in use, rows of items
        self.dirty_users: Bytes = np.ones(1, np.uint8)
        self.dirty_items: Bytes = np.ones(1, np.uint8)
        self.dirty_traits: Bytes = np.ones(1, np.uint8)
        self.dirty_shelf: Bytes = np.ones(1, np.uint8)

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
        self._begin_users(new)
        return rows

    def item_rows(self, keys: Sequence[Hashable]) -> Ints:
        """As `item`, of each; there must be room for the new ones."""
        rows, new = self.items.rows(keys)
        self._begin_items(new)
        return rows

    def rows_of(self, users: Sequence[Hashable], items: Sequence[Hashable]) -> tuple[Ints, Ints]:
        """As `user_rows` and `item_rows`; with an id among them that is none, nothing is changed."""
        n_ids = len(self.users.ids)
        rows, new_users = self.users.rows(users)
        try:
            columns, new_items = self.items.rows(items)
        except (TypeError, ValueError):
            self.users.give_back(new_users, n_ids)
            raise
        self._begin_users(new_users)
        self._begin_items(new_items)
        return rows, columns

    def _begin_users(self, new: Sequence[Hashable]) -> None:
        if new:
            self._grow(users=len(self.users.ids))
            a, begun = self.arrays, self.users.rows(new)[0]
            begin_rows(a.users, a.user_marks, begun, self._words(new), self._d, self._ones[:1], NOISE)

    def _begin_items(self, new: Sequence[Hashable]) -> None:
        if new:
            self._grow(items=len(self.items.ids))
            a, begun = self.arrays, self.items.rows(new)[0]
            begin_rows(a.items, a.item_marks, begun, self._words(new), self._d, self._ones[1:], NOISE)
            for key, row in zip(new, begun.tolist(), strict=True) if len(self.shelf) else ():
                if (place := self.shelf.find(key)) >= 0:
                    a.item_traits[row] = a.shelf_traits[place]
                    a.shelf_traits[place] = a.shelf_marks[place] = -1
                    self.shelf.release(key)
                    self.dirty_shelf[place >> BLOCK_BITS] = 1

    def _words(self, keys: Sequence[Hashable]) -> Words:
        # by the id: every shard starts an item alike, whenever it comes
        # as a store gives it back: the repr of a numpy scalar says that it is one
        plain = (key.item() if isinstance(key, np.generic) else key for key in keys)
        return np.array([(crc32(repr(key).encode()) << 31) ^ self._seed for key in plain], np.uint64)

    def traits_of(self, table: str, key: Hashable) -> list[Any]:
        """The names of the traits of a user or item."""
        row, of = getattr(self, table).find(key), getattr(self.arrays, OF[table][2])
        if row < 0 and table == "items":
            row, of = self.shelf.find(key), self.arrays.shelf_traits
        return [self.traits.ids[trait] for trait in of[row].tolist() if trait >= 0] if row >= 0 else []

    def describe(self, table: str, key: Hashable, names: Sequence[str], number: int) -> None:
        """Let a user or item have these traits, at most `per_row`; who is new takes a row, or its place."""
        self.users.refuse(key)
        traits = self._trait_rows(names[: self.per_row], number)
        if table == "users":
            if self.users.lacks_room_for(key):
                self.make_room(True, False)
            row = self.user(key)
        elif (row := self.items.find(key)) < 0:
            table, row = "shelf", self._place(key, number)
        of = getattr(self.arrays, "shelf_traits" if table == "shelf" else OF[table][2])
        of[row] = -1
        of[row, : len(traits)] = traits
        getattr(self, f"dirty_{table}")[row >> BLOCK_BITS] = 1

    def _place(self, key: Hashable, number: int) -> int:
        """Where an item stands on the shelf; of a full one the sixteenth described longest ago goes."""
        if self.shelf.lacks_room_for(key):
            gone = self.shelf.evict(self.arrays.shelf_marks[:, 0])
            self.arrays.shelf_traits[gone] = self.arrays.shelf_marks[gone] = -1
            self.dirty_shelf[gone >> BLOCK_BITS] = 1
        place = int(self.shelf.rows([key])[0][0])
        self._grow(shelf=len(self.shelf.ids))
        self.arrays.shelf_marks[place] = number
        return place

    def _trait_rows(self, names: Sequence[str], number: int) -> Ints:
        """The rows of traits; new ones start at zero, and as fresh as if clicked by click `number`."""
        while not self.traits.has_room_for(names):
            gone = self.traits.evict(self.arrays.trait_marks[:, LAST])
            self.dirty_traits[gone >> BLOCK_BITS] = 1
            self.elsewhere["traits"].clear(gone)
            for of, dirty in (
                (self.arrays.user_traits, self.dirty_users),
                (self.arrays.item_traits, self.dirty_items),
                (self.arrays.shelf_traits, self.dirty_shelf),
            ):
                left = np.isin(of, gone)
                of[left] = -1
                dirty[np.flatnonzero(left.any(axis=1)) >> BLOCK_BITS] = 1
        rows, new = self.traits.rows(names)
        if new:
            self._grow(traits=len(self.traits.ids))
            a, begun = self.arrays, self.traits.rows(new)[0]
            a.traits[begun] = 0.0
            a.traits[begun, self._d + 1] = 1.0
            a.trait_marks[begun] = number, 0
            self.dirty_traits[begun >> BLOCK_BITS] = 1
        return rows

    def make_room(self, users: bool, items: bool) -> None:
        """Evict of the tables named, if full, the sixteenth not clicked for longest."""
        a = self.arrays
        if users and self.users.is_full:
            gone = self.users.evict(a.user_marks[:, LAST])
            a.user_marks[gone, LAST] = -1
            a.user_traits[gone] = -1
            self.dirty_users[gone >> BLOCK_BITS] = 1
        if items and self.items.is_full:
            gone = self.items.evict(a.item_marks[:, LAST])
            self.standing[0] -= len(gone)
            a.item_marks[gone, LAST] = -1
            a.item_traits[gone] = -1
            self.dirty_items[gone >> BLOCK_BITS] = 1
            self.elsewhere["items"].clear(gone)
            # the row will be another item's, which nobody has clicked yet
            left = np.isin(a.user_marks[:, RECENT:], gone)
            a.user_marks[:, RECENT:][left] = -1
            self.dirty_users[np.flatnonzero(left.any(axis=1)) >> BLOCK_BITS] = 1

    def _empty(self, n_users: int, n_items: int, n_traits: int, n_shelf: int) -> Factors:
        d = self._d
        return Factors(
            users=np.zeros((n_users, d + 2)),
            items=np.zeros((n_items, 2 * d + 3 if self._recent else d + 2)),
            user_marks=np.full((n_users, RECENT + self._recent), -1, np.int64),
            item_marks=np.full((n_items, RECENT), -1, np.int64),
            user_traits=np.full((n_users, self.per_row), -1, np.int64),
            item_traits=np.full((n_items, self.per_row), -1, np.int64),
            traits=np.zeros((n_traits, d + 3)),
            trait_marks=np.full((n_traits, RECENT), -1, np.int64),
            shelf_traits=np.full((n_shelf, self.per_row), -1, np.int64),
            shelf_marks=np.full((n_shelf, 1), -1, np.int64),
        )

    def _grow(self, **sizes: int) -> None:
        """Room for so many rows of the tables named."""
        for table, n in sizes.items():
            if n > len(getattr(self.arrays, OF[table][0])):
                grown = self._empty(*(_room(n) if name == table else 0 for name in OF))
                for name in OF[table]:
                    old = getattr(self.arrays, name)
                    getattr(grown, name)[: len(old)] = old
                    self.arrays = self.arrays._replace(**{name: getattr(grown, name)})
                setattr(self, f"dirty_{table}", _all_blocks(getattr(self.arrays, OF[table][0])))
                if table in self.elsewhere:
                    self.elsewhere[table].grow(_room(n))

    # -- state ---------------------------------------------------------------------------------------------

    def to_state(self) -> dict[str, Any]:
        """Arrays by name (the tables' own memory), and ids by row."""
        state = {name: getattr(self.arrays, name) for table in self._stored() for name in self._names(table)}
        for table in self._stored():
            state |= getattr(self, table).to_state(IDS[table])
        return state | {f"{table}_elsewhere": part.rows for table, part in self._pooled()}

    def _pooled(self) -> list[tuple[str, Elsewhere]]:
        return [(table, part) for table, part in self.elsewhere.items() if len(part.rows)]

    def _stored(self) -> tuple[str, ...]:
        return tuple(OF) if self.per_row else ("users", "items")

    def _names(self, table: str) -> tuple[str, ...]:
        """Of the arrays of a table that are stored."""
        return OF[table] if self.per_row else OF[table][:2]

    def from_state(self, state: Mapping[str, Any]) -> None:
        """Take up what `to_state` gave; traits that it does not have are none."""
        self._refuse_other(state)
        sizes = (len(state["users"]), len(state["items"]), *((16, 16) if self.per_row else (0, 0)))
        names = [name for table in self._stored() for name in self._names(table) if name in state]
        self.arrays = self._empty(*sizes)._replace(**{name: np.array(state[name]) for name in names})
        for table in self._stored():
            getattr(self, table).from_state(IDS[table], state)
        self.is_sum = False
        for table in self.shared:
            stored = state.get(f"{table}_elsewhere", self.elsewhere[table].rows[:0])
            self.elsewhere[table].put(np.array(stored))
        self.in_use()
        self.mark_all()
        for table in OF:
            getattr(self, f"dirty_{table}")[:] = 0
        for _, part in self._pooled():
            part.dirty[:] = 0

    def _refuse_other(self, state: Mapping[str, Any]) -> None:
        """ConfigError for rows of another shape: a kernel would write beside the arrays, or read there."""
        shapes = {name: np.shape(state[name]) for names in OF.values() for name in names if name in state}
        alike = all(shape[1:] == getattr(self.arrays, name).shape[1:] for name, shape in shapes.items())
        rows = ({shapes[name][0] for name in names if name in shapes} for names in OF.values())
        if not alike or any(len(counts) > 1 for counts in rows):
            raise ConfigError(
                "what was learnt has rows of another shape: d and recent stay as they were, and fields may "
                "be others but not none at all. Go on with those, or under another name, which starts anew."
            )

    def dirty(self) -> dict[str, list[int] | None]:
        """The blocks of rows that changed since the last call, and the ids."""
        changed: dict[str, list[int] | None] = {}
        for table in self._stored():
            changed |= getattr(self, table).dirty(IDS[table])
            marks = getattr(self, f"dirty_{table}")
            blocks = np.flatnonzero(marks).tolist()
            marks[:] = 0
            if blocks:
                changed |= dict.fromkeys(self._names(table), blocks)
        for table, part in self._pooled():
            if blocks := np.flatnonzero(part.dirty).tolist():
                changed[f"{table}_elsewhere"] = blocks
            part.dirty[:] = 0
        return changed

    def in_use(self) -> None:
        """Count what stands in the table of items."""
        self.standing[:] = len(self.items), len(self.items.ids)

    def mark_all(self) -> None:
        """Everything changed."""
        for table in OF:
            setattr(self, f"dirty_{table}", _all_blocks(getattr(self.arrays, OF[table][0])))
        for _, part in self._pooled():
            part.mark_all()

    # -- what shards teach each other ----------------------------------------------------------------------

    def marks(self, table: str) -> Ints:
        """The marks of a table's rows."""
        found: Ints = getattr(self.arrays, OF[table][1])
        return found

    def growth(self, table: str, keys: Sequence[Hashable]) -> int:
        """By how many bytes the state grows, at most, when these get rows and each has its `elsewhere`."""
        held, part = getattr(self, table), self.elsewhere[table].rows
        arrays = [getattr(self.arrays, name) for name in self._names(table)]
        n: int = max(len(arrays[0]), _room(max(len(held.ids), len(held) + len(keys))))
        width: int = sum(array[0].nbytes for array in arrays) + 8 * part.shape[1]
        before: int = sum(array.nbytes for array in arrays) + part.nbytes
        return n * width - before + sum(len(repr(key)) + 9 for key in keys)

    def begin(self, table: str, keys: Sequence[Hashable]) -> None:
        """Rows for what other shards know: in use, without a click, and the first to go."""
        if table == "traits":
            self._trait_rows([str(name) for name in keys], 0)
            return
        rows = self.item_rows(keys)
        self.arrays.item_marks[rows, LAST] = 0
        self.in_use()

    def starts(self, table: str) -> Floats:
        """Every row of items or traits as it begins: by its id."""
        starts: Floats = np.zeros_like(getattr(self.arrays, table))
        keys = [(row, key) for row, key in enumerate(getattr(self, table).ids) if key is not None]
        if table == "items" and keys:
            rows, words = np.array([row for row, _ in keys]), self._words([key for _, key in keys])
            begin_rows(starts, self.arrays.item_marks.copy(), rows, words, self._d, self._ones[1:], NOISE)
        return starts

    def mark_shared(self) -> None:
        """All items and traits changed."""
        for table in self.shared:
            setattr(self, f"dirty_{table}", _all_blocks(getattr(self.arrays, OF[table][0])))

    def merge(self, other: Self) -> None:
        """Users are one shard's or the other's (of both: where they clicked more), items averaged by clicks.

        Items of shards that pool are where the steps of both lead, whatever either has taken in of the other
        so far: one that stands still has done so at an offset that was read before. What finds no room is
        left out. Squared gradients are the larger ones.
        """
        d, there, steps = self._d, other.arrays, self._steps_with(other)
        rows, at = _matched(other.items, self.items, self.item)
        mine = self.arrays
        a, b = mine.item_marks[at, CLICKS].clip(0), there.item_marks[rows, CLICKS].clip(0)
        share = np.where(a + b > 0, b / np.maximum(a + b, 1), 0.5)[:, None]
        before, theirs = mine.items[at], there.items[rows]
        merged = before + share * (theirs - before)
        for column in (d + 1, 2 * d + 2) if self._recent else (d + 1,):
            merged[:, column] = np.maximum(before[:, column], theirs[:, column])
        mine.items[at] = merged
        self._lead_on("items", steps, rows, at)
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
        if self.per_row:
            self._merge_traits(other, steps)
        self.is_sum = bool(steps)
        for table, part in self.elsewhere.items():  # what both say is of no shard's steps alone
            if steps or len(part.rows):
                part.put(np.zeros_like(getattr(self.arrays, table)))
        self.in_use()
        self.mark_all()

    def _steps_with(self, other: Self) -> dict[str, tuple[Floats, Floats]]:
        """By table what the steps of this shard and of the other came to, if they pool; of none yet, none."""
        if not other._pooled() or (len(self.items) and not self._pooled()):
            return {}
        return {table: (own_steps(self, table), own_steps(other, table)) for table in self.shared}

    def _lead_on(self, table: str, steps: dict[str, tuple[Floats, Floats]], rows: Ints, at: Ints) -> None:
        """All but squared gradients from where a row begins, by the steps of both."""
        if steps:
            (own, theirs), held = steps[table], getattr(self.arrays, table)
            moved = self.starts(table)
            moved[: len(own)] += own
            moved[at] += theirs[rows]
            moved[:, self.squares[table]] = held[:, self.squares[table]]
            held[:] = moved

    def _merge_traits(self, other: Self, steps: dict[str, tuple[Floats, Floats]]) -> None:
        """Averaged by clicks; what is described on one side only, or clicked more there, has its traits."""
        d, there = self._d, other.arrays
        rows, at = _matched(other.traits, self.traits, lambda name: int(self._trait_rows([str(name)], 0)[0]))
        mine = self.arrays
        a, b = mine.trait_marks[at, CLICKS].clip(0), there.trait_marks[rows, CLICKS].clip(0)
        share = np.where(a + b > 0, b / np.maximum(a + b, 1), 0.5)[:, None]
        before, theirs = mine.traits[at], there.traits[rows]
        merged = before + share * (theirs - before)
        merged[:, d + 1] = np.maximum(before[:, d + 1], theirs[:, d + 1])
        mine.traits[at] = merged
        self._lead_on("traits", steps, rows, at)
        mine.trait_marks[at, LAST] = np.maximum(mine.trait_marks[at, LAST], there.trait_marks[rows, LAST])
        mine.trait_marks[at, CLICKS] = a + b
        for table in ("users", "items"):
            of = getattr(other.arrays, OF[table][2])
            self.take_traits(table, getattr(other, table).ids, of, other.traits.ids)
        for key in other.shelf.ids:
            if key is not None and not self.traits_of("items", key):
                self.describe("items", key, other.traits_of("items", key), 0)

    def take_traits(self, table: str, ids: Sequence[Hashable], of: Ints, names: Sequence[Hashable]) -> None:
        """Let users or items without traits have those they have elsewhere: `of` are rows of `names`."""
        at = getattr(self, table).places(ids)
        here, known = getattr(self.arrays, OF[table][2]), self.traits.places([*names, None])  # -1: none
        bare = (at >= 0) & (here[at] < 0).all(axis=1)
        here[at[bare]] = known[of[: len(ids)][bare]]


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
    return np.ones((max(len(table), 1) - 1 >> BLOCK_BITS) + 1, np.uint8)
