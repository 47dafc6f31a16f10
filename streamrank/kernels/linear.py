"""A linear scorer on sparse rows: scores, then one step of Adam and of the running average, all lazily."""

import numpy as np
import numpy.typing as npt

from .columns import (
    AVERAGE,
    BULK,
    FILLED,
    FLOATS,
    INTS,
    INVERSE,
    LAST,
    M1,
    M2,
    MOVED,
    PIVOT,
    SEEN,
    SIZE,
    SLOPE,
    SQUARE,
    TAKEN,
    TOTAL,
    TOUCHES,
    WANTED,
    G,
    W,
    last_columns,
    put,
    serve_columns,
    step_columns,
    take,
)
from .dense import bounded, same_columns, see_table, table_gradient, table_scores
from .jit import jit
from .keyed import Chains, Visit, enter, recall, remember
from .lanes import LANES, joined
from .losses import SONG, has_preference, list_slopes
from .losses.song import SongSettings
from .splitmix import Words
from .weights import (
    BLOCK_BITS,
    STEEPEST,
    UINT,
    Columns,
    Counts,
    Flags,
    Floats,
    Ints,
    Scratch,
    Weights,
    as_score,
    decay,
    see_values,
)


@jit
def score(
    indptr: Ints,
    indices: Columns,
    values: Floats,
    floats: Floats,
    counts: Ints,
    step: int,
    horizon: int,
    out: Floats,
) -> None:
    """The served score of each row: the averaged weights as they stand at `step`, times the scaled values."""
    w, average, inverse, last = floats[W], floats[AVERAGE], floats[INVERSE], counts[LAST]
    lanes = np.empty(LANES)
    for r in range(len(indptr) - 1):
        lanes[:] = 0.0
        for k in range(indptr[r], indptr[r + 1]):
            j = indices[k]
            if j < len(w):
                weight = average[j]
                if 0 < last[j] < step:
                    weight = w[j] + (weight - w[j]) * decay(last[j], step, horizon)
                lanes[(k - indptr[r]) % LANES] += (weight * inverse[j]) * values[k]
        out[r] = as_score(joined(lanes))


@jit
def score_last(
    indptr: Ints, indices: Columns, values: Floats, w: Floats, inverse: Floats, out: Floats
) -> None:
    """The score of each row by the last weights."""
    lanes = np.empty(LANES)
    for r in range(len(indptr) - 1):
        lanes[:] = 0.0
        for k in range(indptr[r], indptr[r + 1]):
            j = indices[k]
            lanes[(k - indptr[r]) % LANES] += (w[j] * inverse[j]) * values[k]
        out[r] = joined(lanes)


