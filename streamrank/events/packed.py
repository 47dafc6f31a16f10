"""The packed ranking: its column names decoded once, its arrays checked in place, and how to make one."""

import math
import sys
from collections.abc import Sequence
from typing import TypeVar

import msgspec
import numpy as np

from streamrank.errors import MalformedEvent
from streamrank.events.refusals import shown
from streamrank.events.types import Item, PackedLists, PackedRanking, Ranking

_decode_names = msgspec.msgpack.Decoder(list[str]).decode
T = TypeVar("T")
_F8, _F4 = np.dtype("<f8"), np.dtype("<f4")
_CACHE_BYTES = 1 << 20  # of undecoded names; a sender has a handful of layouts of a kilobyte or so


class ColumnNames:
    """From the undecoded `columns` of packed rankings to their names, remembered by their bytes.

    At most 1 MiB of `columns` is remembered; when that is full all is forgotten and met anew.
    """

    def __init__(self, max_name_chars: int) -> None:
        self.max_name_chars = max_name_chars
        self._known: dict[bytes, tuple[str, ...]] = {}
        self._bytes = 0
        self._last: tuple[bytes, tuple[str, ...]] = (b"\x90", ())

    def __call__(self, raw: msgspec.Raw) -> tuple[str, ...]:
        """The names; raises `MalformedEvent` if they are not distinct, non-empty strings in an array."""
        key = bytes(raw)
        if key == self._last[0]:  # to compare is cheaper than to hash
            return self._last[1]
        names = self._known.get(key)
        if names is None:
            names = self._read(key)
            self._bytes += len(key)
            if self._bytes > _CACHE_BYTES:
                self._known.clear()
                self._bytes = len(key)
            self._known[key] = names
        self._last = key, names
        return names

    def _read(self, raw: bytes) -> tuple[str, ...]:
        try:
            names = tuple(_decode_names(raw))
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
            reason = f"not an array of strings: {error}"
            fix = "Send the feature names as a msgpack array of strings"
            raise MalformedEvent("wrong-type", reason, where="$.columns", fix=fix) from None
        first: dict[str, int] = {}
        for k, name in enumerate(names):
            where = f"$.columns[{k}]"
            if not name:
                raise MalformedEvent("empty", "the name is empty", where=where, fix="Name every column")
            if len(name) > self.max_name_chars:
                reason = f"{shown(name)} has {len(name)} characters; at most {self.max_name_chars} are taken"
                raise MalformedEvent("too-long", reason, where=where, fix="Shorten it, or send a hash of it")
            if first.setdefault(name, k) != k:
                reason = f"{shown(name)} is also columns[{first[name]}]"
                raise MalformedEvent("duplicate-column", reason, where=where, fix="Name each column once")
        return names


def check_arrays(event: PackedRanking, names: tuple[str, ...]) -> None:
    """Raise `MalformedEvent` unless the arrays fit the items and hold no infinity."""
    n_items, size = len(event.items), len(event.values)
    cells = n_items * len(names)
    if size != 8 * cells and size != 4 * cells:
        reason = f"{size} bytes for {n_items} items x {len(names)} columns"
        fix = f"Send {8 * cells} bytes (float64) or {4 * cells} (float32), little-endian, one row an item"
        raise MalformedEvent("bad-shape", reason, where="$.values", fix=fix)
    if cells:
        values = np.frombuffer(event.values, _F8 if size == 8 * cells else _F4)
        infinite = np.isinf(values)
        if np.count_nonzero(infinite):  # half the time of infinite.any()
            row, column = divmod(int(infinite.argmax()), len(names))
            reason = f"items[{row}] has an infinite {shown(names[column])}"
            raise MalformedEvent("not-finite", reason, where="$.values", fix="Send NaN for a missing value")
    if event.labels is not None:
        _one_each(event.labels, n_items, "labels", -sys.float_info.max, sys.float_info.max, "finite")
    if event.propensities is not None:
        _one_each(event.propensities, n_items, "propensities", math.ulp(0.0), 1.0, "in (0, 1]")
    if event.teams is not None:
        _as_many(event.teams, n_items, "teams")


