"""Parameters checked at construction, so that a service fails at its start."""

import math
from typing import Any

from ..errors import ConfigError

MOST = 2**31 - 1  # what a count may be: it has its place in an array


def positive(name: str, value: Any) -> float:
    """The value, if it is a number above 0.

    >>> positive("temperature", 0.1)
    0.1
    """
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 < value < math.inf:
        raise ConfigError(f"{name} is {value!r}: a number above 0")
    return value


def whole(name: str, value: Any, least: int = 1, most: int = MOST) -> int:
    """The value, if it is a whole number, not too small and not too large.

    >>> whole("max_queries", 10)
    10
    """
    if isinstance(value, bool) or not isinstance(value, int) or value < least:
        raise ConfigError(f"{name} is {value!r}: a whole number, at least {least}")
    if value > most:
        raise ConfigError(f"{name} is {value!r}: at most {most}")
    return value