@jit
def learn_lists(
    # a batch
    indptr: Ints, indices: Columns, values: Floats, lists: Ints, y: Floats, c: Floats,
    mode: npt.NDArray[np.int8], pairs: Ints, better: Columns, worse: Columns, pair_c: Floats,
    # `Weights` and `Scratch`: numbers, whole numbers, and the rest
    floats: Floats, counts: Ints, held: Counts, dirty: Flags,
    # `Steps`
    rate: float, adam: bool, horizon: int, scale: bool,
    # `Loss`, and the fields of its tuples
    number: int, knob: float, margin: float, gamma: float, top: float, tau1: float, tau2: float, eta: float,
    gamma1: float, practical: bool,
    key: Ints, kept: Floats, following: Counts, head: Counts, n_kept: Counts, numbers: Floats, space: Ints,
    slots: Ints, fresh: npt.NDArray[np.bool_], items: Ints, max_items: int, sample: int, generator: Words,
    # where it stands
    step: int, refused: int, start: int, out: Floats,
) -> tuple[int, int, int]:  # fmt: skip
    """Score each list as served, then learn it; returns steps made, lists refused, and where it ended.

    It goes from list `start` to the first that holds a column for which there is no room, if there is one.

    Per list: (1) served scores into `out`; (2) the column scales see its values, outliers cut; (3) scores s
    under the last iterate w; (4) slopes ds of the loss of that number (`streamrank.kernels.losses`); (5)
    gradient g = X'ds over the touched columns; (6) Adam, or momentum alone, on those, and the average
    follows. A list without a preference changes nothing; one with an absurd value is refused whole; one with
    an absurd gradient moves no weight.

    The fields of tuples are arguments of their own: to look through tuples costs a call from Python 8 us, as
    much as a list of ten rows takes to learn.
    """
    settings = SongSettings(margin, gamma, top, tau1, tau2, eta, gamma1, practical)
    chains = Chains(key, kept, following, head, n_kept, numbers, space)
    visit = Visit(slots, fresh, items, max_items)
    w, inverse, gradient, bulk = floats[W], floats[INVERSE], floats[SLOPE], floats[SIZE]
    seen, sums = (counts[SEEN], counts[FILLED]), (floats[PIVOT], floats[TOTAL], floats[SQUARE])
    weights = Weights(w, floats[M1], floats[M2], floats[AVERAGE], counts[LAST], counts[TOUCHES], *seen, *sums)
    scratch = Scratch(inverse, gradient, bulk, held, dirty)
    n_rows, n_values = longest(indptr, lists)
    f = np.empty((FLOATS, min(n_values, len(w))))
    i = np.empty((INTS, f.shape[1]), np.int64)
    of_rows, entries, touched = (
        np.empty((3, n_rows)),
        np.empty(n_rows, np.int64),
        np.empty(min(n_values, len(w)), np.int32),
    )
    slot, known, query = -1, 0, np.empty(3)
    for q in range(start, len(lists) - 1):
        first, end = lists[q], lists[q + 1]
        m, begin, stop = end - first, indptr[first], indptr[end]
        sound = bounded(values, begin, stop, STEEPEST)  # first: in order, so that memory is fetched ahead
        n = same_columns(indptr, indices, first, end)
        if largest(indices, begin + max(n - 1, 0), begin + n if n else stop) >= len(w):
            return step, refused, q
        beside = n > 0 and indices[begin + n - 1] - indices[begin] == n - 1
        columns = indices[begin : begin + n]
        if n > 0:  # (1)
            take(floats, columns, beside, 0, TAKEN, f)
            take(counts, columns, beside, 0, INTS, i)
            serve_columns(f, i, n, step, horizon)
            table_scores(values, begin, n, f, out, first, end)
            for r in range(first, end):
                out[r] = as_score(out[r])
        else:
            score(indptr[first : end + 1], indices, values, floats, counts, step, horizon, out[first:end])
        entry = entries[:m]
        if number == SONG:
            slot = enter(chains, visit, q, first, end, entry)
        a, b = pairs[q], pairs[q + 1]
        refused += not sound
        if not sound or not has_preference(y[first:end], c[first:end], mode[q], pair_c[a:b]):
            continue
        s, ds, u = of_rows[0, :m], of_rows[1, :m], of_rows[2, :m]
        if n > 0:
            if scale:  # (2)
                see_table(values, begin, m, n, f, i)
                put(floats, columns, beside, MOVED, TAKEN, f)
                put(counts, columns, beside, SEEN, INTS, i)
            last_columns(f, n)  # (3)
            table_scores(values, begin, n, f, s, 0, m)
        else:
            n_touched = see_values(indices, values, begin, stop, m, weights, scratch, scale, touched)
            columns = touched[:n_touched]
            for k in range(n_touched):
                held[columns[k]] = 0
            score_last(indptr[first : end + 1], indices, values, w, inverse, s)
        if number == SONG:
            known = recall(kept, numbers, n_kept, slot, entry, m, u, query)
        list_slopes(  # (4)
            number, knob, settings, sample, generator, known, u, query, s, y[first:end], c[first:end],
            mode[q], better[a:b], worse[a:b], pair_c[a:b], ds,
        )  # fmt: skip
        if number == SONG:
            remember(kept, numbers, slot, entry, m, u, query)
        if n > 0:  # (5)
            table_gradient(values, begin, m, n, ds, f)
        else:
            take(floats, columns, False, 0, WANTED, f)
            take(counts, columns, False, 0, SEEN, i)
            gather_slopes(indptr, indices, values, first, ds, columns, gradient, bulk, f)
        made = step_columns(f, i, len(columns), step + 1, rate, adam, horizon)  # (6)
        put(floats, columns, beside, 0, MOVED, f)
        put(counts, columns, beside, 0, SEEN, i)
        for k in range(len(columns)):
            dirty[columns[k] >> BLOCK_BITS] = 1
        step += made
        refused += not made
    return step, refused, len(lists) - 1


@jit
def largest(columns: Columns, begin: int, end: int) -> int:
    """The largest of some columns; -1 of none."""
    found = np.int32(-1)
    for k in range(UINT(begin), UINT(end)):
        found = max(found, columns[k])
    return int(found)


@jit
def longest(indptr: Ints, lists: Ints) -> tuple[int, int]:
    """The most rows, and the most values, that a list holds."""
    n_rows, n_values = 0, 0
    for q in range(len(lists) - 1):
        n_rows = max(n_rows, lists[q + 1] - lists[q])
        n_values = max(n_values, indptr[lists[q + 1]] - indptr[lists[q]])
    return n_rows, n_values


@jit
def gather_slopes(
    indptr: Ints, indices: Columns, values: Floats, first: int, ds: Floats, columns: Columns,
    gradient: Floats, bulk: Floats, f: Floats,
) -> None:  # fmt: skip
    """X'ds of scattered rows into row G, and the sums of the sizes of its terms into BULK."""
    for r in range(len(ds)):
        slope = ds[r]
        if slope != 0.0:
            for k in range(indptr[first + r], indptr[first + r + 1]):
                term = slope * values[k]
                gradient[indices[k]] += term
                bulk[indices[k]] += abs(term)
    for k in range(len(columns)):
        j = columns[k]
        f[G, k], f[BULK, k] = gradient[j], bulk[j]
        gradient[j] = bulk[j] = 0.0
