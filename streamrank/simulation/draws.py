"""Random draws that are the same on every machine.

A PCG64 stream is the same bits everywhere, but sums and exponentials may differ in the last bit between
processors; so what is derived from them is rounded (`settled`) before anything is decided by it.
"""

from bisect import bisect_right
from typing import Any

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]


def generator(*key: int) -> np.random.Generator:
    """Return a generator of its own for each key: (seed, 2) shares nothing with (seed, 1)."""
    return np.random.Generator(np.random.PCG64(np.random.SeedSequence(key)))


def settled(values: npt.NDArray[Any], decimals: int = 6) -> Floats:
    """Round away what processors disagree on; adding zero turns -0.0 into 0.0."""
    return (np.round(values, decimals) + 0.0).astype(np.float64)


class Zipf:
    """Draw 0..n-1, where k comes with probability proportional to 1/(k+1).

    >>> rng = generator(1)
    >>> [Zipf(3).draw(rng) for _ in range(8)]
    [0, 2, 0, 2, 0, 0, 2, 0]
    """

    def __init__(self, n: int) -> None:
        self._edges: list[float] = np.cumsum(1.0 / np.arange(1, n + 1)).tolist()

    def draw(self, rng: np.random.Generator) -> int:
        """One draw."""
        # the last edge is left out: what rounding pushes past it still belongs to the last number
        return bisect_right(self._edges, rng.random() * self._edges[-1], hi=len(self._edges) - 1)
