"""What types cannot say of an event: empty, too long, repeated, out of range, not finite."""

import math
import sys
from collections.abc import Callable
from operator import attrgetter
from typing import Any

import msgspec

from streamrank.errors import MalformedEvent
from streamrank.events.refusals import quoted, shown, under
from streamrank.events.types import (
    Event,
    Example,
    Field,
    Interaction,
    Item,
    ItemMetadata,
    PackedLists,
    PackedRanking,
    Preference,
    Ranking,
    RankRequest,
    UserMetadata,
    Value,
)

_LARGEST = int(sys.float_info.max)  # a larger integer of JSON has no float64


class Limits(msgspec.Struct, frozen=True):
    """How much one event may hold. A name is a field name, an id, a type or a query; a text is a value."""

    max_items: int
    max_name_chars: int
    max_text_chars: int


def check(event: Event, limits: Limits) -> None:
    """Raise `MalformedEvent` at the first thing that is wrong. Of a packed event: all but its arrays."""
    kind, longest = type(event), limits.max_name_chars
    for name in _names_of[kind](event):
        if name is not None and not 0 < len(name) <= longest:
            _names(event, limits)
            break
    _REST[kind](event, limits)


def _names(event: Event, limits: Limits) -> None:
    required, optional = _NAMES[type(event)]
    for member in (*required, *optional):
        name = getattr(event, member)
        if member in required or name:
            _name(name, f"$.{member}", limits)


def _ranking(event: Ranking, limits: Limits) -> None:
    _ids([item.id for item in event.items], limits, ".id")
    _fair(event.fair_pairs)
    for k, item in enumerate(event.items):
        try:
            _item(item, limits)
        except MalformedEvent as error:
            raise under(error, f"$.items[{k}]") from None
    _with_fields(event, limits)


def _packed(event: PackedRanking, limits: Limits) -> None:
    _ids(event.items, limits, "")
    _fair(event.fair_pairs)
    for k, team in enumerate(event.teams or ()):
        _name(team, f"$.teams[{k}]", limits)


def _lists(event: PackedLists, limits: Limits) -> None:
    for k, query in enumerate(event.queries or ()):
        if len(query) > limits.max_name_chars:
            _name(query, f"$.queries[{k}]", limits)


def _with_fields(event: Ranking | Interaction | ItemMetadata | UserMetadata, limits: Limits) -> None:
    if event.fields:
        _fields(event.fields, limits)


def _preference(event: Preference, limits: Limits) -> None:
    _mapping(event.better, "better", limits)
    _mapping(event.worse, "worse", limits)
    if not 0 < event.weight < math.inf:
        raise _range("weight", event.weight, "greater than 0 and finite")


def _example(event: Example, limits: Limits) -> None:
    _mapping(event.x, "x", limits)
    _finite(event.y, "y")


# Of each event the members that name something: those that must not be empty, and those that may be.
_NAMES: dict[type, tuple[tuple[str, ...], tuple[str, ...]]] = {
    Ranking: (("id",), ("user", "session", "query", "model")),
    RankRequest: (("id",), ("user", "session", "query", "model")),
    PackedRanking: (("id",), ("user", "session", "query", "model")),
    PackedLists: (("id",), ()),
    Interaction: (("id", "item", "type"), ("ranking", "user", "session")),
    ItemMetadata: (("id", "item"), ()),
    UserMetadata: (("id", "user"), ()),
    Preference: ((), ("id", "query")),
    Example: ((), ("id", "query", "item")),
}
_names_of = {kind: attrgetter(*required, *optional) for kind, (required, optional) in _NAMES.items()}
_REST: dict[type, Callable[[Any, Limits], None]] = {
    Ranking: _ranking,
    RankRequest: _ranking,
    PackedRanking: _packed,
    PackedLists: _lists,
    Interaction: _with_fields,
    ItemMetadata: _with_fields,
    UserMetadata: _with_fields,
    Preference: _preference,
    Example: _example,
}


