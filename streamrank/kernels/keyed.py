"""Values kept by query and item: chains of entries, one chain a query, found before a batch is learnt."""

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from .jit import jit

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]
Bools = npt.NDArray[np.bool_]


class Chains(NamedTuple):
    """Entries and where each query's chain of them begins; an entry never moves while it is in use."""

    key: Ints  # of the item
    u: Floats
    next: npt.NDArray[np.int32]  # -1: the last of its chain; of a free entry, the next free one
    head: npt.NDArray[np.int32]  # of each slot
    held: npt.NDArray[np.int32]  # entries of each slot
    query: Floats  # (slots, 3): what is kept by query


class Visit(NamedTuple):
    """Where the lists of one batch find their values, in the order in which they are learnt."""

    slot: Ints  # of each list; -1: it has none
    fresh: Bools  # the slot begins anew with this list
    known: Ints  # items known of the query by then
    entry: Ints  # of each row; -1: none
    new: Bools  # the entry begins anew with this row


@jit
def find(
    lists: Ints, items: Ints, chains: Chains, free: int, max_items: int, visit: Visit
) -> tuple[int, int]:
    """Fill in `known`, `entry` and `new` of a visit, making entries for new items.

    Returns the first free entry, and how many rows are new.

    Without `items` the place in the list is the key. The newest item is first in its chain; of a query that
    holds `max_items` the oldest is forgotten. No value is read or written here: an entry that changes hands
    within a batch is begun anew when its list is learnt.
    """
    key, following, head, held = chains.key, chains.next, chains.head, chains.held
    n_new = 0
    for q in range(len(lists) - 1):
        slot = visit.slot[q]
        first, end = lists[q], lists[q + 1]
        if slot < 0:
            visit.known[q] = end - first
            visit.entry[first:end] = -1
            visit.new[first:end] = False
            continue
        if visit.fresh[q]:
            at = head[slot]
            while at >= 0:
                after = following[at]
                following[at] = free
                free = at
                at = after
            head[slot], held[slot] = -1, 0
        for r in range(first, end):
            wanted = items[r] if len(items) else r - first
            at, before, ahead = head[slot], -1, -1
            while at >= 0 and key[at] != wanted:
                ahead, before, at = before, at, following[at]
            visit.new[r] = at < 0
            n_new += at < 0
            if at < 0:
                if held[slot] >= max_items:  # `before` is the last of the chain
                    at = before
                    if ahead >= 0:
                        following[ahead] = -1
                    else:
                        head[slot] = -1
                else:
                    at = free
                    free = following[at]
                    held[slot] += 1
                key[at] = wanted
                following[at] = head[slot]
                head[slot] = at
            visit.entry[r] = at
        visit.known[q] = held[slot]
    return free, n_new


@jit
def chain(chains: Chains, slot: int) -> Ints:
    """The entries of a slot, the newest first."""
    out = np.empty(chains.held[slot], dtype=np.int64)
    at = chains.head[slot]
    for k in range(len(out)):
        out[k] = at
        at = chains.next[at]
    return out


@jit
def begin_anew(chains: Chains, visit: Visit, q: int, first: int, end: int) -> None:
    """What list q is the first to hold starts: u at 0; of a query lambda and its curvature unknown, Z 0."""
    slot = visit.slot[q]
    if slot >= 0:
        if visit.fresh[q]:
            chains.query[slot, 0] = chains.query[slot, 1] = np.nan
            chains.query[slot, 2] = 0.0
        for r in range(first, end):
            if visit.new[r]:
                chains.u[visit.entry[r]] = 0.0
