"""One step of least squares on preferences without H, for large sparse n: AdaGrad, or a plain step.

With m the rows of a micro-batch and R = L(X w - y) its residuals (`streamrank.kernels.microbatch`),

    g = X'R/m + ridge w,  ridge = lam D mass/m                         (1)  mass: its weighted rows
    AdaGrad   G += g^2,  w -= c q g/sqrt(G)                            (2)
    plain     w -= a q^2 g,  a = c/(k1 + R2/m)                         (3)

k1 is the largest eigenvalue of X'LX/m by one warm power step a batch, averaged over `WINDOW` of them; where
the batch is steeper along g itself, that counts. R2 is the longest centred row so far, squared. q is 1, or
with `scale` one over the spread of a column, over the root of the values a row holds, so that rows have a
length of about 1 and (2), (3) do not depend on the units of a column. D is 1, or with `scale` the variance of
the column, as in `streamrank.kernels.statistics`; of its values alone, times the share of rows that hold a
column on average over the values: rare columns are held back as much as others.

Only the columns of the batch are touched. Under (2), with G at rest, the ridge alone makes a weight shrink by
c q ridge/sqrt(G) a batch, under (3) by a q^2 ridge: see `streamrank.kernels.resting`. (Test errors are those
of a dense ridge at every step, to four digits, on two sets; a ridge on the touched columns only was worse by
a third.)
"""

import math

import numpy as np

from .jit import jit
from .microbatch import Open, grouped, residuals
from .microslopes import (
    BATCHES,
    CLOCK,
    HELD,
    HELD2,
    KAPPA_1,
    LENGTH2,
    LONGEST,
    ROWS,
    SCALE,
    SEEN,
    STEP,
    UNIT,
    Part,
    Scratch,
    inverse_spread,
    longest,
    parted,
    product,
    slopes,
    spread,
)
from .resting import Columns, Floats, Ints, Weights, now, score

REACH = 3.0  # a slope beyond this many roots of G counts as one that far: one wild list silences no column
WINDOW = 20  # batches


@jit
def close(
    open: Open,
    group: Ints,
    n_groups: int,
    weights: Weights,
    scratch: Scratch,
    numbers: Floats,
    lam: float,
    rate: float,
    rho: float,
    scale: bool,
    plain: bool,
) -> bool:
    """One step on the open batch; False if its residuals were beyond all sense, and nothing moved.

    Rows of the lists that `group` names alike are centred together.
    """
    order, borders, heads = grouped(open.lists, group, n_groups)
    m, clock = float(len(order)), numbers[CLOCK]
    s, R = np.empty(len(order)), np.empty(len(order))
    score(open.indptr[: len(order) + 1], open.indices, open.values, weights, clock, s)
    mass = residuals(open, order, borders, heads, s, True, R)
    numbers[BATCHES] += 1.0
    squares = 0.0
    for r in range(len(R)):
        squares += R[r] * R[r]
    if not squares < 1e150:
        return False
    if not mass > 0.0:
        return True
    numbers[UNIT] *= math.exp(min(-len(group) * math.log(rho), 138.0))
    unit = numbers[UNIT]
    numbers[ROWS] += unit * mass
    numbers[SEEN] += unit * m
    part = parted(open, order, borders, heads, scratch)
    columns = part.columns
    spread(part, weights, numbers)
    q, ridge = np.empty(len(columns)), np.full(len(columns), lam * mass / m)
    common = numbers[HELD2] / numbers[HELD] / numbers[SEEN]
    for k in range(len(columns)):
        j = columns[k]
        q[k] = inverse_spread(weights, numbers, j, scale)
        if scale:
            ridge[k] *= common * weights.square[j] / weights.held[j] if q[k] > 0.0 else 0.0
    g = slopes(part, R)
    if plain:
        _plain_step(part, q, g, ridge, weights, scratch, numbers, rate, rho)
    else:
        _adagrad_step(columns, q, g, ridge, weights, numbers, rate)
    if unit > 1e30:  # what the sums are measured by must not outgrow a float
        numbers[HELD2] /= unit
        for n in (ROWS, SEEN, HELD, HELD2, UNIT):
            numbers[n] /= unit
        weights.square[:] /= unit
        weights.held[:] /= unit
        if not plain:
            weights.memory[:] /= unit
        scratch.dirty[:] = 1
    return True