def check_lists(event: PackedLists, names: tuple[str, ...], max_items: int) -> None:
    """Raise `MalformedEvent` unless sizes, labels and values fit each other and are sound."""
    if len(event.sizes) % 4 or not event.sizes:
        reason = f"{len(event.sizes)} bytes of sizes"
        raise MalformedEvent(
            "bad-shape", reason, where="$.sizes", fix="Send one int32 a list, one list or more"
        )
    sizes = np.frombuffer(event.sizes, "<i4")
    if sizes.min() < 1 or sizes.max() > max_items:
        reason = f"a list of {int(sizes.min() if sizes.min() < 1 else sizes.max())} rows"
        fix = f"Send lists of 1 to {max_items} rows"
        raise MalformedEvent("out-of-range", reason, where="$.sizes", fix=fix)
    rows = int(sizes.sum(dtype=np.int64))
    cells = rows * len(names)
    width = {8 * rows: 8, 4 * rows: 4}.get(len(event.labels), 0)
    if not width or len(event.values) != width * cells:
        reason = f"{len(event.labels)} bytes of labels and {len(event.values)} of values for {rows} rows"
        fix = f"Send {8 * rows} and {8 * cells} bytes (float64), or {4 * rows} and {4 * cells} (float32)"
        raise MalformedEvent("bad-shape", reason, where="$.labels", fix=fix)
    wide = _F8 if width == 8 else _F4
    if not np.isfinite(np.frombuffer(event.labels, wide)).all():
        raise MalformedEvent("not-finite", "a label is not finite", where="$.labels", fix="Send numbers")
    if np.isinf(np.frombuffer(event.values, wide)).any():
        fix = "Send NaN for a missing value"
        raise MalformedEvent("not-finite", "a value is infinite", where="$.values", fix=fix)
    if event.queries is not None and len(event.queries) != len(sizes):
        reason = f"{len(event.queries)} queries for {len(sizes)} lists"
        raise MalformedEvent("bad-shape", reason, where="$.queries", fix="Send one for each list, or none")


def _as_many(values: Sequence[object], n_items: int, member: str) -> None:
    if len(values) != n_items:
        reason = f"{len(values)} {member} for {n_items} items"
        raise MalformedEvent("bad-shape", reason, where=f"$.{member}", fix="Send one for each item")


def _one_each(numbers: list[float], n_items: int, member: str, low: float, high: float, allowed: str) -> None:
    _as_many(numbers, n_items, member)
    for k, number in enumerate(numbers):
        if not low <= number <= high:
            kind = "out-of-range" if math.isfinite(number) else "not-finite"
            fix = f"Send numbers that are {allowed}"
            raise MalformedEvent(kind, f"{number} is not {allowed}", where=f"$.{member}[{k}]", fix=fix)


def pack(ranking: Ranking) -> PackedRanking:
    """The same ranking in the packed form, with float64 values.

    Columns are the field names of all items, sorted, and `relevancy` if an item has one; a field an item
    lacks is NaN. Raises `MalformedEvent` for what the packed form cannot hold: values that are no numbers,
    fields of the ranking itself, labels, propensities or teams of some items but not of all.

    >>> from streamrank.events.types import Field
    >>> item = Item(id="a", fields=[Field("price", 2.5), Field("new", True)])
    >>> packed = pack(Ranking(id="r", timestamp=1, items=[item]))
    >>> bytes(packed.columns), np.frombuffer(packed.values)
    (b'\\x92\\xa3new\\xa5price', array([1. , 2.5]))
    """
    if ranking.fields:
        reason = f"the ranking has fields of its own ({shown(ranking.fields[0].name)})"
        raise MalformedEvent("bad-shape", reason, where="$.fields", fix="Send it as JSON, or on its items")
    rows = [_row(item, f"$.items[{k}]") for k, item in enumerate(ranking.items)]
    names = sorted(set().union(*rows))
    values = np.array([[row.get(name, math.nan) for name in names] for row in rows], dtype=_F8)
    return PackedRanking(
        id=ranking.id,
        timestamp=ranking.timestamp,
        items=[item.id for item in ranking.items],
        columns=msgspec.Raw(msgspec.msgpack.encode(names)),
        values=values.tobytes(),
        labels=_all_or_none([item.label for item in ranking.items], "label"),
        propensities=_all_or_none([item.propensity for item in ranking.items], "propensity"),
        teams=_all_or_none([item.team for item in ranking.items], "team"),
        user=ranking.user,
        session=ranking.session,
        query=ranking.query,
        model=ranking.model,
        shuffled=ranking.shuffled,
        fair_pairs=ranking.fair_pairs,
    )


def _row(item: Item, where: str) -> dict[str, float]:
    row: dict[str, float] = {}
    for k, field in enumerate(item.fields):
        if isinstance(field.value, str | list):
            reason = f"{shown(field.name)} is {shown(field.value)}; the packed form takes numbers"
            fix = "Send the ranking as JSON or msgpack with named fields"
            raise MalformedEvent("wrong-type", reason, where=f"{where}.fields[{k}].value", fix=fix)
        if abs(field.value) > sys.float_info.max:
            kind = "not-finite" if isinstance(field.value, float) else "out-of-range"
            reason = f"{shown(field.name)} is {shown(field.value)}, no finite float64"
            fix = "Leave the field out when its value is unknown"
            raise MalformedEvent(kind, reason, where=f"{where}.fields[{k}].value", fix=fix)
        row[field.name] = float(field.value)
    if item.relevancy is not None:
        row["relevancy"] = item.relevancy
    return row


def _all_or_none(values: list[T | None], member: str) -> list[T] | None:
    known = [value for value in values if value is not None]
    if len(known) == len(values) or not known:
        return known or None
    reason = f"{len(known)} of {len(values)} items have a {member}"
    where = f"$.items[{values.index(None)}].{member}"
    raise MalformedEvent("missing-field", reason, where=where, fix="Give it to all items or to none")
