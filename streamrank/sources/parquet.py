"""Parquet files (the extra `parquet`): events as they are, judged lists, or who liked what."""

from collections.abc import Callable, Generator, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from typing import Any

import msgspec
import numpy as np

from streamrank.errors import SourceError
from streamrank.events.types import PackedRanking, Record
from streamrank.features.batch import Floats
from streamrank.sources.base import FileSource, readable
from streamrank.sources.dataset import Dataset
from streamrank.sources.interactions import Row, encode
from streamrank.sources.layout import EVENTS, INTERACTIONS, LISTS, Layout, opened, recognise
from streamrank.sources.spelling import to_ms

PARQUET_ENDINGS = (".parquet", ".pq")
_BATCH_ROWS = 8192


@dataclass(slots=True)
class _List:
    """Consecutive rows of one group; it may go on in the next batch."""

    key: object
    user: str | None
    time_ms: int | None
    items: list[str] = field(default_factory=list)
    labels: list[float] = field(default_factory=list)
    blocks: list[Floats] = field(default_factory=list)


class ParquetSource(FileSource):
    """The records of Parquet files, a batch of rows in memory at a time. What they are, the columns say:

    1. `event`, `value` or `json`, of text or binary: every row is a record as it is (null: no record);
    2. a group (`qid`, `query_id`, ...), a label (`label`, `rel`, ...) and numeric features: consecutive rows
       of one group are a packed ranking with labels; null is a missing value;
    3. a user and an item, maybe a rating and a time: every row is an interaction.
    """

    def __init__(self, paths: Sequence[str | Path]) -> None:
        super().__init__(paths)
        self._layouts = {path: recognise(path) for path in self.paths}
        kinds = sorted({layout.kind for layout in self._layouts.values()})
        if len(kinds) > 1:
            raise SourceError(f"the files hold {' and '.join(kinds)}: read one kind at a time")

    def _read(self, path: Path, offset: int, start: int) -> Generator[Record, None, int]:
        layout = self._layouts[path]
        names = msgspec.Raw(msgspec.msgpack.encode(layout.features))
        with opened(path) as file:
            for row, found in _READERS[layout.kind](self._batches(file, path), layout, path):
                if offset >= start:
                    value = _pack(found, names, offset) if isinstance(found, _List) else found
                    value = encode(value, offset) if isinstance(value, Row) else value
                    yield Record(offset, value, f"{path.name}#{row}")
                offset += 1
        return offset

    def _batches(self, file: Any, path: Path) -> Iterator[Any]:
        done, size = 0, path.stat().st_size
        for batch in _batches(file, self._layouts[path]):
            yield batch
            done += len(batch)
            self._within = size * done // file.metadata.num_rows  # how far in bytes, Parquet does not say


def read_parquet_lists(paths: Sequence[str | Path]) -> Dataset:
    """All judged lists of all files as arrays; a null feature is absent from its row."""
    lists, qids, docs, labels, blocks = [0], [], [], [], []
    names: list[str] | None = None
    for path in readable(paths):
        layout = recognise(path)
        if layout.kind != LISTS:
            raise SourceError(
                f"{path}: holds {layout.kind}, not {LISTS} (a group, a label, numeric features)"
            )
        if layout.features != (names or layout.features):
            raise SourceError(f"{path}: its features are not those of {paths[0]}: read them one by one")
        names = layout.features
        with opened(path) as file:
            for _, judged in _lists(_batches(file, layout), layout, path):
                qids.append(_text(judged.key))
                docs += judged.items
                labels += judged.labels
                blocks += judged.blocks
                lists.append(len(labels))
    names = names or []
    dense = np.concatenate([np.zeros((0, len(names))), *blocks])
    known = ~np.isnan(dense)
    return Dataset(
        np.concatenate(([0], np.cumsum(known.sum(axis=1)))).astype(np.int64),
        np.nonzero(known)[1].astype(np.int32),
        dense[known],
        np.array(labels, np.float64),
        np.array(lists, np.int64),
        qids,
        docs,
        names,
    )


