"""One way to compile: numba, cached on disk, strict IEEE floats so that a replay reaches the same bits."""

from collections.abc import Callable
from typing import ParamSpec, TypeVar, cast

import numba

P = ParamSpec("P")
R = TypeVar("R")


def jit(function: Callable[P, R]) -> Callable[P, R]:
    """Compile at the first call; the machine code is kept beside the source or in the user's cache folder."""
    return cast(Callable[P, R], numba.njit(cache=True, fastmath=False, error_model="numpy")(function))
