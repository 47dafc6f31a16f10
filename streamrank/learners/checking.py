"""Parameters checked at construction, so that a service fails at its start."""

import math
from typing import Any

from ..errors import ConfigError


def positive(name: str, value: Any) -> float:
    """The value, if it is a number above 0.

    >>> positive("temperature", 0.1)
    0.1
    """
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 < value < math.inf:
        raise ConfigError(f"{name} is {value!r}: a number above 0")
    return value


def whole(name: str, value: Any, least: int = 1) -> int:
    """The value, if it is a whole number and not too small.

    >>> whole("max_queries", 10)
    10
    """
    if isinstance(value, bool) or not isinstance(value, int) or value < least:
        raise ConfigError(f"{name} is {value!r}: a whole number, at least {least}")
    return value
