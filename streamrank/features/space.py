"""Rankings to rows: what an item's fields, its metadata and its clicks say, as columns and values."""

import re
import struct
from collections.abc import Mapping
from typing import Any

import msgspec
import numpy as np

from ..config import FeatureSettings
from ..events.types import Field, Interaction, Item, ItemMetadata, PackedRanking, Ranking, Value
from .batch import Columns, Rows, sparse_rows
from .columns import Columns as ColumnMap
from .columns import Hashed, Vocabulary
from .items import Fields, Items
from .rate import ClickRates

WORD = re.compile(r"\w+")
CLICK_RATE = "click_rate"
NAMES = msgspec.msgpack.Decoder(list[str])
LAYOUTS = 1000  # of packed rankings remembered: a cache, emptied when full


class FeatureSpace:
    """Names and values of events to rows of numbers, the same in every process.

    A number (or bool) named `price` fills the column `price`; a string `red` of `colour` sets the column
    `colour=red` to 1, a list of strings one such column each; a list of numbers fills `name[0]`, `name[1]`;
    a field named in `text` sets `title:word` to 1/sqrt(words) for each word of it. A field of the ranked item
    takes the place of the metadata field of the same name. What is missing counts nothing; what is new gets a
    column while there is room; after that each value of it is counted in `dropped`. A packed ranking brings
    all its numbers along: it gets neither metadata nor the click rate.

    Metadata and click rates are kept for `max_items` items each.
    """

    def __init__(self, settings: FeatureSettings) -> None:
        self.settings = settings
        self.columns: ColumnMap = (
            Vocabulary(settings.columns) if settings.mode == "vocabulary" else Hashed(settings.bits)
        )
        self.dropped = 0
        self.rates = ClickRates(settings.click_rate_half_life_ms, settings.max_items)
        self.items = Items(settings.max_items)
        if settings.click_rate_half_life_ms:
            self.columns.add(CLICK_RATE)  # first: the words of item metadata may fill a vocabulary at once
        self._text = frozenset(settings.text)
        self._encoded: dict[str, dict[int, float]] = {}  # a cache of the above as columns; not state
        # fields of the last plain item: a cache
        self._template: tuple[list[str], Columns, struct.Struct] | None = None
        # a cache: undecoded column names -> columns, whether all have one, whether some have the same
        self._packed: dict[bytes, tuple[Columns, bool, bool]] = {}

    # -- what is known of items ----------------------------------------------------------------------------

    def describe(self, event: ItemMetadata) -> None:
        """Take in an item's metadata; of two events for a field, the later by event time stays."""
        gone = self.items.describe(event)
        self._encoded[event.item] = self._metadata_row(self.items[event.item], learn=True)
        if gone is not None:
            del self._encoded[gone]

    def clicked(self, event: Interaction) -> None:
        """Count a click for the item's rate."""
        if self.settings.click_rate_half_life_ms:
            self.rates.clicked(event.item, event.time_ms)

    # -- rows ----------------------------------------------------------------------------------------------

    def rows(self, event: Ranking | PackedRanking, *, learn: bool = True) -> Rows:
        """The rows of a ranking, in the order shown. With `learn=False` nothing is remembered of it."""
        if isinstance(event, PackedRanking):
            return self._packed_rows(event, learn)
        rates = None
        if self.settings.click_rate_half_life_ms:
            rates = self.rates.shown([item.id for item in event.items], event.time_ms, learn=learn)
        if rates is None and not len(self.items):
            dense = self._dense_rows(event, learn)
            if dense is not None:
                return dense
        rows: list[dict[int, float]] = []
        find = self.columns.add if learn else self.columns.find
        rate_column = find(CLICK_RATE) if rates is not None else -1
        for k, item in enumerate(event.items):
            row = self._encode({field.name: field.value for field in item.fields}, learn)
            if item.id in self.items:
                row = self._over_metadata(item, row)
            if item.relevancy is not None:
                column = find("relevancy")
                if column >= 0:
                    row[column] = item.relevancy
                elif learn:
                    self.dropped += 1
            if rates is not None and rate_column >= 0:
                row[rate_column] = rates[k]
            rows.append(row)
        return sparse_rows(rows)

    def row(self, x: Mapping[str, Value], *, learn: bool = True) -> dict[int, float]:
        """The row of one example's features."""
        return dict(sorted(self._encode({name: x[name] for name in sorted(x)}, learn).items()))

    def _over_metadata(self, item: Item, own: dict[int, float]) -> dict[int, float]:
        """The item's own fields take the place of metadata of the same name."""
        fields = self.items[item.id]
        named = {field.name for field in item.fields}
        if item.relevancy is not None:
            named.add("relevancy")
        if named.isdisjoint(fields):
            row = dict(self._encoded[item.id])
        else:
            kept = {name: fields[name] for name in fields if name not in named}
            row = self._metadata_row(kept, learn=False)
        for column, value in own.items():
            row[column] = row[column] + value if column in row else value
        return row

    def _metadata_row(self, fields: Fields, *, learn: bool) -> dict[int, float]:
        # sorted twice: a restart reads the fields back in another order, yet must add the floats in this one
        return dict(sorted(self._encode({name: fields[name][1] for name in sorted(fields)}, learn).items()))

    def _dense_rows(self, event: Ranking, learn: bool) -> Rows | None:
        """The quick way: every item has the same fields, all numbers. None where that is not so."""
        template = self._template
        parts: list[bytes] = []
        for item in event.items:
            names = [field.name for field in item.fields]
            if template is None or names != template[0]:
                template = self._plain_template(item.fields, names) if learn else None
                if template is None or parts:
                    return None
                self._template = template
            if item.relevancy is not None:
                return None
            try:
                parts.append(template[2].pack(*[field.value for field in item.fields]))
            except (struct.error, OverflowError):  # a string or a list is among them
                return None
        if template is None:
            return None
        return Rows(len(parts), template[1], np.frombuffer(b"".join(parts), dtype="<f8"))

    def _plain_template(
        self, fields: list[Field], names: list[str]
    ) -> tuple[list[str], Columns, struct.Struct] | None:
        if len(set(names)) != len(names) or any(
            type(field.value) not in (float, int, bool) for field in fields
        ):
            return None
        columns = [self.columns.add(name) for name in names]
        if -1 in columns or len(set(columns)) != len(columns):
            return None
        return names, np.array(columns, dtype=np.int32), struct.Struct(f"<{len(names)}d")

    def _packed_rows(self, event: PackedRanking, learn: bool) -> Rows:
        key = bytes(event.columns)
        layout = self._packed.get(key)
        if layout is None:
            find = self.columns.add if learn else self.columns.find
            columns = np.array([find(name) for name in NAMES.decode(key)], dtype=np.int32)
            known = columns[columns >= 0]
            layout = columns, len(known) == len(columns), len(np.unique(known)) < len(known)
            if learn:
                if len(self._packed) >= LAYOUTS:
                    self._packed.clear()
                self._packed[key] = layout
        columns, complete, shared = layout
        n = len(event.items)
        wide = len(event.values) == 8 * n * len(columns)
        values = np.frombuffer(event.values, dtype="<f8" if wide else "<f4").astype(np.float64, copy=False)
        given = ~np.isnan(values)
        if shared:  # hashed names fell on one column: their values are added up, which takes the long way
            names = NAMES.decode(key)
            rows = [zip(names, row, strict=True) for row in values.reshape(n, -1).tolist()]
            return sparse_rows([self._encode({k: v for k, v in row if v == v}, learn) for row in rows])
        if complete and given.all():
            return Rows(n, columns, values)
        given = given.reshape(n, len(columns))
        if learn:
            self.dropped += int(np.count_nonzero(given & (columns < 0)))
        kept = (given & (columns >= 0)).ravel()
        indptr = np.concatenate([[0], np.cumsum(kept.reshape(n, -1).sum(axis=1))]).astype(np.int64)
        return Rows(n, np.tile(columns, n)[kept], values[kept], indptr)

    def _encode(self, fields: Mapping[str, Value], learn: bool = True) -> dict[int, float]:
        find = self.columns.add if learn else self.columns.find
        row: dict[int, float] = {}
        dropped = 0
        for name, value in fields.items():
            if type(value) is float:
                column = find(name)
                if column >= 0:
                    row[column] = (
                        row[column] + value if column in row else value
                    )  # hashed names may share one
                else:
                    dropped += 1
                continue
            for part, number in self._parts(name, value):
                column = find(part)
                if column >= 0:
                    row[column] = row[column] + number if column in row else number
                else:
                    dropped += 1
        if learn:
            self.dropped += dropped
        return row

    def _parts(self, name: str, value: Value) -> list[tuple[str, float]]:
        if isinstance(value, bool | int | float):
            return [(name, float(value))]
        if isinstance(value, str):
            if name in self._text:
                words = sorted(set(WORD.findall(value.lower())))
                return [(f"{name}:{word}", len(words) ** -0.5) for word in words]
            return [(f"{name}={value}", 1.0)]
        if value and isinstance(value[0], str):
            return [(f"{name}={part}", 1.0) for part in sorted({str(part) for part in value})]
        return [(f"{name}[{k}]", float(part)) for k, part in enumerate(value)]

    # -- state ---------------------------------------------------------------------------------------------

    def to_state(self) -> dict[str, Any]:
        """Names, items, click rates."""
        return {
            "dropped": self.dropped,
            **self.columns.to_state(),
            **_prefixed("item/", self.items.to_state()),
            **_prefixed("rate/", self.rates.to_state()),
        }

    def from_state(self, state: Mapping[str, Any]) -> None:
        """Take up what `to_state` gave."""
        self.dropped = int(state.get("dropped", 0))
        self.columns.from_state({key: state[key] for key in state if key.startswith("names#")})
        self.items.from_state(_without("item/", state))
        self.rates.from_state(_without("rate/", state))
        self._encoded = {
            item: self._metadata_row(self.items[item], learn=False) for item in self.items.to_state()
        }
        self._template, self._packed = None, {}

    def dirty(self) -> dict[str, Any]:
        """Entries that changed since the last call; None for what is gone."""
        return {
            "dropped": self.dropped,
            **self.columns.dirty(),
            **_prefixed("item/", self.items.dirty()),
            **_prefixed("rate/", self.rates.dirty()),
        }


def _prefixed(prefix: str, entries: Mapping[str, Any]) -> dict[str, Any]:
    return {prefix + key: value for key, value in entries.items()}


def _without(prefix: str, state: Mapping[str, Any]) -> dict[str, Any]:
    return {key.removeprefix(prefix): state[key] for key in state if key.startswith(prefix)}
