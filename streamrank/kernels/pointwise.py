"""Lists as scored examples: a target and a weight for each row."""

import numpy as np
import numpy.typing as npt

from .jit import jit
from .losses import preference

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]
Columns = npt.NDArray[np.int32]

STEEPEST = 1e20  # a list with a value or weight beyond is refused: its square would drown all others


@jit
def examples(
    indptr: Ints,
    values: Floats,
    lists: Ints,
    y: Floats,
    c: Floats,
    mode: npt.NDArray[np.int8],
    pairs: Ints,
    better: Columns,
    worse: Columns,
    pair_c: Floats,
) -> tuple[Floats, Floats, npt.NDArray[np.bool_]]:
    """The target and the weight of each row, and which lists are refused.

    A row's target is its label (of a list of scores y c). Where the rows of a list have one weight, that is
    the weight of each. Else a list says which row beats which: a row's weight is that of the pairs it takes
    part in, over the other rows of the list. Of pairs that are listed, the better row has 1 and the worse one
    0 for target.
    """
    target, weight = np.zeros(len(y)), np.zeros(len(y))
    refused = np.zeros(len(lists) - 1, dtype=np.bool_)
    for q in range(len(lists) - 1):
        first, end = lists[q], lists[q + 1]
        m = end - first
        sound = m > 0
        for k in range(indptr[first], indptr[end]):
            sound = sound and abs(values[k]) < STEEPEST
        for r in range(first, end):
            sound = sound and abs(y[r]) < STEEPEST and abs(c[r]) < STEEPEST
        for p in range(pairs[q], pairs[q + 1]):
            sound = sound and abs(pair_c[p]) < STEEPEST
        refused[q] = not sound
        if not sound:
            continue
        same = mode[q] != 1
        for r in range(first, end):
            target[r] = y[r] * c[r] if mode[q] == 3 else y[r]
            same = same and c[r] == c[first]
        if mode[q] == 2:
            target[first:end] = 0.0
            for p in range(pairs[q], pairs[q + 1]):
                share = max(pair_c[p], 0.0) / (m - 1)
                i, j = first + better[p], first + worse[p]
                target[i] += share
                weight[i] += share
                weight[j] += share
            for r in range(first, end):
                target[r] = target[r] / weight[r] if weight[r] > 0.0 else 0.0
        elif mode[q] == 3:
            weight[first:end] = 1.0
        elif same or mode[q] == 4:
            for r in range(first, end):
                weight[r] = max(c[r], 0.0)
        else:
            for i in range(first, end):
                for j in range(first, end):
                    share = preference(mode[q], y[i], c[i], y[j], c[j]) / (m - 1) if i != j else 0.0
                    if share > 0.0:
                        weight[i] += share
                        weight[j] += share
    return target, weight, refused
