"""RankRLS by statistics: H = X'LX and b = X'Ly of all that was seen, and heavy-ball moves of w on them.

H and b are additive, so a single pass holds exactly the full-batch problem; w follows by [000] (7), (11). All
sums run in the order of the lists, and products with H by rows, so the same lists give the same bits.
"""

import math
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from .jit import jit
from .losses import preference

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]
Columns = npt.NDArray[np.int32]

LARGEST = 1.7e308  # a score beyond is cut, so that a ranking always has an order
NOISE = 1e-14  # a difference smaller than this share of the values is their rounding
STEEPEST = 1e20  # a list with a value or weight beyond is refused: its square would drown all others

TOGETHER = 5  # rows that `add_squares` takes at once
COLUMNS_A_MOVE = 64  # n columns: a move every n // 64 lists

# places in Statistics.numbers
ROWS, KAPPA_1, KAPPA_N, STEP, MOMENTUM, USED, SINCE = range(7)


class Statistics(NamedTuple):
    """What was seen, and the weights on their way; n columns."""

    H: Floats  # (n, n) X'LX, decayed
    b: Floats  # X'Ly, decayed
    w: Floats
    w_prev: Floats
    v: Floats  # towards the eigenvector of the largest eigenvalue
    omega: Floats  # and of the smallest
    numbers: Floats  # weighted rows in H; of the last move kappa_1, kappa_n, step a, momentum mu, columns
    # used; lists since then


@jit
def times(H: Floats, x: Floats, out: Floats) -> None:
    """Write H x (H symmetric) four rows at a time: sums in an order of their own, still vectorised."""
    n = len(x)
    for j in range(n):
        out[j] = 0.0
    whole = n - n % 4
    for i in range(0, whole, 4):
        a, b, c, d = x[i], x[i + 1], x[i + 2], x[i + 3]
        for j in range(n):
            out[j] += (a * H[i, j] + b * H[i + 1, j]) + (c * H[i + 2, j] + d * H[i + 3, j])
    for i in range(whole, n):
        for j in range(n):
            out[j] += x[i] * H[i, j]


@jit
def score(indptr: Ints, indices: Columns, values: Floats, w: Floats, out: Floats) -> None:
    """The score w'x of each row; columns that w does not have count nothing."""
    for r in range(len(indptr) - 1):
        total = 0.0
        for k in range(indptr[r], indptr[r + 1]):
            if indices[k] < len(w):
                total += w[indices[k]] * values[k]
        out[r] = 0.0 if math.isnan(total) else min(max(total, -LARGEST), LARGEST)


@jit
def add_list(
    X: Floats,
    y: Floats,
    c: Floats,
    mode: int,
    better: Columns,
    worse: Columns,
    pair_c: Floats,
    H: Floats,
    b: Floats,
) -> float:
    """Add what a list says to H and b; returns by how many weighted rows they grew (0: nothing was added).

    Where all weights are one c (or the labels are scores y c), the list is scored, [003] (8): with x and y
    centred, H += c sum x x', b += c sum x y. Else its pairs are preferences of magnitude 1, [003] (9): H +=
    sum c d d', b += sum c d over the pairs d = x_better - x_worse, by the Laplacian M of their graph: X'MX.
    """
    m = len(y)
    scored = mode == 3
    if mode == 0:
        scored = c[0] > 0.0
        for r in range(1, m):
            scored = scored and c[r] == c[0]
    if scored:
        weight = 1.0 if mode == 3 else c[0]
        label_mean = 0.0
        for r in range(m):
            label_mean += (y[r] * c[r] if mode == 3 else y[r]) / m
        n = X.shape[1]
        mean = np.zeros(n)
        for r in range(m):
            for i in range(n):
                mean[i] += X[r, i]
        mean *= 1.0 / m
        for r in range(m):
            label = weight * ((y[r] * c[r] if mode == 3 else y[r]) - label_mean)
            for i in range(n):
                gap = X[r, i] - mean[i]
                # what a constant column leaves here is rounding, not a difference
                X[r, i] = gap if abs(gap) > NOISE * abs(mean[i]) else 0.0
                b[i] += label * X[r, i]
        add_squares(X, weight, H)
        return weight * m if m > 1 else 0.0
    M = np.zeros((m, m))
    g = np.zeros(m)
    total = 0.0
    if mode == 2:
        for p in range(len(better)):
            total += _join(M, g, better[p], worse[p], pair_c[p])
    else:
        for i in range(m):
            for j in range(m):
                if i != j:
                    total += _join(M, g, i, j, preference(mode, y[i], c[i], y[j], c[j]))
    if total > 0.0:
        n = X.shape[1]
        z = np.empty(n)
        for r in range(
            m - 1, -1, -1
        ):  # only differences count: seen from row 0 a constant column is exactly 0
            for i in range(n):
                X[r, i] -= X[0, i]
        for r in range(m):
            z[:] = 0.0
            for k in range(m):
                weight = M[r, k]
                if weight != 0.0:
                    for j in range(n):
                        z[j] += weight * X[k, j]
            for i in range(n):
                x = X[r, i]
                if x != 0.0:
                    b[i] += g[r] * x
                    for j in range(n):
                        H[i, j] += x * z[j]
    return 2.0 * total


