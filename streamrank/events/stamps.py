"""Timestamps as senders write them -> an integer number of milliseconds since 1970."""

import math
from datetime import UTC, datetime, timedelta

from streamrank.errors import MalformedEvent
from streamrank.events.types import Stamp

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MS = timedelta(milliseconds=1)
# A clock in seconds reads 1e9 today and one in microseconds 1e15; milliseconds from March 1973 to the year
# 5138 lie between 1e11 and 1e14. Below 1e8 nothing is taken for a date: toy logs count from 0.
_SMALL, _SECONDS_END, _MICROSECONDS = 100_000_000, 100_000_000_000, 100_000_000_000_000
_FIX = 'Send milliseconds since 1970 (1599391467000 or "1599391467000") or ISO-8601 (2022-06-22T11:21:39Z)'


def to_ms(stamp: Stamp) -> int:
    """Milliseconds of a number, a string of digits, or an ISO-8601 date or time (without a zone: UTC).

    Raises `MalformedEvent` for what is no time, for negative ones, and for seconds, micro- or nanoseconds
    sent as milliseconds. An accepted time is accepted again when it is sent as the integer returned.

    >>> to_ms("2022-06-22T13:21:39.5+02:00"), to_ms("1655896899500"), to_ms(1655896899500.0)
    (1655896899500, 1655896899500, 1655896899500)
    """
    ms = stamp if type(stamp) is int else _integer(stamp)
    if _SECONDS_END <= ms < _MICROSECONDS or 0 <= ms < _SMALL:
        return ms
    if ms < 0:
        raise _bad(f"{_shown(stamp)} is before 1970", _FIX)
    if ms >= _MICROSECONDS:
        raise _bad(f"{_shown(stamp)} looks like micro- or nanoseconds", "Divide by 1000 or by 1000000")
    if type(stamp) is str and not stamp.isdigit():
        raise _bad(f"{_shown(stamp)} is before March 1973, where no event can be from", _FIX)
    raise _bad(f"{_shown(stamp)} looks like seconds", "Multiply by 1000")


def _integer(stamp: Stamp) -> int:
    if isinstance(stamp, float):
        if not math.isfinite(stamp):
            raise _bad(f"{stamp} is no time", _FIX)
        return int(stamp)
    if isinstance(stamp, str):
        text = stamp.strip()
        if (
            text.isascii() and text.isdigit() and len(text) <= 20
        ):  # 20: int() is slow on, or refuses, long ones
            return int(text)
        try:
            moment = datetime.fromisoformat(text)
        except ValueError:
            raise _bad(f"{_shown(stamp)} is no time", _FIX) from None
        return (moment.replace(tzinfo=moment.tzinfo or UTC) - _EPOCH) // _MS
    raise _bad(f"{stamp!r} is no time", _FIX)


def _shown(stamp: Stamp) -> str:
    text = repr(stamp)
    return text if len(text) <= 40 else text[:39] + "…"


def _bad(reason: str, fix: str) -> MalformedEvent:
    return MalformedEvent("bad-timestamp", reason, where="$.timestamp", fix=fix)
