"""Which row of a list beats which, and with what weight: one place, so that every loss agrees."""

import numpy as np
import numpy.typing as npt

from ..jit import jit

Floats = npt.NDArray[np.float64]
Columns = npt.NDArray[np.int32]


@jit
def preference(mode: int, y_i: float, c_i: float, y_j: float, c_j: float) -> float:
    """The weight with which row i beats row j, 0 where it does not.

    >>> preference(0, 2.0, 3.0, 1.0, 1.0), preference(0, 1.0, 3.0, 1.0, 1.0)  # by label
    (3.0, 0.0)
    >>> preference(1, 1.0, 3.0, 1.0, 1.0)  # every other: a click beats all that was shown beside it
    3.0
    """
    if mode == 1:
        return c_i if y_i > 0.0 else 0.0
    if mode == 3:
        return 1.0 if y_i * c_i > y_j * c_j else 0.0
    return c_i if y_i > y_j else 0.0


@jit
def has_preference(y: Floats, c: Floats, mode: int, pair_c: Floats) -> bool:
    """Whether any row of the list beats another: what `preference` says over all pairs, in one walk.

    >>> one = np.ones(3)
    >>> has_preference(np.array([0.0, 2.0, 0.0]), one, 0, one[:0]), has_preference(one, one, 0, one[:0])
    (True, False)
    """
    if mode == 2:
        return bool((pair_c > 0.0).any())
    lowest = np.inf
    for i in range(len(y)):
        lowest = min(lowest, y[i] * c[i] if mode == 3 else y[i])
    for i in range(len(y)):
        if mode == 1:
            found = len(y) > 1 and y[i] > 0.0 and c[i] > 0.0
        elif mode == 3:
            found = y[i] * c[i] > lowest
        else:
            found = y[i] > lowest and c[i] > 0.0
        if found:
            return True
    return False
