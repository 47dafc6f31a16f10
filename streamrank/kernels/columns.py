"""What is kept of the columns of one list, side by side while it is learnt: taken out of `Weights`, put back.

Two tables with a row for each number that is kept and an entry for each column. Kernels take these, and
index them by numbers without a sign: an index that may be negative is looked at each time. A slice, a tuple
of arrays, or an array last used within a branch costs a count of references, up and down: for a list of ten
rows these came to a third of the time. So loops here run over none where there is nothing to do.
"""

import math
from typing import Any

from .jit import jit
from .weights import (
    BETA1,
    BETA2,
    EPSILON,
    MEMORY,
    NOISE,
    STEEPEST,
    UINT,
    Columns,
    Floats,
    Ints,
    decay,
    unbias,
)

# Rows of numbers, as in `Weights` and `Scratch`: what a step moves, what else it wants, what scales rest on
W, M1, M2, AVERAGE, INVERSE, PIVOT, TOTAL, SQUARE, SLOPE, SIZE = range(10)
MOVED, WANTED, TAKEN, KEPT = 4, 5, 8, 10  # where these end
# and, behind what was taken, slopes, the sums of the sizes of their terms, and room for four numbers more
G, BULK, A, B, C, D = range(TAKEN, 14)
FLOATS = 14
LAST, TOUCHES, SEEN, FILLED = range(4)  # rows of whole numbers
INTS = 4


@jit
def take(kept: Any, columns: Columns, beside: bool, begin: int, end: int, table: Any) -> None:
    """Copy rows from `begin` to `end` of some columns; `beside`: they are neighbours, in ascending order."""
    n, scattered = (len(columns), 0) if beside else (0, len(columns))
    at = UINT(columns[0]) if beside else UINT(0)
    for row in range(begin, end):
        for k in range(UINT(n)):
            table[row, k] = kept[row, at + k]
        for k in range(scattered):
            table[row, k] = kept[row, columns[k]]


@jit
def put(kept: Any, columns: Columns, beside: bool, begin: int, end: int, table: Any) -> None:
    """Put rows back that `take` took."""
    n, scattered = (len(columns), 0) if beside else (0, len(columns))
    at = UINT(columns[0]) if beside else UINT(0)
    for row in range(begin, end):
        for k in range(UINT(n)):
            kept[row, at + k] = table[row, k]
        for k in range(scattered):
            kept[row, columns[k]] = table[row, k]


@jit
def serve_columns(f: Floats, i: Ints, n: int, step: int, horizon: int) -> None:
    """The averaged weights on raw values, as they stand at `step`, into row A."""
    for k in range(UINT(n)):
        f[A, k] = f[AVERAGE, k] * f[INVERSE, k]
    for k in range(UINT(n)):
        if 0 < i[LAST, k] < step:
            rest = (f[AVERAGE, k] - f[W, k]) * decay(i[LAST, k], step, horizon)
            f[A, k] = (f[W, k] + rest) * f[INVERSE, k]


@jit
def last_columns(f: Floats, n: int) -> None:
    """The last weights on raw values, into row A."""
    for k in range(UINT(n)):
        f[A, k] = f[W, k] * f[INVERSE, k]


@jit
def step_columns(f: Floats, i: Ints, n: int, step: int, rate: float, adam: bool, horizon: int) -> bool:
    """Step number `step` by the slopes G on raw values; False, and no weight moved, if one is too steep.

    Adam, or momentum alone, and the running average. A column that tells no row from another has G = 0, but
    for rounding, and rests. Adam counts the steps of each column by itself, so one that appears late starts
    as one that was there from the first. G^2 is at most the sum of squares that M2 remembers, so one wild
    weight cannot silence a column for the thousands of lists that M2 takes to forget. There are several
    loops, as a compiler gives up on one that writes many rows.
    """
    n_sound = 0
    for k in range(UINT(n)):
        f[G, k] *= f[INVERSE, k]
        f[BULK, k] *= f[INVERSE, k]
        n_sound += abs(f[G, k]) < STEEPEST
    if n_sound < n:
        return False
    moves, by1, by2, over = A, B, C, D
    known, unbias1, unbias2 = 0, 1.0, 1.0
    for k in range(UINT(n)):
        f[moves, k] = 1.0 if abs(f[G, k]) > NOISE * f[BULK, k] else 0.0
        if f[moves, k] > 0.0:
            i[TOUCHES, k] += 1
            if i[TOUCHES, k] != known:  # most columns of a list have the same count
                known = i[TOUCHES, k]
                unbias1, unbias2 = 1.0 / unbias(BETA1, known), 1.0 / unbias(BETA2, known)
            remembered = f[M2, k] * MEMORY
            if 0.0 < remembered < f[G, k] * f[G, k]:
                f[G, k] = math.copysign(math.sqrt(remembered), f[G, k])
            if 0 < i[LAST, k] < step - 1:
                rest = (f[AVERAGE, k] - f[W, k]) * decay(i[LAST, k], step - 1, horizon)
                f[AVERAGE, k] = f[W, k] + rest
            i[LAST, k] = step
        f[by1, k], f[by2, k] = unbias1, unbias2
    for k in range(UINT(n)):
        f[M1, k] += f[moves, k] * (1.0 - BETA1) * (f[G, k] - f[M1, k])
    for k in range(UINT(n)):
        f[M2, k] += f[moves, k] * (1.0 - BETA2) * (f[G, k] * f[G, k] - f[M2, k])
    for k in range(UINT(n)):
        f[over, k] = (math.sqrt(f[M2, k] * f[by2, k]) + EPSILON) / f[by1, k] if adam else 1.0
    for k in range(UINT(n)):
        f[W, k] -= f[moves, k] * rate * (f[M1, k] / f[over, k])
    move = max(3.0 / (step + 2.0), 1.0 / horizon)
    for k in range(UINT(n)):
        f[AVERAGE, k] += f[moves, k] * move * (f[W, k] - f[AVERAGE, k])
    return True