@jit
def add_square(d: Floats, label: float, weight: float, H: Floats, b: Floats) -> None:
    """H += weight d d', b += weight label d."""
    n = len(d)
    for i in range(n):
        a = weight * d[i]
        if a != 0.0:
            b[i] += a * label
            for j in range(n):
                H[i, j] += a * d[j]


@jit
def add_squares(X: Floats, weight: float, H: Floats) -> None:
    """H += weight X'X, `TOGETHER` rows at a time: each row of H is read and written once for them.

    The rows of X are a multiple of `TOGETHER`; those past the list's own are 0.
    """
    n = X.shape[1]
    for r in range(0, len(X), TOGETHER):
        x0, x1, x2, x3, x4 = X[r], X[r + 1], X[r + 2], X[r + 3], X[r + 4]
        for i in range(n):
            a0, a1, a2, a3, a4 = (
                weight * x0[i],
                weight * x1[i],
                weight * x2[i],
                weight * x3[i],
                weight * x4[i],
            )
            h = H[i]
            for j in range(n):
                h[j] += (a0 * x0[j] + a1 * x1[j]) + (a2 * x2[j] + a3 * x3[j]) + a4 * x4[j]


@jit
def teaches(y: Floats, c: Floats, mode: int) -> bool:
    """Whether a list says anything: a scored one needs two labels, the others are looked at pair by pair.

    A list whose labels are all tied would only shrink w along its differences; on a stream of impressions
    that nobody clicked this drowns what the clicks say.
    """
    if mode == 0 or mode == 3:
        told = False
        for r in range(1, len(y)):
            told = told or y[r] != y[0] or (mode == 3 and y[r] * c[r] != y[0] * c[0])
        return told
    return True


@jit
def _join(M: Floats, g: Floats, i: int, j: int, weight: float) -> float:
    if weight > 0.0:
        M[i, i] += weight
        M[j, j] += weight
        M[i, j] -= weight
        M[j, i] -= weight
        g[i] += weight
        g[j] -= weight
        return weight
    return 0.0


@jit
def _normalise(x: Floats) -> None:
    length = 0.0
    for i in range(len(x)):
        length += x[i] * x[i]
    x /= math.sqrt(length)


