"""One way to compile: numba, cached on disk, strict IEEE floats so that a replay reaches the same bits."""

from collections.abc import Callable
from typing import ParamSpec, TypeVar, cast

import numba

P = ParamSpec("P")
R = TypeVar("R")


def jit(function: Callable[P, R]) -> Callable[P, R]:
    """Compile at the first call; the machine code is kept beside the source or in the user's cache folder."""
    return cast(Callable[P, R], numba.njit(cache=True, fastmath=False, error_model="numpy")(function))


def pjit(function: Callable[P, R]) -> Callable[P, R]:
    """As `jit`, but the interpreter lock is released, so that several threads run it side by side.

    Not numba's own `parallel=True`: its default thread pool aborts the process when two Python threads enter
    it at once, or after a fork, and a service does both.
    """
    return cast(
        Callable[P, R], numba.njit(cache=True, nogil=True, fastmath=False, error_model="numpy")(function)
    )