@jit
def _adagrad_step(
    columns: Columns,
    q: Floats,
    slope: Floats,
    ridge: Floats,
    weights: Weights,
    numbers: Floats,
    rate: float,
) -> None:
    unit, clock = numbers[UNIT], numbers[CLOCK]
    numbers[CLOCK] = clock + 1.0
    for k in range(len(columns)):
        if q[k] == 0.0:
            continue
        j = columns[k]
        w = now(weights.w[j], weights.rest[j], weights.mark[j], clock)
        g = slope[k] + ridge[k] * w  # (1)
        G = weights.memory[j] / unit
        if G > 0.0 and abs(g) > REACH * math.sqrt(G):
            g = math.copysign(REACH * math.sqrt(G), g)
        size = math.sqrt(G + g * g)
        if size > 1e-150:
            weights.memory[j] += unit * g * g
            weights.w[j] = w - rate * q[k] * g / size  # (2)
            weights.rest[j] = rate * q[k] * ridge[k] / size
            weights.mark[j] = clock + 1.0


@jit
def _plain_step(
    part: Part,
    q: Floats,
    g: Floats,
    ridge: Floats,
    weights: Weights,
    scratch: Scratch,
    numbers: Floats,
    rate: float,
    rho: float,
) -> None:
    m, columns = float(len(part.order)), part.columns
    numbers[LONGEST] = max(numbers[LONGEST] * rho ** len(part.heads), longest(part, q))
    along = q * g
    length2 = (along * along).sum()
    if not length2 > 0.0:
        return
    ahead = product(part, q, along / math.sqrt(length2))
    steepest = (along * ahead).sum() / math.sqrt(length2)
    _power_step(part, q, ahead, weights.memory, scratch, numbers)
    a = rate / (max(numbers[KAPPA_1], steepest) + numbers[LONGEST] / m)
    numbers[STEP] = a
    clock = numbers[CLOCK]
    numbers[CLOCK] = clock + a
    for k in range(len(columns)):
        if q[k] > 0.0:
            j, rest = columns[k], q[k] * q[k] * ridge[k]
            w = now(weights.w[j], weights.rest[j], weights.mark[j], clock)
            weights.w[j] = w * math.exp(-a * rest) - a * q[k] * q[k] * g[k]  # (3)
            weights.rest[j], weights.mark[j] = rest, clock + a


@jit
def _power_step(
    part: Part, q: Floats, ahead: Floats, memory: Floats, scratch: Scratch, numbers: Floats
) -> None:
    """Move the power vector towards (X'LX/m) v; its length is k1. The first starts from `ahead`.

    It is kept over a common scale, so that what no row of the batch holds shrinks at no cost.
    """
    columns = part.columns
    if numbers[LENGTH2] > 0.0:
        v = np.empty(len(columns))
        for k in range(len(columns)):
            v[k] = memory[columns[k]] * (numbers[SCALE] / math.sqrt(numbers[LENGTH2]))
        move, share = product(part, q, v), max(1.0 / numbers[BATCHES], 1.0 / WINDOW)
    else:
        move, share = ahead, 1.0
        for _ in range(4):
            length = math.sqrt((move * move).sum())
            if length > 0.0:
                move = product(part, q, move / length)
    keep = 1.0 - share
    numbers[SCALE] *= keep
    if numbers[SCALE] < 1e-100:
        memory[:] *= numbers[SCALE]
        numbers[SCALE] = 1.0
        scratch.dirty[:] = 1
    numbers[LENGTH2] *= keep * keep
    for k in range(len(columns)):
        j = columns[k]
        before = memory[j] * numbers[SCALE]
        memory[j] += share * move[k] / numbers[SCALE]
        after = memory[j] * numbers[SCALE]
        numbers[LENGTH2] += after * after - before * before
    numbers[LENGTH2] = max(numbers[LENGTH2], 0.0)
    numbers[KAPPA_1] = math.sqrt(numbers[LENGTH2])
