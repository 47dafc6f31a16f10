"""Learnt lists and clicks <-> tables for Parquet, readable by any tool that knows the format."""

from typing import Any

import numpy as np
import pyarrow as pa

from ..features.batch import EXAMPLE, NO_ITEMS, Batch, Ints, Modes, item_keys, places
from .clicks import Clicks
from .learnt import Learnt

KINDS = ("labels", "every other", "pairs", "scored", "example")  # by the mode of a list
_PAIR = pa.struct([("better", pa.int32()), ("worse", pa.int32()), ("weight", pa.float64())])
_NAME = pa.dictionary(pa.int32(), pa.string())
SCHEMA = pa.schema(
    [
        ("shard", _NAME),
        ("list", pa.int64()),  # its number in the order of learning
        ("ranking", pa.int64()),  # a ranking is judged anew at each click
        ("offset", pa.int64()),  # of the record that had it judged
        ("kind", _NAME),
        ("query", _NAME),
        ("item", pa.string()),
        ("columns", pa.list_(pa.int32())),  # as the shard numbers its features
        ("values", pa.list_(pa.float64())),
        ("label", pa.float64()),
        ("weight", pa.float64()),
        ("pairs", pa.list_(_PAIR)),  # those of the list, by place, at its first row
    ]
)

CLICKS_SCHEMA = pa.schema(
    [
        ("shard", _NAME),
        ("click", pa.int64()),  # its number in the order of learning
        ("offset", pa.int64()),  # of the record it came with
        ("user", pa.string()),
        ("item", pa.string()),
        ("weight", pa.float64()),
    ]
)


def to_table(learnt: Learnt, shard: str) -> pa.Table:
    """A table of all rows; lists without any are not in it."""
    batch = learnt.batch
    sizes, m = np.diff(batch.lists), len(batch.y)
    of = np.repeat(np.arange(len(sizes)), sizes)
    names, query = np.unique(np.array(batch.queries, dtype=object), return_inverse=True)
    items: list[str | None] = []
    for size, named in zip(sizes.tolist(), learnt.items, strict=True):
        items += list(named) if len(named) else [None] * size
    indptr = pa.array(batch.indptr.astype(np.int32))
    return pa.Table.from_arrays(
        [
            pa.DictionaryArray.from_arrays(pa.array(np.zeros(m, np.int32)), pa.array([shard])),
            pa.array(learnt.first + of),
            pa.array(learnt.ranking[of]),
            pa.array(learnt.offset[of]),
            pa.DictionaryArray.from_arrays(pa.array(batch.mode[of].astype(np.int32)), pa.array(KINDS)),
            pa.DictionaryArray.from_arrays(
                pa.array(query[of].astype(np.int32)), pa.array(names.tolist(), pa.string())
            ),
            pa.array(items, pa.string()),
            pa.ListArray.from_arrays(indptr, pa.array(batch.indices)),
            pa.ListArray.from_arrays(indptr, pa.array(batch.values)),
            pa.array(batch.y),
            pa.array(batch.c),
            _pairs(batch, sizes),
        ],
        schema=SCHEMA,
    )


def from_table(table: pa.Table, first: int, end: int, *, keys: bool = False) -> Learnt:
    """The lists number `first` to `end` that the table holds, as they were learnt, to the bit."""
    table = table.combine_chunks()
    number = table.column("list").to_numpy()
    lists = np.searchsorted(number, np.arange(first, end + 1)).astype(np.int64)
    starts = np.minimum(lists[:-1], max(len(number) - 1, 0))
    held = np.diff(lists) > 0
    columns, values, pairs = (_flat(table, name) for name in ("columns", "values", "pairs"))
    row = pairs.offsets.to_numpy().astype(np.int64)
    row = row - row[0]
    inner = pairs.flatten()
    mode = np.array(
        [KINDS.index(kind) for kind in table.column("kind").combine_chunks().dictionary.to_pylist()]
    )
    kind = table.column("kind").combine_chunks().indices.to_numpy()
    named = table.column("item").to_pylist()
    items = [
        tuple(named[a:b]) if b > a and named[a] is not None else ()
        for a, b in zip(lists[:-1].tolist(), lists[1:].tolist(), strict=True)
    ]
    query = table.column("query").to_pylist()
    modes = np.where(held, mode[kind[starts]], 0).astype(np.int8)
    indptr = columns.offsets.to_numpy().astype(np.int64)
    batch = Batch(
        indptr=indptr - indptr[0],
        indices=_own(columns.flatten()),
        values=_own(values.flatten()),
        lists=lists,
        y=_own(table.column("label")),
        c=_own(table.column("weight")),
        mode=modes,
        pairs=row[lists],
        better=_own(inner.field("better")),
        worse=_own(inner.field("worse")),
        pair_c=_own(inner.field("weight")),
        queries=tuple(
            query[a] if some else "" for a, some in zip(starts.tolist(), held.tolist(), strict=True)
        ),
        items=_keys(lists, items, modes) if keys else NO_ITEMS,
    )
    ranking, offset = (table.column(name).to_numpy()[starts] for name in ("ranking", "offset"))
    return Learnt(batch, ranking, offset, first, items)


def clicks_table(clicks: Clicks, shard: str) -> pa.Table:
    """A table of clicks, a row each."""
    n = len(clicks.users)
    return pa.Table.from_arrays(
        [
            pa.DictionaryArray.from_arrays(pa.array(np.zeros(n, np.int32)), pa.array([shard])),
            pa.array(np.arange(clicks.first, clicks.end)),
            pa.array(clicks.offset),
            pa.array(clicks.users, pa.string()),
            pa.array(clicks.items, pa.string()),
            pa.array(clicks.weights),
        ],
        schema=CLICKS_SCHEMA,
    )


def clicks_from(table: pa.Table, first: int) -> Clicks:
    """The clicks of a table, the first of which has this number."""
    users, items = (table.column(name).to_pylist() for name in ("user", "item"))
    weights, offset = (table.column(name).to_numpy() for name in ("weight", "offset"))
    return Clicks(users, items, weights, offset, first)


def _pairs(batch: Batch, sizes: Ints) -> pa.Array:
    """The pairs of each list at its first row, none at the others."""
    rows = np.zeros(len(batch.y), np.int64)
    counts = np.diff(batch.pairs)
    rows[batch.lists[:-1][sizes > 0]] = counts[sizes > 0]
    offsets = np.concatenate([[0], np.cumsum(rows)]).astype(np.int32)
    pairs = pa.StructArray.from_arrays(
        [pa.array(batch.better), pa.array(batch.worse), pa.array(batch.pair_c)], fields=list(_PAIR)
    )
    return pa.ListArray.from_arrays(pa.array(offsets), pairs)


def _own(column: Any) -> Any:
    """As arrays of a live batch are: kernels would be compiled anew for such as may not be written to."""
    return np.require(column.to_numpy(), requirements="W")


def _flat(table: pa.Table, name: str) -> pa.ListArray:
    return table.column(name).combine_chunks()


def _keys(lists: Ints, items: list[tuple[str, ...]], modes: Modes) -> Ints:
    keys = places(lists)
    for q, names in enumerate(items):
        if names and modes[q] != EXAMPLE:
            keys[lists[q] : lists[q + 1]] = item_keys(names)
    return keys