def parquet_interactions(path: Path) -> Iterator[Row]:
    """The rows of one file of users and items."""
    layout = recognise(path)
    if layout.user is None or layout.item is None:
        raise SourceError(f"{path}: holds {layout.kind}, not {INTERACTIONS} (a user and an item)")
    layout = layout._replace(kind=INTERACTIONS)
    with opened(path) as file:
        for _, row in _interactions(_batches(file, layout), layout, path):
            yield row


def _batches(file: Any, layout: Layout) -> Iterator[Any]:
    yield from file.iter_batches(batch_size=_BATCH_ROWS, columns=layout.columns)


def _events(batches: Iterator[Any], layout: Layout, _: Path) -> Iterator[tuple[int, bytes]]:
    row = 0
    for batch in batches:
        for value in batch.column(layout.event).to_pylist():
            row += 1
            if value is not None:
                yield row, value.encode() if isinstance(value, str) else value


def _interactions(batches: Iterator[Any], layout: Layout, path: Path) -> Iterator[tuple[int, Row]]:
    number = 0
    for batch in batches:
        user, item, rating, time = (
            _values(batch, name) for name in (layout.user, layout.item, layout.rating, layout.time)
        )
        for u, i, r, t in zip(user, item, rating, time, strict=True):
            number += 1
            if u is None or i is None:
                raise SourceError(f"{path}#{number}: this row names no user or no item. Drop such rows.")
            row = Row(
                number, _text(u), _text(i), None if r is None else float(r), None if t is None else to_ms(t)
            )
            yield number, row


def _lists(batches: Iterator[Any], layout: Layout, path: Path) -> Iterator[tuple[int, _List]]:
    done, first = 0, 0
    open_list: _List | None = None
    for batch in batches:
        keys, items, users, times = (
            _values(batch, name) for name in (layout.group, layout.item, layout.user, layout.time)
        )
        labels = _floats(batch.column(layout.label))
        wrong = [at for at, key in enumerate(keys) if key is None or not np.isfinite(labels[at])]
        if wrong:
            raise SourceError(
                f"{path}#{done + wrong[0] + 1}: this row lacks its group or its label. Drop such rows."
            )
        features = np.column_stack([_floats(batch.column(name)) for name in layout.features])
        borders = [0, *(at for at in range(1, len(keys)) if keys[at] != keys[at - 1]), len(keys)]
        for a, b in pairwise(borders):
            if open_list is None or open_list.key != keys[a]:
                if open_list is not None:
                    yield first, open_list
                first = done + a + 1
                time_ms = None if times[a] is None else to_ms(times[a])
                open_list = _List(keys[a], _text(users[a]) or None, time_ms)
            had = len(open_list.items)
            open_list.items += map(_text, items[a:b]) if layout.item else map(str, range(had, had + b - a))
            open_list.labels += labels[a:b].tolist()
            open_list.blocks.append(features[a:b])
        done += len(keys)
    if open_list is not None:
        yield first, open_list


def _pack(judged: _List, names: msgspec.Raw, offset: int) -> bytes:
    qid = _text(judged.key)
    event = PackedRanking(
        id=f"qid:{qid}#{offset}",
        timestamp=offset if judged.time_ms is None else judged.time_ms,
        items=judged.items,
        columns=names,
        values=np.concatenate(judged.blocks).astype("<f8").tobytes(),
        labels=judged.labels,
        user=judged.user,
        query=qid,
    )
    return msgspec.msgpack.encode(event)


def _values(batch: Any, name: str | None) -> list[Any]:
    return [None] * len(batch) if name is None else list(batch.column(name).to_pylist())


def _floats(column: Any) -> Floats:
    return np.asarray(column.cast("double").to_numpy(zero_copy_only=False), np.float64)  # null becomes NaN


def _text(value: Any) -> str:
    if value is None:
        return ""
    if isinstance(value, bytes):
        return value.decode(errors="replace")
    # pandas turns a column of integers into floats when one is missing: 17.0 is the id 17
    return str(int(value)) if isinstance(value, float) and value.is_integer() else str(value)


_READERS: dict[str, Callable[[Iterator[Any], Layout, Path], Iterator[tuple[int, Any]]]] = {
    EVENTS: _events,
    LISTS: _lists,
    INTERACTIONS: _interactions,
}
