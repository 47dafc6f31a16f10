"""What a batch learner is given, as rows grouped by query."""

from typing import Any, NamedTuple

import numpy as np
from scipy.sparse import csr_matrix

from ..features.batch import Floats, Ints


class Judged(NamedTuple):
    """Rows and labels as given; taken in ``order`` (None: as they are), list q is ``lists[q]:lists[q+1]``."""

    X: Any
    y: Floats
    lists: Ints
    order: Ints | None

    def ordered(self, values: Floats) -> Floats:
        """One value a row, grouped by query."""
        return values if self.order is None else values[self.order]

    def ordered_rows(self) -> Any:
        """X grouped by query; a copy only where ids do not come in runs."""
        if self.order is None:
            return self.X
        if hasattr(self.X, "tocsr"):
            return self.X.tocsr()[self.order]
        if hasattr(self.X, "indptr"):
            return csr_matrix((self.X.data, self.X.indices, self.X.indptr), shape=self.X.shape)[self.order]
        return np.asarray(self.X)[self.order]


def judged(X: Any, y: Any = None, queries: Any = None) -> Judged:
    """Check rows, labels and query ids, and group them.

    >>> judged(np.eye(4), [1.0, 0.0, 2.0, 0.0], ["b", "a", "b", "a"])[2:]
    (array([0, 2, 4]), array([1, 3, 0, 2]))
    """
    if y is None:
        if not hasattr(X, "lists"):
            raise ValueError("y is missing: only a Dataset brings its own labels")
        return Judged(X, np.asarray(X.y, np.float64), X.lists, None)
    y = np.asarray(y, np.float64)
    m = X.shape[0] if hasattr(X, "shape") else len(X)
    if y.shape != (m,):
        raise ValueError(f"y has shape {y.shape} for {m} rows: give one label for each row")
    if not m:
        raise ValueError("X has no rows")
    if not np.isfinite(y).all():
        raise ValueError(f"y[{int(np.argmin(np.isfinite(y)))}] is not finite: leave unjudged rows out")
    if queries is None:
        return Judged(X, y, np.array([0, m]), None)
    ids = np.asarray(queries)
    if ids.shape != (m,):
        raise ValueError(f"queries has shape {ids.shape} for {m} rows: give one id for each row")
    order = None
    borders = np.flatnonzero(ids[1:] != ids[:-1]) + 1
    _, place = np.unique(ids, return_inverse=True)
    if len(borders) + 1 > place.max() + 1:  # some id comes back after another one
        order = np.argsort(place, kind="stable")
        borders = np.flatnonzero(np.diff(place[order])) + 1
    return Judged(X, y, np.concatenate([[0], borders, [m]]), order)
