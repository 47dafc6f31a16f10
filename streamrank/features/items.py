"""What is known of each item: the fields of its metadata events, the latest of each by event time."""

from collections import OrderedDict
from collections.abc import Iterator, Mapping
from typing import Any

from ..events.types import ItemMetadata, Value

MAX_FIELDS = 1000

Fields = dict[str, tuple[int, Value]]  # name -> (time, value)


class Items:
    """Fields by name of the last `limit` items described; the one least recently described goes first.

    Of an item at most 1000 fields are kept; the one described longest ago, by event time, goes first.

    >>> from streamrank.events.types import Field
    >>> items = Items(limit=10)
    >>> for time_ms, price in ((50, 9.5), (40, 8.0)):
    ...     fields = [Field("price", price)]
    ...     event = ItemMetadata(id="m", timestamp=time_ms, item="a", fields=fields)
    ...     gone = items.describe(event, time_ms)
    >>> items["a"]
    {'price': (50, 9.5)}
    """

    def __init__(self, limit: int) -> None:
        self.limit = limit
        # id -> (tick, fields); least recently described first
        self._items: OrderedDict[str, tuple[int, Fields]] = OrderedDict()
        self._tick = 0
        self._touched: set[str] = set()

    def __len__(self) -> int:
        return len(self._items)

    def __iter__(self) -> Iterator[str]:
        return iter(self._items)

    def __contains__(self, item: str) -> bool:
        return item in self._items

    def __getitem__(self, item: str) -> Fields:
        return self._items[item][1]

    def describe(self, event: ItemMetadata, time_ms: int) -> list[str]:
        """Take in an item's metadata as of a time; returns the items that had to go to make room."""
        _, fields = self._items.pop(event.item, (0, {}))
        for field in event.fields:
            if field.name not in fields or fields[field.name][0] <= time_ms:
                fields[field.name] = (time_ms, _storable(field.value))
        while len(fields) > MAX_FIELDS:
            del fields[min(fields, key=lambda name: (fields[name][0], name))]
        return self._put(event.item, fields)

    def _put(self, item: str, fields: Fields) -> list[str]:
        self._tick += 1
        self._items[item] = (self._tick, fields)
        self._touched.add(item)
        gone = []
        while len(self._items) > self.limit:  # many, where the limit was lowered
            gone.append(self._items.popitem(last=False)[0])
        self._touched.update(gone)
        return gone

    def merge(self, other: "Items") -> None:
        """Take in the items of another shard: of a field the latest stays."""
        for item in other:
            _, mine = self._items.pop(item, (0, {}))
            for name, timed in other[item].items():
                if name not in mine or mine[name][0] <= timed[0]:
                    mine[name] = timed
            self._put(item, mine)

    def to_state(self) -> dict[str, list[Any]]:
        """One entry an item."""
        return {item: _entry(*entry) for item, entry in self._items.items()}

    def from_state(self, state: Mapping[str, Any]) -> None:
        """Take up what `to_state` gave."""
        entries = sorted((int(tick), item, fields) for item, (tick, fields) in state.items())
        self._items = OrderedDict(
            (item, (tick, {name: (int(time), value) for name, (time, value) in fields.items()}))
            for tick, item, fields in entries
        )
        self._tick = entries[-1][0] if entries else 0
        self._touched.clear()

    def dirty(self) -> dict[str, list[Any] | None]:
        """Entries that changed since the last call; None for what is gone."""
        changed = {
            item: _entry(*self._items[item]) if item in self._items else None
            for item in sorted(self._touched)
        }
        self._touched.clear()
        return changed


def _storable(value: Value) -> Value:
    """Whole numbers of any length are floats from here on: a store takes 64 bits."""
    if isinstance(value, list):
        return [float(part) if type(part) is int else part for part in value]
    return float(value) if type(value) is int else value


def _entry(tick: int, fields: Fields) -> list[Any]:
    return [tick, {name: list(timed) for name, timed in fields.items()}]
