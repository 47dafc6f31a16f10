"""What shards teach each other: to its items each adds what the steps of the others came to."""

from collections import Counter
from collections.abc import Hashable, Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from ..features.batch import Floats, Ints
from ..kernels.factors import CLICKS, LAST
from ..kernels.traits import BLOCK_BITS, Bytes

if TYPE_CHECKING:
    from .factors import FactorTables
    from .rows import Rows


class Elsewhere:
    """What the steps of other shards add to each row of a table; none, and not stored, until shards pool."""

    def __init__(self, width: int) -> None:
        self.rows: Floats = np.zeros((0, width))
        self.dirty: Bytes = np.ones(1, np.uint8)

    def put(self, rows: Floats) -> None:
        """Take these in the place of what there was."""
        self.rows = rows
        self.mark_all()

    def grow(self, n: int) -> None:
        """Room for so many rows, if there are any."""
        if 0 < len(self.rows) < n:
            self.put(np.concatenate([self.rows, np.zeros((n - len(self.rows), self.rows.shape[1]))]))

    def clear(self, gone: Ints) -> None:
        """Rows that will be another's."""
        if len(self.rows):
            self.rows[gone] = 0.0
            self.dirty[gone >> BLOCK_BITS] = 1

    def mark_all(self) -> None:
        """Everything changed."""
        self.dirty = np.ones((max(len(self.rows), 1) - 1 >> BLOCK_BITS) + 1, np.uint8)


class Taught(NamedTuple):
    """What a shard teaches others of items, or traits, a row each."""

    ids: Sequence[Hashable]
    clicks: Ints
    own: Floats  # (1) of `pool`
    traits: Ints  # rows of the traits of an item, -1 for none


def taught(tables: "FactorTables") -> dict[str, Taught]:
    """By table; a copy, which stays as it is when the shard learns on."""
    found = {}
    for table in tables.shared:
        ids = list(getattr(tables, table).ids)
        clicks, traits = tables.marks(table)[: len(ids), CLICKS].copy(), tables.arrays.item_traits.copy()
        found[table] = Taught(ids, clicks, own_steps(tables, table)[: len(ids)], traits[: len(ids)])
    return found


def pool(mine: "FactorTables", others: Sequence[Mapping[str, Taught]], n_bytes: float) -> bool:
    """Let the rows of items and traits be where the steps of all shards together lead.

    With V_i a row of shard s, E_i what is in it of others, and V0_i how it begins, which the id decides,
        own_i = V_i - E_i - V0_i,  less what is typical of s                                           (1)
        E_i <- sum of own_i of the other shards that have i,  V_i <- V0_i + own_i + E_i                (2)
    So each step counts once in every shard, as late as it is read; who reads twice, or in another order, has
    the same; and what a shard learns itself is not made smaller, as it would be by a mean. Typical of items
    is what a new one starts as, the mean of all by 1/clicks: a vector that is the same in all V changes no
    order and no step, but it would add up, and with every item that begins in several shards once more.

    Squared gradients and clicks stay a shard's own. What only others have clicked gets a row, what is clicked
    most first, while the table has room. False, and nothing is changed, where the state would grow by more
    than `n_bytes` even without such rows.
    """
    new = {table: _unknown(getattr(mine, table), [o[table] for o in others]) for table in mine.shared}
    while sum(mine.growth(table, keys) for table, keys in new.items()) > n_bytes:
        if not any(new.values()):
            return False
        new = {table: keys[: len(keys) // 2] for table, keys in new.items()}
    for table, keys in new.items():
        own = own_steps(mine, table)
        mine.begin(table, keys)
        starts, held = mine.starts(table), getattr(mine, table)
        total = np.zeros_like(starts)
        for other in others:
            at = held.places(other[table].ids)
            total[at[at >= 0]] += other[table].own[at >= 0]
        moved = starts + total
        moved[: len(own)] += own
        squares = mine.squares[table]
        moved[:, squares] = getattr(mine.arrays, table)[:, squares]
        getattr(mine.arrays, table)[:] = moved
        mine.elsewhere[table].put(total)
    if "traits" in mine.shared:
        for other in others:
            mine.take_traits("items", other["items"].ids, other["items"].traits, other["traits"].ids)
    mine.mark_shared()
    return True


def own_steps(tables: "FactorTables", table: str) -> Floats:
    """(1) of `pool`, a row each; zero where a row is not in use. A sum of such has nothing typical left."""
    own: Floats = getattr(tables.arrays, table) - tables.starts(table)
    own[:, tables.squares[table]] = 0.0
    if len(tables.elsewhere[table].rows):
        own -= tables.elsewhere[table].rows
    used = tables.marks(table)[:, LAST] >= 0
    own[~used] = 0.0
    if table == "items" and used.any() and not tables.is_sum:
        d, rarely = tables.arrays.users.shape[1] - 2, 1.0 / np.maximum(tables.marks(table)[used, CLICKS], 1)
        own[used, : d + 1] -= rarely @ own[used, : d + 1] / rarely.sum()
    return own


def _unknown(held: "Rows", others: Sequence[Taught]) -> list[Hashable]:
    """What has been clicked elsewhere and has no row here, the most clicked first, as many as have room."""
    clicks: Counter[Hashable] = Counter()
    for ids, counted, _, _ in others:
        for row in np.flatnonzero((held.places(ids) < 0) & (counted > 0)).tolist():
            if ids[row] is not None:
                clicks[ids[row]] += int(counted[row])
    return [key for key, _ in clicks.most_common()][: max(held.limit - len(held), 0)]