@jit
def move(statistics: Statistics, lam: float, moves: int, scale: bool) -> None:
    """Refresh the bounds of the spectrum, then make `moves` heavy-ball steps.

    With D the diagonal of H a row (1 without `scale`), A = D^-1/2 H D^-1/2 + lam rows I. One warm power step
    a call: theta and residual r of v. Some eigenvalue lies within |r| of theta, and the squares of the others
    add up to at most |A|_F^2 - (theta - |r|)^2, so

        kappa_1 = max(theta + |r|, sqrt(|A|_F^2 - (theta - |r|)^2)) <= |A|_F

    is never an underestimate, which heavy ball would not forgive. kappa_n is the Rayleigh quotient of omega,
    a power vector of A - kappa_1 I, at least lam: too high is safe. Then [000] (7), (11):

        a = 4/(sqrt k1 + sqrt kn)^2, mu = ((sqrt k1 - sqrt kn)/(sqrt k1 + sqrt kn))^2
        w+ = w - a D^-1 (H w + lam rows D w - b) + mu (w - w_prev)
    """
    # taken whole: of a slice the compiler does not know that its rows lie together, and does not vectorise
    H, b, w, w_prev, v, omega, numbers = statistics
    n = len(b)
    ridge = lam * numbers[ROWS]
    root = np.ones(n)  # of 1/D
    met = False
    numbers[USED] = numbers[SINCE] = 0.0
    for i in range(n):
        if H[i, i] > 0.0:
            numbers[USED] += 1.0
            if scale:
                root[i] = math.sqrt(numbers[ROWS] / H[i, i])
            if v[i] == 0.0 and omega[i] == 0.0:  # a column that tells rows apart for the first time
                v[i] = omega[i] = 1.0
                met = True
    if met:
        _normalise(v)
        _normalise(omega)
    frobenius2 = _frobenius2(H, root)
    out = np.empty(n)

    times(H, v * root, out)  # one power step, and how good it was
    out *= root
    theta = length = 0.0
    for i in range(n):
        theta += v[i] * out[i]
        length += out[i] * out[i]
    residual = math.sqrt(max(length - theta * theta, 0.0)) * 1.0000001  # v has length 1 to rounding
    others = math.sqrt(max(frobenius2 - max(theta - residual, 0.0) ** 2, 0.0))
    kappa_1 = min(max(theta + residual, others), math.sqrt(frobenius2)) * 1.0000001 + ridge
    if length > 0.0:
        v[:] = out / math.sqrt(length)

    times(H, omega * root, out)
    out *= root
    quotient = length = 0.0
    for i in range(n):
        quotient += omega[i] * out[i]
        out[i] += (ridge - kappa_1) * omega[i]
        length += out[i] * out[i]
    kappa_n = min(max(ridge, quotient + ridge), kappa_1)
    if length > 0.0:
        omega[:] = out / math.sqrt(length)

    if not 0.0 < kappa_1 < math.inf:
        return
    s1, sn = math.sqrt(kappa_1), math.sqrt(kappa_n)
    step, momentum = 4.0 / (s1 + sn) ** 2, ((s1 - sn) / (s1 + sn)) ** 2
    if numbers[STEP] == 0.0:
        # the first of all: from rest, heavy ball goes four times too far and then back beyond 0, so that
        # after one click what was clicked would come last; one plain step, without speed, goes before it
        times(H, w, out)
        for i in range(n):
            w[i] -= ((out[i] - b[i]) * (root[i] * root[i]) + ridge * w[i]) / kappa_1
            w_prev[i] = w[i]
    for _ in range(moves):
        times(H, w, out)
        for i in range(n):
            slope = (out[i] - b[i]) * (root[i] * root[i]) + ridge * w[i]
            ahead = w[i] - step * slope + momentum * (w[i] - w_prev[i])
            w_prev[i] = w[i]
            w[i] = ahead
    numbers[KAPPA_1], numbers[KAPPA_N] = kappa_1, kappa_n
    numbers[STEP], numbers[MOMENTUM] = step, momentum


@jit
def _frobenius2(H: Floats, root: Floats) -> float:
    """The sum of squares of the entries root_i H_ij root_j."""
    n = len(root)
    squares = np.zeros(n)
    for i in range(n):
        a = root[i]
        for j in range(n):
            entry = a * H[i, j]
            squares[j] += entry * entry
    total = 0.0
    for j in range(n):
        total += squares[j] * (root[j] * root[j])
    return total


@jit
def forget(statistics: Statistics, rho: float) -> None:
    """What was seen counts rho times as much."""
    if rho < 1.0:
        statistics.numbers[ROWS] *= rho
        statistics.b[:] *= rho
        statistics.H[:] *= rho


@jit
def bounded(x: Floats) -> bool:
    """Whether every number is finite and of a sensible size."""
    n_sound = 0
    for k in range(len(x)):  # counted to the end: a loop that may stop early is not vectorised
        n_sound += abs(x[k]) < STEEPEST
    return n_sound == len(x)


@jit
def dense(indptr: Ints, indices: Columns, n: int) -> bool:
    """Whether every row holds the columns 0, 1, … of the first one, in this order, all below n.

    >>> dense(np.array([0, 2, 4]), np.array([0, 1, 0, 1], np.int32), 2)
    True
    >>> dense(np.array([0, 2, 4]), np.array([0, 1, 1, 0], np.int32), 2)
    False
    """
    begin, width = indptr[0], indptr[1] - indptr[0]
    same = bool(width <= n)
    for r in range(len(indptr) - 1):
        same = same and indptr[r + 1] - indptr[r] == width
    if same:
        for r in range(len(indptr) - 1):
            wrong = 0
            for k in range(width):
                wrong += indices[begin + r * width + k] != k
            same = same and wrong == 0
    return same


@jit
def touched(indices: Columns, place: Columns, n: int) -> Columns:
    """The columns below n that a list holds, each once, and in `place` where each stands among them."""
    columns = np.empty(len(indices), dtype=np.int32)
    for k in range(len(indices)):
        if indices[k] < n:
            place[indices[k]] = -1
    count = 0
    for k in range(len(indices)):
        j = indices[k]
        if j < n and place[j] < 0:
            place[j] = count
            columns[count] = j
            count += 1
    return columns[:count]


