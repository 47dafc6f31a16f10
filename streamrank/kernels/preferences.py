"""The preferences that judged lists hold, as rows of a `Batch`."""

import numpy as np
import numpy.typing as npt

from .jit import jit

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]

BY_LABEL, EXPLICIT = 0, 2  # as in `streamrank.features.batch`


@jit
def preferences(
    lists: Ints,
    y: Floats,
    c: Floats,
    mode: npt.NDArray[np.int8],
    pairs: Ints,
    better: npt.NDArray[np.int32],
    worse: npt.NDArray[np.int32],
    pair_c: Floats,
    wanted: npt.NDArray[np.bool_],
) -> tuple[Ints, Ints, Floats]:
    """Row better, row worse and weight of every preference of the lists wanted.

    By label row i beats j where y_i > y_j; in mode EVERY_OTHER it beats all others where y_i > 0; with weight
    c_i, none where that is 0. Explicit ones are as listed.

    >>> y, c = np.array([1.0, 0.0, 2.0]), np.array([1.0, 1.0, 0.5])
    >>> none = np.zeros(0, np.int32)
    >>> by_label, all_of_them = np.zeros(1, np.int8), np.ones(1, np.bool_)
    >>> borders, no_pairs = np.array([0, 3]), np.zeros(2, np.int64)
    >>> preferences(borders, y, c, by_label, no_pairs, none, none, np.zeros(0), all_of_them)
    (array([0, 2, 2]), array([1, 0, 1]), array([1. , 0.5, 0.5]))
    """
    room = 0
    for q in range(len(lists) - 1):
        if wanted[q]:
            size = lists[q + 1] - lists[q]
            room += pairs[q + 1] - pairs[q] if mode[q] == EXPLICIT else size * (size - 1)
    high, low, weight = np.empty(room, np.int64), np.empty(room, np.int64), np.empty(room)
    n = 0
    for q in range(len(lists) - 1):
        if not wanted[q]:
            continue
        start, end = lists[q], lists[q + 1]
        if mode[q] == EXPLICIT:
            for k in range(pairs[q], pairs[q + 1]):
                high[n], low[n], weight[n] = start + better[k], start + worse[k], pair_c[k]
                n += 1
            continue
        for i in range(start, end):
            if not c[i] > 0.0:
                continue
            for j in range(start, end):
                if i != j and (y[i] > y[j] if mode[q] == BY_LABEL else y[i] > 0.0):
                    high[n], low[n], weight[n] = i, j, c[i]
                    n += 1
    return high[:n].copy(), low[:n].copy(), weight[:n].copy()
