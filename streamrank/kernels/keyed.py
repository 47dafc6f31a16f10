"""Values kept by query and item: chains of entries, one chain a query."""

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from .jit import jit

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]
Bools = npt.NDArray[np.bool_]

FREE, HELD = 0, 1  # places in `Chains.room`


class Chains(NamedTuple):
    """Entries and where each query's chain of them begins; an entry never moves while it is in use."""

    key: Ints  # of the item
    u: Floats
    next: npt.NDArray[np.int32]  # -1: the last of its chain; of a free entry, the next free one
    head: npt.NDArray[np.int32]  # of each slot
    held: npt.NDArray[np.int32]  # entries of each slot
    query: Floats  # (slots, 3): what is kept by query
    room: Ints  # the first free entry, and how many are held


class Visit(NamedTuple):
    """Which queries the lists of one batch are of, in the order in which they are learnt."""

    slot: Ints  # of each list; -1: it has none
    fresh: Bools  # the slot begins anew with this list
    items: Ints  # the key of each row; or none, and the place in the list is the key
    max_items: int  # of a query


@jit
def enter(chains: Chains, visit: Visit, q: int, first: int, end: int, entry: Ints) -> int:
    """Find the entry of each row of list q, from `first` to `end`; new ones, with u = 0, where it has none.

    Returns the slot of its query; -1: it has none, nor entries. The newest item is first in its chain; of a
    query that holds `max_items` the oldest is forgotten. Of a query that begins anew lambda and its curvature
    are not known, and Z is 0.
    """
    slot = int(visit.slot[q])
    if slot >= 0:
        if visit.fresh[q]:
            _empty(chains, slot)
        n = chains.held[slot]
        if not _known(chains.key, chains.next, chains.head[slot], n, visit.items, first, end, entry):
            _enter_anew(chains, visit, slot, first, end, entry)
    return slot


@jit
def recall(
    kept: Floats, numbers: Floats, held: npt.NDArray[np.int32], slot: int, entry: Ints, m: int, u: Floats,
    query: Floats,
) -> int:  # fmt: skip
    """What is known of a query: u of some entries, its own three numbers, and how many items it has.

    Of no query (-1): nothing, and m items.
    """
    for r in range(m):
        u[r] = kept[entry[r]] if slot >= 0 else 0.0
    for k in range(3):
        query[k] = numbers[slot, k] if slot >= 0 else 0.0 if k == 2 else np.nan
    return int(held[slot]) if slot >= 0 else m


@jit
def remember(kept: Floats, numbers: Floats, slot: int, entry: Ints, m: int, u: Floats, query: Floats) -> None:
    """Keep what was recalled, as it is now."""
    for r in range(m if slot >= 0 else 0):
        kept[entry[r]] = u[r]
    for k in range(3 if slot >= 0 else 0):
        numbers[slot, k] = query[k]


@jit
def _known(
    key: Ints,
    following: npt.NDArray[np.int32],
    head: int,
    n: int,
    items: Ints,
    first: int,
    end: int,
    entry: Ints,
) -> bool:
    """Find the entries of rows that are all known already; False if one is not."""
    keys = np.empty((2, n), np.int64)
    at = head
    for k in range(n):
        keys[0, k], keys[1, k] = key[at], at
        at = following[at]
    r = first
    while r < end:
        wanted = items[r] if len(items) else r - first
        k = 0
        while k < n and keys[0, k] != wanted:
            k += 1
        if k == n:
            break
        entry[r - first] = keys[1, k]
        r += 1
    return r == end


@jit
def _enter_anew(chains: Chains, visit: Visit, slot: int, first: int, end: int, entry: Ints) -> None:
    key, u, following, head, held, _, room = chains
    items, most = visit.items, visit.max_items
    for r in range(first, end):
        wanted = items[r] if len(items) else r - first
        at, before, ahead = head[slot], -1, -1
        while at >= 0 and key[at] != wanted:
            ahead, before, at = before, at, following[at]
        if at < 0:
            if held[slot] >= most:  # `before` is the last of the chain
                at = before
                if ahead >= 0:
                    following[ahead] = -1
                else:
                    head[slot] = -1
            else:
                at = room[FREE]
                room[FREE] = following[at]
                room[HELD] += 1
                held[slot] += 1
            key[at] = wanted
            following[at] = head[slot]
            head[slot] = at
            u[at] = 0.0
        entry[r - first] = at


@jit
def _empty(chains: Chains, slot: int) -> None:
    at = chains.head[slot]
    while at >= 0:
        after = chains.next[at]
        chains.next[at] = chains.room[FREE]
        chains.room[FREE] = at
        at = after
    chains.room[HELD] -= chains.held[slot]
    chains.head[slot], chains.held[slot] = -1, 0
    chains.query[slot, 0] = chains.query[slot, 1] = np.nan
    chains.query[slot, 2] = 0.0


@jit
def enter_all(chains: Chains, visit: Visit, lists: Ints, u: Floats) -> None:
    """Let the rows of each list have these u."""
    for q in range(len(lists) - 1):
        first, end = lists[q], lists[q + 1]
        entry = np.empty(end - first, np.int64)
        enter(chains, visit, q, first, end, entry)
        for r in range(first, end):
            chains.u[entry[r - first]] = u[r]


@jit
def chain(chains: Chains, slot: int) -> Ints:
    """The entries of a slot, the newest first."""
    out = np.empty(chains.held[slot], dtype=np.int64)
    at = chains.head[slot]
    for k in range(len(out)):
        out[k] = at
        at = chains.next[at]
    return out