def _ids(ids: list[str], limits: Limits, member: str) -> None:
    if not ids:
        raise MalformedEvent("empty", "the list has no items", where="$.items", fix="Send what was shown")
    if len(ids) > limits.max_items:
        reason = f"{len(ids)} items; at most {limits.max_items} are taken"
        raise MalformedEvent("too-long", reason, where="$.items", fix="Send the part that was shown")
    known, longest = set(ids), limits.max_name_chars
    # a short list of short ids is not longer as a whole than one may be: half the time of the max
    short = len("".join(ids)) <= longest or max(map(len, ids)) <= longest
    if short and len(known) == len(ids) and "" not in known:
        return
    first: dict[str, int] = {}
    for k, name in enumerate(ids):
        _name(name, f"$.items[{k}]{member}", limits)
        if first.setdefault(name, k) != k:
            reason = f"{shown(name)} is also items[{first[name]}]"
            fix = "Send each item once, or a click on it cannot be placed"
            raise MalformedEvent("duplicate-item", reason, where=f"$.items[{k}]{member}", fix=fix)


def _fair(fair_pairs: int | None) -> None:
    if fair_pairs is not None and fair_pairs not in (0, 1):
        raise _range("fair_pairs", fair_pairs, "0 or 1")


def _item(item: Item, limits: Limits) -> None:
    _fields(item.fields, limits)
    _finite(item.label, "label")
    _finite(item.relevancy, "relevancy")
    if item.propensity is not None and not 0 < item.propensity <= 1:
        raise _range("propensity", item.propensity, "in (0, 1]")
    if item.team:
        _name(item.team, "$.team", limits)


def _fields(fields: list[Field], limits: Limits) -> None:
    longest = limits.max_name_chars
    for k, field in enumerate(fields):
        if len(field.name) > longest:
            _name(field.name, f"$.fields[{k}].name", limits)
        value = field.value
        if type(value) is float and -math.inf < value < math.inf:
            continue  # by far the most common, so it is spared the call
        if fault := _fault(value, limits):
            raise under(fault, f"$.fields[{k}].value")


def _mapping(values: dict[str, Value], member: str, limits: Limits) -> None:
    for name, value in values.items():
        if len(name) > limits.max_name_chars:
            _name(name, f"$.{member}[{quoted(name)}]", limits)
        if fault := _fault(value, limits):
            raise under(fault, f"$.{member}[{quoted(name)}]")


def _name(name: str, where: str, limits: Limits) -> None:
    if not name:
        raise MalformedEvent("empty", "it is empty", where=where, fix="Send at least one character")
    if len(name) > limits.max_name_chars:
        reason = f"{shown(name)} has {len(name)} characters; at most {limits.max_name_chars} are taken"
        raise MalformedEvent("too-long", reason, where=where, fix="Shorten it, or send a hash of it")


def _fault(value: Value, limits: Limits) -> MalformedEvent | None:
    if isinstance(value, float):
        if not math.isfinite(value):
            fix = "Leave the field out when its value is unknown"
            return MalformedEvent("not-finite", f"{value} is not a finite number", fix=fix)
    elif isinstance(value, str):
        if len(value) > limits.max_text_chars:
            reason = f"{shown(value)} has {len(value)} characters; at most {limits.max_text_chars} are taken"
            return MalformedEvent("too-long", reason, fix="Send the beginning, or what is derived from it")
    elif isinstance(value, int):
        if not -_LARGEST <= value <= _LARGEST:
            return MalformedEvent("out-of-range", f"{shown(value)} does not fit into float64", fix="Scale it")
    else:
        for k, one in enumerate(value):
            if fault := _fault(one, limits):
                return under(fault, f"$[{k}]")
        if 0 < sum(isinstance(one, str) for one in value) < len(value):
            fix = "Send all numbers or all strings"
            return MalformedEvent("mixed-list", f"{shown(value)} mixes numbers and strings", fix=fix)
    return None


def _finite(number: float | None, member: str) -> None:
    if number is not None and not math.isfinite(number):
        fix = "Leave it out when it is unknown"
        raise MalformedEvent("not-finite", f"{number} is not a finite number", where=f"$.{member}", fix=fix)


def _range(member: str, value: float, allowed: str) -> MalformedEvent:
    kind = "out-of-range" if math.isfinite(value) else "not-finite"
    reason = f"{value} is not {allowed}"
    return MalformedEvent(kind, reason, where=f"$.{member}", fix=f"Send a number that is {allowed}")
