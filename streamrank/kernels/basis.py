"""Gaussian radial basis functions, and the k-means that finds where they stand."""

import math

import numpy as np
import numpy.typing as npt

from .jit import jit

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]
Columns = npt.NDArray[np.int32]


@jit
def gaussians(
    indptr: Ints,
    indices: Columns,
    values: Floats,
    place: Ints,
    centres: Floats,
    inverse: Floats,
    from_zero: Floats,
    out: Floats,
) -> None:
    """phi of each row: 1, then exp(-1/2 sum_i inverse_i (x_i - mu_ji)^2) for each centre j.

    ``place[column]`` is the i of a column, -1 where it counts nothing. A column that is not stored is 0:
    beginning with the sums at x = 0, `from_zero`, a row costs its values times the centres.
    """
    n_centres = len(centres)
    distance = np.empty(n_centres)
    for r in range(len(indptr) - 1):
        distance[:] = from_zero
        for k in range(indptr[r], indptr[r + 1]):
            i = place[indices[k]] if indices[k] < len(place) else -1
            if i >= 0:
                x = values[k]
                for j in range(n_centres):
                    distance[j] += inverse[i] * x * (x - 2.0 * centres[j, i])
        out[r, 0] = 1.0
        for j in range(n_centres):
            out[r, 1 + j] = math.exp(-0.5 * max(distance[j], 0.0)) if distance[j] < math.inf else 0.0


@jit
def k_means(X: Floats, uniforms: Floats, n_iter: int) -> Floats:
    """Centres of the rows of X: k-means++, then Lloyd's iteration until nothing moves, or `n_iter` times.

    One centre for each of `uniforms`, which are random numbers in [0, 1): the first is a row drawn from all,
    each next one a row drawn with the square of its distance to the nearest so far for weight. Fewer where
    rows are fewer than that, equal ones counted once. A centre that loses all its rows stays where it is.

    >>> X = np.array([[0.0], [0.2], [5.0], [5.2], [5.1]])
    >>> k_means(X, np.array([0.1, 0.5]), 10)
    array([[0.1],
           [5.1]])
    """
    m, n = X.shape
    centres = np.empty((len(uniforms), n))
    nearest, distance = np.zeros(m, dtype=np.int64), np.full(m, np.inf)
    n_centres = 0
    for j in range(len(uniforms)):
        if j == 0:
            chosen = min(int(uniforms[0] * m), m - 1)
        else:
            total = distance.sum()
            if not total > 0.0:
                break
            below, left = -1, uniforms[j] * total
            for r in range(m):
                if distance[r] > 0.0:
                    below = r
                    left -= distance[r]
                    if left < 0.0:
                        break
            chosen = below
        centres[j] = X[chosen]
        n_centres += 1
        _assign(X, centres[: j + 1], j, nearest, distance)
    centres = centres[:n_centres].copy()
    for _ in range(n_iter):
        counts, sums = np.zeros(n_centres), np.zeros((n_centres, n))
        for r in range(m):
            counts[nearest[r]] += 1.0
            for i in range(n):
                sums[nearest[r], i] += X[r, i]
        for j in range(n_centres):
            if counts[j] > 0.0:
                for i in range(n):
                    centres[j, i] = sums[j, i] / counts[j]
        before = nearest.copy()
        distance[:] = np.inf
        for j in range(n_centres):
            _assign(X, centres, j, nearest, distance)
        if (before == nearest).all():
            break
    return centres


@jit
def _assign(X: Floats, centres: Floats, j: int, nearest: Ints, distance: Floats) -> None:
    """Give centre j the rows that it is nearest to."""
    for r in range(len(X)):
        d = 0.0
        for i in range(X.shape[1]):
            d += (X[r, i] - centres[j, i]) ** 2
        if d < distance[r]:
            nearest[r], distance[r] = j, d
