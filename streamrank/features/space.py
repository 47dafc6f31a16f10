"""Rankings to rows: what an item's fields, its metadata and its clicks say, as columns and values."""

import struct
from collections.abc import Mapping, Sequence
from typing import Any

import msgspec
import numpy as np

from ..config import FeatureSettings
from ..events.types import Field, ItemMetadata, PackedLists, PackedRanking, Ranking, Value
from .batch import Columns, Floats, Ints, Rows, sparse_rows
from .columns import Columns as ColumnMap
from .columns import Hashed, Vocabulary
from .encoder import Encoder
from .items import Items
from .offsets import Offsets
from .rate import ClickRates

CLICK_RATE = "click_rate"
NAMES = msgspec.msgpack.Decoder(list[str])
LAYOUTS = 1000  # of packed rankings remembered: a cache, emptied when full
DOUBLE = struct.Struct("<d")


class Encoded:
    """An item's metadata as a row, also as bytes that can be strung together.

    `n_columns` is how many there were when some value found none; None when all found theirs.
    """

    def __init__(self, row: dict[int, float], n_columns: int | None) -> None:
        self.row, self.n_columns = row, n_columns
        self.columns = np.array(list(row), dtype="<i4").tobytes()
        self.values = np.array(list(row.values()), dtype="<f8").tobytes()


class Template:
    """The fields of a plain item: names, columns (the click rate's last), and how to pack their values."""

    def __init__(self, names: list[str], columns: list[int]) -> None:
        self.names = names
        self.set = frozenset(columns)
        self.array = np.array(columns, dtype="<i4")
        self.columns = self.array.tobytes()
        self.pack = struct.Struct(f"<{len(names)}d").pack


