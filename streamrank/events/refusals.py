"""What is wrong with bytes that are no event: from the decoder's words to kind, place, reason and fix."""

import json
import re
import reprlib
from typing import Any

import msgspec

from streamrank.errors import MalformedEvent
from streamrank.events.types import Value

KINDS = ("ranking", "interaction", "item", "user", "preference", "example", "packed and lists (msgpack only)")

_PLACE = re.compile(r" - at (?:`key` in )?`(?P<place>\$[^`]*)`\Z")
_STEP = re.compile(r"\.(\w+)|\[(\d+|\.\.\.)\]")
_NOT_NUMBER = re.compile(rb"[:,\[]\s*-?(?:NaN|nan|Inf|inf)")
_FIXES = {
    "wrong-type": "Send the member with the type named, or leave it out if it is optional",
    "bad-shape": "Send one object, or one array of objects",
    "bad-timestamp": "Send milliseconds since 1970 or an ISO-8601 string",
    "out-of-range": "Send a number that fits into float64",
}

_short = reprlib.Repr()
_short.maxstring = _short.maxother = _short.maxlong = 60
_short.maxlist = _short.maxdict = 4
_short.maxlevel = 3  # so that a deeply nested value cannot overflow the stack while it is being shown


def shown(value: object) -> str:
    """A value for a message, shortened.

    >>> shown([1, 2, 3, 4, 5])
    '[1, 2, 3, 4, ...]'
    """
    return _short.repr(value)


def quoted(name: str) -> str:
    """The name of a member as JSON writes it in a path, shortened."""
    return json.dumps(name if len(name) <= 40 else name[:39] + "…", ensure_ascii=False)


def under(error: MalformedEvent, place: str) -> MalformedEvent:
    """The same refusal, its `$` standing at `place` of something larger."""
    return MalformedEvent(error.kind, error.reason, where=place + error.where[1:], fix=error.fix)


def refusal(value: bytes, error: Exception, *, is_json: bool) -> MalformedEvent:
    """What msgspec raised on `value`, as a MalformedEvent."""
    if isinstance(error, msgspec.ValidationError):
        return _invalid(value, str(error), is_json)
    if isinstance(error, RecursionError):
        return MalformedEvent("too-deep", "arrays or objects are nested too deeply", fix="Send flat events")
    if isinstance(error, UnicodeDecodeError):
        byte = f"byte 0x{error.object[error.start]:02x} in {shown(bytes(error.object))}"
        return MalformedEvent("not-utf8", f"a string is not UTF-8: {byte}", fix="Encode all text as UTF-8")
    if not is_json:
        fix = "Send msgpack (a map or an array of maps) or JSON (an object or an array of objects)"
        return MalformedEvent("not-msgpack", f"{_lower(str(error))}; it begins {shown(value[:12])}", fix=fix)
    return _broken_json(value, str(error))


def _broken_json(value: bytes, message: str) -> MalformedEvent:
    at = re.search(r"\(byte (\d+)\)", message)
    near = value[max(0, int(at[1]) - 10) :][:30] if at else value[-30:]
    if _NOT_NUMBER.search(near):
        reason = f"JSON has no NaN and no Infinity, near {shown(near)}"
        return MalformedEvent("not-finite", reason, fix="Leave the member out, or send a number")
    reason = f"{_lower(message)}, near {shown(near)}"
    return MalformedEvent("not-json", reason, fix="Send one whole JSON object or array in a record")


def _invalid(value: bytes, message: str, is_json: bool) -> MalformedEvent:
    found = _PLACE.search(message)
    where = found["place"] if found else "$"
    what = message[: found.start()] if found else message
    if what.startswith("Object missing required field"):
        name = what.split("`")[1]
        fix = f"Known events: {', '.join(KINDS)}" if name == "event" else f"Add {name!r}"
        return MalformedEvent("missing-field", f"{name!r} is missing", where=f"{where}.{name}", fix=fix)
    where, offender = _offender(value, where, is_json)
    if where == "$.event" and what.startswith("Invalid value"):
        fix = f"Known events: {', '.join(KINDS)}"
        return MalformedEvent("unknown-event", f"no event is called {offender}", where=where, fix=fix)
    if where == "$.timestamp":
        kind = "bad-timestamp"
    elif what.endswith("out of range"):
        kind = "out-of-range"
    else:
        kind = "bad-shape" if where == "$" else "wrong-type"
    reason = f"{_lower(what)}: {offender}" if offender else _lower(what)
    return MalformedEvent(kind, reason, where=where, fix=_FIXES[kind])


def _offender(value: bytes, where: str, is_json: bool) -> tuple[str, str]:
    """The place, with the member of a mapping named (msgspec says `[...]`), and what stands there."""
    place = "$"
    try:
        here: Any = msgspec.json.decode(value) if is_json else msgspec.msgpack.decode(value)
        for name, index in _STEP.findall(where):
            if index == "...":
                key: Any = next((key for key in here if not _is_value(here[key])), None)
                place += f"[{quoted(key)}]"
            else:
                key = name or int(index)
                place += f".{name}" if name else f"[{index}]"
            here = here[key]
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError, LookupError, TypeError):
        # the record is broken further on as well, or names the member twice: the decoder's words must do
        return where.replace("[...]", ""), ""
    return place, shown(here)


def _is_value(value: object) -> bool:
    try:
        msgspec.convert(value, Value)
    except msgspec.ValidationError:
        return False
    return True


def _lower(message: str) -> str:
    return message[:1].lower() + message[1:] if not message.startswith(("JSON", "MessagePack")) else message