@jit
def learn_lists(
    indptr: Ints,
    indices: Columns,
    values: Floats,
    lists: Ints,
    y: Floats,
    c: Floats,
    mode: npt.NDArray[np.int8],
    pairs: Ints,
    better: Columns,
    worse: Columns,
    pair_c: Floats,
    slots: Ints,
    fresh: npt.NDArray[np.bool_],
    counts: Ints,
    label_means: Floats,
    means: Floats,
    statistics: Statistics,
    lam: float,
    rho: float,
    moves: int,
    scale: bool,
    out: Floats,
) -> int:
    """Score each list, add it to the statistics, move w; returns how many lists were refused.

    A list of mode EXAMPLE is one row of the open query ``slots[q]`` (begun anew where `fresh`): with k rows
    seen before, d = x - mean and e = y - label mean, H += k/(k+1) d d', b += k/(k+1) d e, and the means move:
    the sum over a query is its X'LX, exactly.
    """
    H, b, numbers = statistics.H, statistics.b, statistics.numbers
    n, refused = len(b), 0
    place = np.full(n, -1, dtype=np.int32)
    for q in range(len(lists) - 1):
        first, end = lists[q], lists[q + 1]
        score(indptr[first : end + 1], indices, values, statistics.w, out[first:end])
        sound = end > first and bounded(values[indptr[first] : indptr[end]])
        sound = sound and bounded(y[first:end]) and bounded(c[first:end])
        if not (sound and bounded(pair_c[pairs[q] : pairs[q + 1]])):
            refused += 1
            continue
        if not teaches(y[first:end], c[first:end], mode[q]):
            continue
        if mode[q] == 4:
            slot = slots[q]
            if fresh[q]:
                counts[slot], label_means[slot] = 0, 0.0
                means[slot] = 0.0
            seen = counts[slot]
            e = y[first] - label_means[slot]
            d = -means[slot, :n]
            for k in range(indptr[first], indptr[end]):
                if indices[k] < n:
                    d[indices[k]] += values[k]
            for i in range(n):
                if abs(d[i]) <= NOISE * abs(means[slot, i]):
                    d[i] = 0.0
                means[slot, i] += d[i] / (seen + 1.0)
            label_means[slot] += e / (seen + 1.0)
            counts[slot] = seen + 1
            grown = c[first] if seen else 0.0
            if grown > 0.0:
                forget(statistics, rho)
                add_square(d, e, c[first] * seen / (seen + 1.0), H, b)
        else:
            p, t = pairs[q], pairs[q + 1]
            padded = -(-(end - first) // TOGETHER) * TOGETHER
            if rho == 1.0 and dense(indptr[first : end + 1], indices, n):
                width = indptr[first + 1] - indptr[first]
                wide = min(-(-width // 8) * 8, n)  # whole vectors
                X = np.zeros((padded, wide))
                for r in range(end - first):
                    for k in range(width):
                        X[r, k] = values[indptr[first] + r * width + k]
                grown = add_list(
                    X,
                    y[first:end],
                    c[first:end],
                    mode[q],
                    better[p:t],
                    worse[p:t],
                    pair_c[p:t],
                    H,
                    b,
                )
            else:
                columns = touched(indices[indptr[first] : indptr[end]], place, n)
                X = np.zeros((padded, len(columns)))
                for r in range(first, end):
                    for k in range(indptr[r], indptr[r + 1]):
                        if indices[k] < n:
                            X[r - first, place[indices[k]]] += values[k]
                local_H, local_b = np.zeros((len(columns), len(columns))), np.zeros(len(columns))
                grown = add_list(
                    X,
                    y[first:end],
                    c[first:end],
                    mode[q],
                    better[p:t],
                    worse[p:t],
                    pair_c[p:t],
                    local_H,
                    local_b,
                )
                if grown > 0.0:
                    forget(statistics, rho)
                    for i in range(len(columns)):
                        b[columns[i]] += local_b[i]
                        for j in range(len(columns)):
                            H[columns[i], columns[j]] += local_H[i, j]
        if grown > 0.0:
            numbers[ROWS] += grown
            numbers[SINCE] += 1.0
            # a move costs n^2: with many columns it is made once for some lists
            if numbers[SINCE] >= numbers[USED] // COLUMNS_A_MOVE:
                move(statistics, lam, moves, scale)
    return refused