class FeatureSpace:
    """Names and values of events to rows of numbers, the same in every process.

    A number (or bool) named `price` fills the column `price`; a string `red` of `colour` sets the column
    `colour=red` to 1, a list of strings one such column each; a list of numbers fills `name[0]`, `name[1]`;
    a field named in `text` sets `title:word` to 1/sqrt(words) for each word of it. A field of the ranked item
    takes the place of the metadata field of the same name. Numbers are counted from what is typical of them,
    so a missing one counts as average; a category or word that is missing counts nothing. What is new gets a
    column while there is room; after that each value of it is counted in `dropped`. A packed ranking brings
    all its numbers along: it gets neither metadata nor the click rate.

    Metadata and click rates are kept for `max_items` items each.
    """

    def __init__(self, settings: FeatureSettings) -> None:
        self.settings = settings
        self.columns: ColumnMap = (
            Vocabulary(settings.columns) if settings.mode == "vocabulary" else Hashed(settings.bits)
        )
        self.offsets = Offsets()
        self.encoder = Encoder(self.columns, self.offsets, settings.text)
        self.rates = ClickRates(settings.click_rate_half_life_ms, settings.max_items)
        self.items = Items(settings.max_items)
        if settings.click_rate_half_life_ms:
            self.columns.add(CLICK_RATE)  # first: the words of item metadata may fill a vocabulary at once
        self._known: dict[str, Encoded] = {}  # a cache of the items' metadata as columns
        self._template: Template | None = None  # a cache: the fields of the last plain item
        # a cache: undecoded column names -> columns, whether all have one, whether some have the same
        self._packed: dict[bytes, tuple[Columns, bool, bool]] = {}

    @property
    def dropped(self) -> int:
        """Values that found no column."""
        return self.encoder.dropped

    # -- what is known of items ----------------------------------------------------------------------------

    def describe(self, event: ItemMetadata, time_ms: int | None = None) -> None:
        """Take in an item's metadata, as of its own time or another; the later value of a field stays."""
        gone = self.items.describe(event, event.time_ms if time_ms is None else time_ms)
        self._known[event.item] = self._encoded(event.item, learn=True)
        for item in gone:
            del self._known[item]

    def clicked(self, items: Sequence[str], time_ms: int) -> None:
        """Count the first click on each of these items of a ranking."""
        if self.settings.click_rate_half_life_ms:
            for item in items:
                self.rates.clicked(item, time_ms)

    def _encoded(self, item: str, *, learn: bool) -> "Encoded":
        fields = {name: value for name, (_, value) in self.items[item].items()}
        row, lost = self.encoder.sorted_row(fields, learn), self.encoder.lost
        return Encoded(row, len(self.columns) if lost else None)

    def _metadata(self, item: str) -> "Encoded | None":
        """What is known of an item, with today's columns: a value that found none may have one by now."""
        known = self._known.get(item)
        if known is not None and known.n_columns not in (None, len(self.columns)):
            known = self._known[item] = self._encoded(item, learn=False)
        return known

    # -- rows ----------------------------------------------------------------------------------------------

    def rows(self, event: Ranking | PackedRanking, *, learn: bool = True, now: int | None = None) -> Rows:
        """The rows of a ranking, in the order shown, click rates as of `now` (default: its own time).

        With `learn=False` nothing is remembered of it.
        """
        if isinstance(event, PackedRanking):
            return self.offsets.centred(self._packed_rows(event, len(event.items), learn), learn=learn)
        rates = None
        if self.settings.click_rate_half_life_ms:
            time_ms = event.time_ms if now is None else now
            rates = self.rates.shown([item.id for item in event.items], time_ms, learn=learn)
        rows = self._plain_rows(event, rates, learn) or self._any_rows(event, rates, learn)
        return self.offsets.centred(rows, learn=learn)

    def block(self, event: PackedLists) -> tuple[Rows, Ints, Floats]:
        """The rows of many judged lists, how many each list has, and the label of each row."""
        sizes = np.frombuffer(event.sizes, dtype="<i4").astype(np.int64)
        n = int(sizes.sum())
        rows = self.offsets.centred(self._packed_rows(event, n, learn=True), learn=True)
        return rows, sizes, _numbers(event.labels, n)

    def example_rows(self, *xs: Mapping[str, Value], learn: bool = True) -> Rows:
        """The rows of examples given by their features."""
        rows = sparse_rows([self.encoder.sorted_row(x, learn) for x in xs])
        return self.offsets.centred(rows, learn=learn)

    def _plain_rows(self, event: Ranking, rates: list[float] | None, learn: bool) -> Rows | None:
        """The quick way: every item has the same fields, all numbers, none of them in its metadata too.

        Columns and values are strung together as bytes. None where it does not fit: `_any_rows` gives the
        same rows, a few times slower.
        """
        template = self._template
        if template is None or [field.name for field in event.items[0].fields] != template.names:
            template = self._new_template(event.items[0].fields, learn)
            if template is None:
                return None
            self._template = template
        names, pack, own = template.names, template.pack, template.columns
        columns: list[bytes] = []
        values: list[bytes] = []
        sizes: list[int] = []
        for k, item in enumerate(event.items):
            fields = item.fields
            if item.relevancy is not None or (k and [field.name for field in fields] != names):
                return None
            try:
                numbers = pack(*[field.value for field in fields])
            except (struct.error, OverflowError):  # a string or a list is among them
                return None
            known = self._metadata(item.id)
            if known is not None:
                if not template.set.isdisjoint(known.row) or not self.items[item.id].keys().isdisjoint(names):
                    return None
                columns += (known.columns, own)
                values += (known.values, numbers)
                sizes.append(len(known.row) + len(names))
            else:
                columns.append(own)
                values.append(numbers)
                sizes.append(len(names))
            if rates is not None:
                values.append(DOUBLE.pack(rates[k]))
        every = np.frombuffer(b"".join(values), dtype="<f8")
        if len(columns) == len(sizes):  # no metadata: all rows have the same columns
            return Rows(len(sizes), template.array, every)
        indptr = np.zeros(len(sizes) + 1, dtype=np.int64)
        np.cumsum(sizes, out=indptr[1:])
        if rates is not None:
            indptr += np.arange(len(indptr))
        return Rows(len(sizes), np.frombuffer(b"".join(columns), dtype="<i4"), every, indptr)

    def _new_template(self, fields: list[Field], learn: bool) -> "Template | None":
        names = [field.name for field in fields]
        if any(type(field.value) not in (float, int, bool) for field in fields):
            return None
        find = self.columns.add if learn else self.columns.find
        columns = [find(name) for name in names]
        if -1 in columns or len(set(columns)) != len(columns):
            return None
        if learn:
            for column in columns:
                self.offsets.mark(column)
        if self.settings.click_rate_half_life_ms:
            columns.append(self.columns.find(CLICK_RATE))
            if -1 in columns or len(set(columns)) != len(columns):
                return None
        return Template(names, columns)

    def _any_rows(self, event: Ranking, rates: list[float] | None, learn: bool) -> Rows:
        rows: list[dict[int, float]] = []
        for k, item in enumerate(event.items):
            fields: dict[str, Value] = {field.name: field.value for field in item.fields}
            if item.relevancy is not None:
                fields["relevancy"] = item.relevancy
            row = self.encoder.row(fields, learn)
            if item.id in self.items:
                row = self._over_metadata(item.id, fields, row)
            if rates is not None:
                column = self.columns.find(CLICK_RATE)
                if column >= 0:
                    row[column] = row.get(column, 0.0) + rates[k]
            rows.append(row)
        return sparse_rows(rows)

    def _over_metadata(self, item: str, own: Mapping[str, Value], row: dict[int, float]) -> dict[int, float]:
        """The item's own fields take the place of metadata of the same name."""
        fields = self.items[item]
        if own.keys().isdisjoint(fields):
            known = self._metadata(item)
            whole = dict(known.row) if known is not None else {}
        else:
            kept = {name: value for name, (_, value) in fields.items() if name not in own}
            whole = self.encoder.sorted_row(kept, learn=False)
        for column, value in row.items():
            whole[column] = whole[column] + value if column in whole else value
        return whole

    def _packed_rows(self, event: PackedRanking | PackedLists, n: int, learn: bool) -> Rows:
        key = bytes(event.columns)
        layout = self._packed.get(key)
        if layout is None:
            find = self.columns.add if learn else self.columns.find
            columns = np.array([find(name) for name in NAMES.decode(key)], dtype=np.int32)
            known = columns[columns >= 0]
            layout = columns, len(known) == len(columns), len(np.unique(known)) < len(known)
            if learn:
                for column in known.tolist():
                    self.offsets.mark(column)
                if len(self._packed) >= LAYOUTS:
                    self._packed.clear()
                self._packed[key] = layout
        columns, complete, shared = layout
        values = _numbers(event.values, n * len(columns))
        given = ~np.isnan(values)
        if shared:  # hashed names fell on one column: their values are added up, which takes the long way
            names = NAMES.decode(key)
            rows = [zip(names, row, strict=True) for row in values.reshape(n, -1).tolist()]
            return sparse_rows([self.encoder.row({k: v for k, v in row if v == v}, learn) for row in rows])
        if complete and given.all():
            return Rows(n, columns, values)
        given = given.reshape(n, len(columns))
        if learn:
            self.encoder.dropped += int(np.count_nonzero(given & (columns < 0)))
        kept = (given & (columns >= 0)).ravel()
        indptr = np.concatenate([[0], np.cumsum(kept.reshape(n, -1).sum(axis=1))]).astype(np.int64)
        return Rows(n, np.tile(columns, n)[kept], values[kept], indptr)

    # -- shards --------------------------------------------------------------------------------------------

    def merge(self, other: "FeatureSpace") -> Ints:
        """Take in the names and items of another shard; returns the column here of each of its columns.

        -1 for a name that finds no room. Of an item's fields the latest stays, its clicks add up.
        """
        if isinstance(self.columns, Hashed):
            columns = np.arange(len(other.columns), dtype=np.int64)
        else:
            names = [other.columns.name(column) for column in range(len(other.columns))]
            columns = np.array([self.columns.add(name) for name in names], dtype=np.int64)
        self.offsets.merge(other.offsets, columns)
        self.items.merge(other.items)
        self.rates.merge(other.rates)
        self.encoder.dropped += other.dropped
        self._known = {item: self._encoded(item, learn=False) for item in self.items}
        self._template, self._packed = None, {}
        return columns

    # -- state ---------------------------------------------------------------------------------------------

    def to_state(self) -> dict[str, Any]:
        """Names, items, click rates."""
        return {
            "dropped": self.dropped,
            **self.columns.to_state(),
            **_prefixed("offset/", self.offsets.to_state()),
            **_prefixed("item/", self.items.to_state()),
            **_prefixed("rate/", self.rates.to_state()),
        }

    def from_state(self, state: Mapping[str, Any]) -> None:
        """Take up what `to_state` gave."""
        self.encoder.dropped = int(state.get("dropped", 0))
        self.columns.from_state({key: state[key] for key in state if key.startswith("names#")})
        self.offsets.from_state(_without("offset/", state))
        self.items.from_state(_without("item/", state))
        self.rates.from_state(_without("rate/", state))
        self._known = {item: self._encoded(item, learn=False) for item in self.items}
        self._template, self._packed = None, {}

    def dirty(self) -> dict[str, Any]:
        """Entries that changed since the last call; None for what is gone."""
        return {
            "dropped": self.dropped,
            **self.columns.dirty(),
            **_prefixed("offset/", self.offsets.dirty()),
            **_prefixed("item/", self.items.dirty()),
            **_prefixed("rate/", self.rates.dirty()),
        }


def _numbers(data: bytes, n: int) -> Floats:
    """So many float64, or float32 if the bytes are as few."""
    return np.frombuffer(data, dtype="<f8" if len(data) == 8 * n else "<f4").astype(np.float64, copy=False)


def _prefixed(prefix: str, entries: Mapping[str, Any]) -> dict[str, Any]:
    return {prefix + key: value for key, value in entries.items()}


def _without(prefix: str, state: Mapping[str, Any]) -> dict[str, Any]:
    return {key.removeprefix(prefix): state[key] for key in state if key.startswith(prefix)}
