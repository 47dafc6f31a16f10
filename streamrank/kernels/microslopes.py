"""What the columns of a micro-batch say: their spread, their slopes, and products with X'LX on them alone.

Sums run in the order of the rows, over the columns that the batch holds, numbered anew: what they cost does
not depend on how many columns there are.
"""

import math
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from .jit import jit
from .microbatch import Open, residuals
from .resting import Columns, Floats, Ints, Weights

NOISE = 1e-12  # a sum this small beside its terms is rounding error: the column says nothing of the batch
FINEST = 1e-60  # a column whose spread, squared, is below rests: its weights would have no end
YOUNG, FAR = 32.0, 100.0  # after so many values, squares so many times what is usual count as this many
BLOCK_BITS = 12  # 4096 columns a block: what a commit writes

# Places in `numbers`. Sums that forget, in units of UNIT: weighted rows, rows, values held; the sum over the
# columns of the values held, squared. UNIT grows as old lists lose weight. The clock of the weights at rest;
# batches closed; of the plain step k1, R2, a, and the power vector's scale and squared length.
ROWS, SEEN, HELD, HELD2, UNIT, CLOCK, BATCHES, KAPPA_1, LONGEST, STEP, SCALE, LENGTH2 = range(12)


class Scratch(NamedTuple):
    """Nothing here is state."""

    place: Columns  # -1 between steps
    dirty: npt.NDArray[np.uint8]  # 1 for each block that changed since the last commit


class Part(NamedTuple):
    """The open batch on its own columns: value k lies in column ``columns[local[k]]``."""

    open: Open
    indptr: Ints  # of the open batch: to reach through a tuple in an inner loop costs ten times the work
    values: Floats
    order: Ints  # rows by group
    borders: Ints
    heads: Ints  # a list of each group
    columns: Columns
    local: Columns


@jit
def parted(open: Open, order: Ints, borders: Ints, heads: Ints, scratch: Scratch) -> Part:
    """The open batch on its own columns, which are marked as changed."""
    n, indices, place = open.indptr[len(order)], open.indices, scratch.place
    columns, local = np.empty(n, dtype=np.int32), np.empty(n, dtype=np.int32)
    n_columns = 0
    for k in range(n):
        j = indices[k]
        if place[j] < 0:
            place[j] = n_columns
            columns[n_columns] = j
            n_columns += 1
        local[k] = place[j]
    for k in range(n_columns):
        place[columns[k]] = -1
        scratch.dirty[columns[k] >> BLOCK_BITS] = 1
    return Part(open, open.indptr, open.values, order, borders, heads, columns[:n_columns], local)


@jit
def spread(part: Part, weights: Weights, numbers: Floats) -> None:
    """Add the centred squares of each column, group by group, and how many values a column had there."""
    _, indptr, values, order, borders, _, columns, local = part
    total, square = np.zeros(len(columns)), np.zeros(len(columns))
    count, met = np.zeros(len(columns), dtype=np.int64), np.empty(len(columns), dtype=np.int32)
    unit = numbers[UNIT]
    for g in range(len(borders) - 1):
        n_met, m = 0, borders[g + 1] - borders[g]
        for at in range(borders[g], borders[g + 1]):
            for k in range(indptr[order[at]], indptr[order[at] + 1]):
                j = local[k]
                if count[j] == 0:
                    met[n_met] = j
                    n_met += 1
                count[j] += 1
                total[j] += values[k]
                square[j] += values[k] * values[k]
        for at in range(n_met):
            j = met[at]
            centred = square[j] - total[j] * total[j] / m
            if centred > NOISE * square[j]:
                i = columns[j]
                if weights.held[i] >= YOUNG * unit:
                    centred = min(centred, FAR * count[j] * weights.square[i] / weights.held[i])
                more = unit * count[j]
                numbers[HELD] += more
                numbers[HELD2] += more * (2.0 * weights.held[i] + more)
                weights.held[i] += more
                weights.square[i] += unit * centred
            total[j] = square[j] = 0.0
            count[j] = 0


@jit
def inverse_spread(weights: Weights, numbers: Floats, j: int, scale: bool) -> float:
    """q of a column; 0 while it has told no row from another."""
    if not weights.square[j] > FINEST * weights.held[j]:
        return 0.0
    if not scale:
        return 1.0
    return math.sqrt(weights.held[j] / weights.square[j] * (numbers[SEEN] / numbers[HELD]))


@jit
def slopes(part: Part, R: Floats) -> Floats:
    """X'R/m on the columns of the part; exactly 0 where nothing but rounding is left."""
    _, indptr, values, order, _, _, columns, local = part
    out, bulk = np.zeros(len(columns)), np.zeros(len(columns))
    for r in range(len(order)):
        if R[r] != 0.0:
            for k in range(indptr[r], indptr[r + 1]):
                term = R[r] * values[k]
                out[local[k]] += term
                bulk[local[k]] += abs(term)
    for j in range(len(out)):
        out[j] = out[j] / len(order) if abs(out[j]) > NOISE * bulk[j] else 0.0
    return out


@jit
def product(part: Part, q: Floats, v: Floats) -> Floats:
    """Q X'LX Q v/m on the columns of the part."""
    open, indptr, values, order, borders, heads, _, local = part
    s, R = np.zeros(len(order)), np.empty(len(order))
    for r in range(len(order)):
        for k in range(indptr[r], indptr[r + 1]):
            s[r] += values[k] * q[local[k]] * v[local[k]]
    residuals(open, order, borders, heads, s, False, R)
    return q * slopes(part, R)


@jit
def longest(part: Part, q: Floats) -> float:
    """The longest row, squared, each less the mean of its group."""
    _, indptr, values, order, borders, _, columns, local = part
    mean = np.zeros(len(columns))
    found = 0.0
    for g in range(len(borders) - 1):
        m, middle = borders[g + 1] - borders[g], 0.0
        for at in range(borders[g], borders[g + 1]):
            for k in range(indptr[order[at]], indptr[order[at] + 1]):
                j, x = local[k], values[k] * q[local[k]] / m
                middle += (mean[j] + x) ** 2 - mean[j] ** 2
                mean[j] += x
        for at in range(borders[g], borders[g + 1]):
            length2 = middle
            for k in range(indptr[order[at]], indptr[order[at] + 1]):
                x = values[k] * q[local[k]]
                length2 += (x - mean[local[k]]) ** 2 - mean[local[k]] ** 2
            found = max(found, length2)
        for at in range(borders[g], borders[g + 1]):
            for k in range(indptr[order[at]], indptr[order[at] + 1]):
                mean[local[k]] = 0.0
    return found
