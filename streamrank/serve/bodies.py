"""A body of events taken apart, before any of it is decoded."""

import json
import re

import msgspec

SPACE = b" \t\r\n"
_ONE, _MANY = msgspec.json.Decoder(msgspec.Raw), msgspec.json.Decoder(list[msgspec.Raw])
_GAP = re.compile(r"[ \t\r\n]*")
_UNREADABLE = (msgspec.DecodeError, RecursionError)


def parts(body: bytes) -> list[bytes]:
    """The events of a body: an object, an array of them, or one a line; each stripped, none left out.

    Objects that follow each other without an end of line are told apart too: so they come from
    `curl -d @file`, which drops the ends of lines.

    >>> parts(b'[{"a":1},{}]') == parts(b'{"a":1}\\n{}') == parts(b'{"a":1}{}') == [b'{"a":1}', b"{}"]
    True
    """
    body = body.strip(SPACE)
    try:
        if body[:1] == b"[":
            return [bytes(part).strip(SPACE) for part in _MANY.decode(body)] or [b""]
        _ONE.decode(body)
        return [body]
    except _UNREADABLE:
        pass
    lines = [stripped for line in body.splitlines() if (stripped := line.strip(SPACE))]
    if len(lines) < 2:
        return _strung(body) if body[:1] == b"{" else [body]
    return [part for line in lines for part in (parts(line) if line[:1] == b"[" else [line])]


def _strung(line: bytes) -> list[bytes]:
    """Objects one after the other; from the first that is broken on, the rest is one part."""
    text, at, found = line.decode("utf-8", "surrogateescape"), 0, []
    decode = json.JSONDecoder().raw_decode
    while at < len(text):
        try:
            _, end = decode(text, at)
        except (ValueError, RecursionError):
            end = len(text)
        found.append(text[at:end].encode("utf-8", "surrogateescape"))
        gap = _GAP.match(text, end)
        at = gap.end() if gap else end
    return found
