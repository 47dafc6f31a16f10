"""Draws by splitmix64: one word of state, the same numbers on every machine."""

import math
from typing import Any

import numpy as np
import numpy.typing as npt

from .jit import pjit

Floats = npt.NDArray[np.float64]
Words = npt.NDArray[np.uint64]


@pjit
def mixed(z: Any) -> Any:
    """Splitmix64's finaliser: every bit of the word changes half of those of the result."""
    z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return z ^ (z >> np.uint64(31))


@pjit
def draw(generator: Words) -> Any:
    """The next word of splitmix64; `generator` holds its state.

    >>> generator = np.zeros(1, np.uint64)
    >>> hex(draw(generator)), hex(draw(generator))
    ('0xe220a8397b1dcdaf', '0x6e789e6aa1b965f4')
    """
    generator[0] += np.uint64(0x9E3779B97F4A7C15)
    return mixed(generator[0])


@pjit
def below(generator: Words, n: int) -> int:
    """A number from 0 to n - 1: the high 32 bits by a product, no division, even to 1 in 2^32 / n."""
    return np.int64(((draw(generator) >> np.uint64(32)) * np.uint64(n)) >> np.uint64(32))  # type: ignore[return-value]


@pjit
def fill_noise(row: Floats, word: int, spread: float) -> None:
    """Uniform values of mean 0 and standard deviation `spread` that `word` decides.

    >>> row = np.empty(1000)
    >>> fill_noise(row, 7, 0.1)
    >>> print(abs(row.mean()) < 0.01, row.std().round(2))
    True 0.1
    """
    generator = np.empty(1, np.uint64)
    generator[0] = np.uint64(word)
    for j in range(len(row)):
        row[j] = spread * math.sqrt(12.0) * ((draw(generator) >> np.uint64(11)) / 2.0**53 - 0.5)
