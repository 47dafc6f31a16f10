"""Traits that users or items have in common: factors of their own, learnt with those of who has them.

The score of item y for user x is b_y + <T_x, V_y> + c_y sum_(f of y) (b_f + <T_x, A_f>), and T_x holds
c_x sum_(g of x) A_g, with c = 1/sqrt(number of traits). So a trait stands for what its items, or users,
share, and speaks for one that nobody has clicked yet. With e_z the slope by the score of negative z,
    slope of A_f and b_f: p_f (T_x, 1),  p_f = sum_(z has f) c_z e_z - [y has f] c_y sum_z e_z          (1)
    slope of A_g: -c_x sum_z e_z (dscore_y - dscore_z)/dT_x                                             (2)
One step a trait and click, on the sum: what positives and negatives say of a trait largely cancels.
"""

import math
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from .factors import CLICKS, LAST, Factors, Ints, share_of
from .jit import pjit
from .splitmix import Floats

Bytes = npt.NDArray[np.uint8]

BLOCK_BITS = 12


class Step(NamedTuple):
    """How a click is learnt."""

    B: int
    loss: int
    rate: float
    keep: float  # share of a squared gradient that is left after a step
    ridge: float
    beta: float  # share of the newest sample in the moving average of (1)
    decay: float  # a, of W


@pjit
def learn_item_traits(
    factors: Factors,
    z: Ints,
    e: Floats,
    y: int,
    total: float,
    T: Floats,
    squared: float,
    how: Step,
    step: Floats,
    touched: Ints,
    dirty: Bytes,
) -> None:
    """(1) for all traits of z and y; `step`, the slope by T, gets their share. `squared` is |T|^2 + 1."""
    traits, of = factors.traits, factors.item_traits
    d, n = len(T), 0
    for k in range(len(z) + 1):
        row, slope = (z[k], e[k]) if k < len(z) else (y, -total)
        part = slope * share_of(of, row)
        for trait in of[row]:
            if trait >= 0:
                if traits[trait, d + 2] == 0.0:
                    touched[n] = trait
                    n += 1
                traits[trait, d + 2] += part
    for k in range(n):
        trait = touched[k]
        slope = traits[trait, d + 2]
        traits[trait, d + 2] = 0.0
        g = 1.0 + how.keep * (traits[trait, d + 1] - 1.0) + slope * slope * squared
        traits[trait, d + 1] = g
        eta = how.rate / math.sqrt(g)
        down, shrink = eta * slope, 1.0 - eta * how.ridge
        for j in range(d):
            step[j] -= slope * traits[trait, j]
            traits[trait, j] = shrink * traits[trait, j] - down * T[j]
        traits[trait, d] = shrink * traits[trait, d] - down
        dirty[trait >> BLOCK_BITS] = 1


@pjit
def learn_user_traits(
    factors: Factors, x: int, step: Floats, squared: float, how: Step, dirty: Bytes
) -> None:
    """(2) for all traits of user row x; `squared` is |step|^2."""
    traits, d = factors.traits, len(step)
    share = share_of(factors.user_traits, x)
    for trait in factors.user_traits[x]:
        if trait >= 0:
            g = 1.0 + how.keep * (traits[trait, d + 1] - 1.0) + share * share * squared
            traits[trait, d + 1] = g
            eta = how.rate / math.sqrt(g)
            for j in range(d):
                traits[trait, j] = (1.0 - eta * how.ridge) * traits[trait, j] + eta * share * step[j]
            dirty[trait >> BLOCK_BITS] = 1


@pjit
def mark_traits(of: Ints, marks: Ints, number: int, dirty: Bytes) -> None:
    """These traits were clicked by click `number`."""
    for trait in of:
        if trait >= 0:
            marks[trait, LAST] = number
            marks[trait, CLICKS] += 1
            dirty[trait >> BLOCK_BITS] = 1
