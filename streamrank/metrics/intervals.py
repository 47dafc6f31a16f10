"""Confidence intervals."""

import math

Z = 1.959963984540054  # of the normal distribution: 95 % lie within so many deviations


def wilson(wins: int, n: int) -> tuple[float, float]:
    """Wilson's 95 % interval of a share, wins of n: where a test of the share would not refuse it.

    It keeps within 0 and 1, and its coverage where n is small or the share extreme.

    >>> [round(bound, 3) for bound in wilson(60, 100)]
    [0.502, 0.691]
    >>> wilson(0, 0)
    (0.0, 1.0)
    """
    if n == 0:
        return 0.0, 1.0
    share, z = wins / n, Z * Z / n
    middle = (share + z / 2) / (1 + z)
    half = math.sqrt(z * share * (1 - share) + z * z / 4) / (1 + z)
    return max(0.0, middle - half), min(1.0, middle + half)
