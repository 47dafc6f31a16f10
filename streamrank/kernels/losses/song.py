"""SONG and K-SONG: NDCG by moving averages of smooth places, [002] slides 8 to 13 with their errata."""

import math
from typing import NamedTuple

import numpy as np

from ..jit import jit
from .gains import gains, place
from .pairs import Columns, Floats


class SongSettings(NamedTuple):
    """What both take; `top` 0 is SONG, all else K-SONG at that K."""

    margin: float  # c of the squared hinge l(d) = max(0, d + c)^2
    gamma: float  # how much of u is new at each visit
    top: float  # K
    tau1: float  # how sharp a place above lambda is, and the pull of lambda to 0
    tau2: float
    eta: float  # step of lambda
    gamma1: float  # how much of s is new
    practical: bool  # K-SONG without the slope of psi


@jit
def ideal_at(gain: Floats, top: float) -> float:
    """The largest DCG of the first `top` places; 0: of all."""
    total = 0.0
    for i in range(len(gain)):
        if gain[i] > 0.0:
            k = place(gain, i)
            if top == 0.0 or k < top:
                total += gain[i] / math.log2(k + 2.0)
    return total


@jit
def _above(score: float, threshold: float, tau: float) -> float:
    return 1.0 / (1.0 + math.exp(min(max((threshold - score) / tau, -60.0), 60.0)))


@jit
def threshold_slope(s: Floats, threshold: float, share: float, tau1: float, tau2: float) -> float:
    """dL/dlambda = share + tau2 lambda - mean sigmoid((s - lambda)/tau1)."""
    total = 0.0
    for j in range(len(s)):
        total += _above(s[j], threshold, tau1)
    return share + tau2 * threshold - total / len(s)


@jit
def find_threshold(s: Floats, share: float, tau1: float, tau2: float) -> float:
    """Where `threshold_slope` is 0, by bisection: at share (K + 1/2)/N, the K+1st score.

    >>> round(find_threshold(np.arange(6.0), 2.5 / 6, 0.1, 0.0), 6)  # 5 and 4 are above
    3.0
    """
    low, high = float(s.min()) - 60.0 * tau1, float(s.max()) + 60.0 * tau1
    for _ in range(60):
        middle = 0.5 * (low + high)
        if threshold_slope(s, middle, share, tau1, tau2) < 0.0:
            low = middle
        else:
            high = middle
    return 0.5 * (low + high)


@jit
def song(
    s: Floats,
    y: Floats,
    c: Floats,
    mode: int,
    settings: SongSettings,
    known: int,
    u: Floats,
    query: Floats,
    ds: Floats,
) -> float:
    """Minus smooth NDCG of a list of m rows, of a query with N = `known` items; moves u and `query`.

    For each row i of gain a_i > 0, with l(d) = max(0, d + c)^2 and the item in its own list once,

        g-hat = c^2/N + ((N - 1)/N) mean_{j != i} l(s_j - s_i),    u_i <- (1 - gamma) u_i + gamma g-hat
        f(u)  = -c_i a_i/(Z log2(1 + N u)), at max(u, c^2/N): N u >= c^2, else a new item would be too steep

    where gamma is 1 unless the list is judged, each row by a label with a weight: clicks come and go, and one
    on an item whose u lags behind its place would outweigh all others (NDCG@10 on MQ2007 after 10,000 rounds
    of informational clicks: .29, below chance, with a memory of clicks, .47 without).
    ds is the slope of f through g-hat. Z is the largest ideal DCG that a list of the query had. K-SONG
    multiplies f by psi = sigmoid(2 (s_i - lambda)), lambda the score that K of N items exceed; lambda moves
    by its own slope, and takes part in ds (unless practical), less the mean of ds: scores that all rise alike
    rank alike, which tau2 and the lag of the curvature would forget. `query` is lambda (NaN: not known yet),
    the moving average of lambda's curvature, and Z.
    """
    m = len(s)
    ds[:] = 0.0
    gain, weighted, hinge = np.empty(m), np.empty(m), np.empty(m)
    if m < 2 or gains(y, c, mode, gain, weighted) <= 0.0:
        return 0.0
    n = float(max(known, m))
    top = settings.top
    query[2] = max(query[2], ideal_at(gain, top))
    margin, floor = settings.margin, settings.margin * settings.margin / n
    cut = 0.0 < top < n
    threshold, share = 0.0, (top + 0.5) / n
    if cut:
        if math.isnan(query[0]):
            query[0] = find_threshold(s, share, settings.tau1, settings.tau2)
        threshold = query[0]
        query[0] -= settings.eta * threshold_slope(s, threshold, share, settings.tau1, settings.tau2)
        bend = 0.0
        for j in range(m):
            above = _above(s[j], threshold, settings.tau1)
            bend += above * (1.0 - above)
        bend = settings.tau2 + bend / (settings.tau1 * m)
        query[1] = bend if math.isnan(query[1]) else query[1] + settings.gamma1 * (bend - query[1])
    gamma = settings.gamma if mode == 0 and c.min() > 0.0 else 1.0
    value, drag = 0.0, 0.0
    for i in range(m):
        if weighted[i] <= 0.0:
            continue
        for j in range(m):
            above = s[j] - s[i] + margin
            hinge[j] = above if above > 0.0 else 0.0
        hinge[i] = 0.0
        total, rise = 0.0, 0.0
        for j in range(m):
            total += hinge[j] * hinge[j]
            rise += hinge[j]
        u[i] += gamma * (floor + (n - 1.0) / (n * (m - 1.0)) * total - u[i])
        depth = 1.0 + n * max(u[i], floor)
        log = math.log2(depth)
        f = -weighted[i] / (query[2] * log)
        psi = 1.0
        if cut:
            psi = _above(s[i], threshold, 0.5)
            if not settings.practical:
                pull = 2.0 * psi * (1.0 - psi) * f
                ds[i] += pull
                drag += pull
        value += psi * f
        steep = psi * weighted[i] * n / (query[2] * math.log(2.0) * depth * log * log)
        steep *= 2.0 * (n - 1.0) / (n * (m - 1.0))
        for j in range(m):
            ds[j] += steep * hinge[j]
        ds[i] -= steep * rise
    if drag != 0.0:
        for j in range(m):
            above = _above(s[j], threshold, settings.tau1)
            ds[j] -= drag * above * (1.0 - above) / (settings.tau1 * m * query[1])
        ds -= ds.mean()
    return value


@jit
def song_list(
    s: Floats,
    y: Floats,
    c: Floats,
    mode: int,
    better: Columns,
    worse: Columns,
    pair_c: Floats,
    settings: SongSettings,
    known: int,
    u: Floats,
    query: Floats,
    ds: Floats,
) -> None:
    """`song` on a list; each explicit pair is a list of a query that never comes again."""
    if mode != 2:
        song(s, y, c, mode, settings, known, u, query, ds)
        return
    ds[:] = 0.0
    label, both, scores, slopes = np.array([1.0, 0.0]), np.empty(2), np.empty(2), np.empty(2)
    for p in range(len(better)):
        if pair_c[p] > 0.0:
            i, j = better[p], worse[p]
            scores[0], scores[1] = s[i], s[j]
            both[:] = pair_c[p]
            unknown = np.array([np.nan, np.nan, 0.0])
            song(scores, label, both, 0, settings, 2, np.zeros(2), unknown, slopes)
            ds[i] += slopes[0]
            ds[j] += slopes[1]
    ds *= 2.0 / len(s)
