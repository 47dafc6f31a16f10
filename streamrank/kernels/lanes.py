"""Sums of products by eight partial sums side by side, as processors add: one order, on every machine.

The product at place k of a row goes to lane k mod 8; in the end lane 0 takes lane 4, then 2, then 1, and the
others alike. A compiler may not choose that order by itself, since it changes the last bits of a sum.
"""

from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt
from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.core.errors import TypingError
from numba.extending import intrinsic

from .jit import jit

Floats = npt.NDArray[np.float64]

LANES = 8
INT, EIGHT = ir.IntType(32), ir.VectorType(ir.DoubleType(), LANES)


@jit
def dot(x: Floats, at: int, tables: Floats, row: int, n: int) -> float:
    """The sum of w_k x_(at + k), k < n, of w in a row of a table.

    >>> dot(np.arange(20.0), 3, np.ones((2, 11)), 1, 11)
    88.0
    """
    return _dot(x, at, tables, row, n)  # type: ignore[call-arg]


@jit
def joined(lanes: Floats) -> float:
    """The sum of eight lanes, in the order in which `dot` adds them.

    >>> joined(np.arange(8.0))
    28.0
    """
    even = (lanes[0] + lanes[4]) + (lanes[2] + lanes[6])
    odd = (lanes[1] + lanes[5]) + (lanes[3] + lanes[7])
    return float(even + odd)


@intrinsic
def _dot(_context: Any, x: Any, _at: Any, table: Any, _row: Any, _n: Any) -> Any:
    if any(array.dtype != types.float64 or array.layout != "C" for array in (x, table)):
        raise TypingError(f"numbers are read as float64, one behind the other: not so of {x}, {table}")

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        x, at, table, row, n = arguments
        x, table = (
            context.make_array(kind)(context, builder, array)
            for kind, array in ((signature.args[0], x), (signature.args[2], table))
        )
        width = cgutils.unpack_tuple(builder, table.shape)[1]
        x, w = builder.gep(x.data, [at]), builder.gep(table.data, [builder.mul(row, width)])
        total = cgutils.alloca_once_value(builder, ir.Constant(EIGHT, None))

        def add(k: Any, load: Callable[[Any], Any]) -> None:
            some = (builder.bitcast(builder.gep(numbers, [k]), EIGHT.as_pointer()) for numbers in (x, w))
            product = builder.fmul(*(load(place) for place in some))
            builder.store(builder.fadd(builder.load(total), product), total)

        step, end = ir.Constant(n.type, LANES), builder.and_(n, ir.Constant(n.type, -LANES))
        with cgutils.for_range_slice(builder, ir.Constant(n.type, 0), end, step, n.type) as (k, _):
            add(k, lambda place: builder.load(place, align=8))
        left = builder.sub(n, end)
        with builder.if_then(builder.icmp_signed(">", left, ir.Constant(n.type, 0))):
            add(end, lambda place: _first(builder, place, left))
        sums = builder.load(total)
        for half in (4, 2, 1):
            low, high = (
                builder.shuffle_vector(
                    sums, sums, ir.Constant(ir.VectorType(INT, half), list(range(k, k + half)))
                )
                for k in (0, half)
            )
            sums = builder.fadd(low, high)
        return builder.extract_element(sums, ir.Constant(INT, 0))

    return types.float64(x, types.int64, table, types.int64, types.int64), generate


def _first(builder: Any, place: Any, n: Any) -> Any:
    """The first n of eight numbers, zeros after them; what lies behind is not read."""
    wide = ir.VectorType(n.type, LANES)
    every = ir.Constant(ir.VectorType(INT, LANES), [0] * LANES)
    n_wide = builder.insert_element(ir.Constant(wide, ir.Undefined), n, ir.Constant(INT, 0))
    mask = builder.icmp_signed(
        "<", ir.Constant(wide, list(range(LANES))), builder.shuffle_vector(n_wide, n_wide, every)
    )
    kinds = [EIGHT.as_pointer(), INT, mask.type, EIGHT]
    masked = ir.FunctionType(EIGHT, kinds)
    load = cgutils.get_or_insert_function(builder.module, masked, "llvm.masked.load.v8f64.p0")
    return builder.call(load, [place, ir.Constant(INT, 8), mask, ir.Constant(EIGHT, None)])
