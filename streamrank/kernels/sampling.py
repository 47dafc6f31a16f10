"""Orders drawn at random, as functions of a seed."""

import math

import numpy as np
import numpy.typing as npt

from .jit import jit
from .splitmix import Words, draw

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]
WORD = (1 << 64) - 1


@jit
def gumbels(generator: Words, out: Floats) -> None:
    """Fill with standard Gumbel noise, -log(-log u) of uniform u; `generator` moves on.

    >>> noise = np.empty(20_000)
    >>> gumbels(np.array([7], np.uint64), noise)
    >>> bool(abs(noise.mean() - np.euler_gamma) < 0.03), bool(abs(noise.var() - np.pi**2 / 6) < 0.05)
    (True, True)
    """
    for i in range(len(out)):
        uniform = (np.float64(draw(generator) >> np.uint64(11)) + 0.5) * 2.0**-53  # never 0 nor 1
        out[i] = -math.log(-math.log(uniform))


def plackett_luce(scores: Floats, seed: int) -> Ints:
    """An order of the rows: the next is each of those left with a chance in proportion to exp(score).

    Sorting scores plus Gumbel noise draws it. A function of its arguments: the same seed is the same order,
    and the orders of different seeds (1, 2, 3, …) are independent.

    >>> plackett_luce(np.array([0.0, 25.0, 50.0]), seed=3)
    array([2, 1, 0])
    >>> int(sum(plackett_luce(np.log([9.0, 1.0]), seed)[0] == 0 for seed in range(1000)))  # 9 times in 10
    901
    """
    noise = np.empty(len(scores))
    gumbels(np.array([seed & WORD], np.uint64), noise)
    return np.argsort(-(scores + noise), kind="stable")
