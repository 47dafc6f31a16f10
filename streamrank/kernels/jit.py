"""One way to compile: numba, cached on disk, strict IEEE floats so that a replay reaches the same bits."""

import hashlib
from collections.abc import Callable
from typing import Any, ParamSpec, TypeVar, cast

import numba

P = ParamSpec("P")
R = TypeVar("R")


def jit(function: Callable[P, R]) -> Callable[P, R]:
    """Compile at the first call; the machine code is kept beside the source or in the user's cache folder."""
    return _compiled(function, nogil=False)


def pjit(function: Callable[P, R]) -> Callable[P, R]:
    """As `jit`, but the interpreter lock is released, so that several threads run it side by side.

    Not numba's own `parallel=True`: its default thread pool aborts the process when two Python threads enter
    it at once, or after a fork, and a service does both.
    """
    return _compiled(function, nogil=True)


def _compiled(function: Callable[P, R], *, nogil: bool) -> Callable[P, R]:
    compiled = numba.njit(cache=True, nogil=nogil, fastmath=False, error_model="numpy")(function)
    # What is kept holds the machine code of all that the function calls, but numba throws it away only when
    # the function's own file changed: a callee of another file, or a constant, would stay as it once was.
    kept = _kept(compiled)
    if kept is not None:
        digest = hashlib.sha256(repr(kept._source_stamp).encode())
        for name, value in sorted(function.__globals__.items()):
            if isinstance(value, int | float):
                digest.update(f"{name}={value!r};".encode())
            elif (other := _kept(value)) is not None:
                digest.update(repr(other._source_stamp).encode())
        kept._source_stamp = digest.digest()
    return cast(Callable[P, R], compiled)


def _kept(value: Any) -> Any:
    """The file in which numba keeps the machine code of a compiled function; None of anything else."""
    return getattr(getattr(value, "_cache", None), "_cache_file", None)
