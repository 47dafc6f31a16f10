"""GaussianBasis: features as nearness to typical documents, in front of any linear learner."""

import itertools
import math
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Self

import numpy as np
import river.base
from scipy.sparse import csr_matrix

from ..errors import ConfigError
from ..features.batch import Floats, Rows, sparse_rows
from ..features.columns import Vocabulary
from ..kernels.basis import gaussians, k_means

if TYPE_CHECKING:
    import pandas as pd

NAMES = 4096  # columns at most: centres are dense
LLOYD = 50


class GaussianBasis(river.base.MiniBatchTransformer):
    """Nearness to M typical documents: phi_0 = 1, phi_j = exp(-1/2 (x - mu_j)' Sigma^-1 (x - mu_j)).

    Sigma = scale diag(var), [1] (2). The first `freeze` documents are kept; then the centres are found among
    them by k-means++ and Lloyd, over columns of one spread each, and nothing moves any more: centres that do
    would poison the statistics of whoever learns from them. Until then phi is phi_0 alone. A column that was
    constant in those documents is left out, and so is a name that came later, or after the first 4096.

    As a ranker phi alone is no better than x. Beside x it is: keep=True, in front of EGDM or RankRLS.

    Parameters
    ----------
    M
        Centres, >= 1; fewer where the documents kept are fewer.
    scale
        How far a centre reaches, > 0, as a multiple of the variances; None is twice the number of columns,
        the squared distance that two documents have on average.
    freeze
        Documents kept before the centres are fixed.
    keep
        Pass x along beside phi.
    seed
        Of the k-means++ draws.

    Examples
    --------
    >>> basis = GaussianBasis(M=2, freeze=4)
    >>> for price in (1.0, 1.2, 9.0, 9.4):
    ...     basis.learn_one({"price": price, "tax": 7.0})
    >>> {name: round(value, 2) for name, value in basis.transform_one({"price": 9.2, "tax": 7.0}).items()}
    {'phi0': 1.0, 'phi1': 1.0, 'phi2': 0.37}

    References
    ----------
    [1] Learning to rank using linear regression (Shikhar), section 3.
    """

    def __init__(
        self,
        M: int = 10,
        scale: float | None = None,
        freeze: int = 1000,
        keep: bool = False,
        seed: int = 0,
    ) -> None:
        if isinstance(M, bool) or not isinstance(M, int) or M < 1:
            raise ConfigError(f"M is {M!r}: a whole number of centres, at least 1")
        if scale is not None and not 0 < scale < math.inf:
            raise ConfigError(f"scale is {scale!r}: a number above 0, or null for twice the columns")
        if isinstance(freeze, bool) or not isinstance(freeze, int) or freeze < 1:
            raise ConfigError(f"freeze is {freeze!r}: a whole number of documents, at least 1")
        if not isinstance(keep, bool):
            raise ConfigError(f"keep is {keep!r}: true or false")
        self.M, self.scale, self.freeze, self.keep, self.seed = M, scale, freeze, keep, seed
        self._columns = Vocabulary(limit=NAMES)
        self._kept: list[dict[int, float]] = []
        self._frozen = False
        self._place = np.zeros(0, dtype=np.int64)
        self._centres, self._inverse = np.zeros((0, 0)), np.zeros(0)
        self._derive()

    @property
    def frozen(self) -> bool:
        """Whether the centres are fixed."""
        return self._frozen

    # -- river's interface ---------------------------------------------------------------------------------

    def learn_one(self, x: Mapping[str, float]) -> None:  # type: ignore[override]
        """Keep a document while centres are not fixed; the last of them fixes them."""
        if not self._frozen:
            # sorted: names get their columns in an order of their own, not the dict's
            row = ((self._columns.add(name), float(x[name])) for name in sorted(x) if _is_number(x[name]))
            self._kept.append(dict(sorted(pair for pair in row if pair[0] >= 0)))
            if len(self._kept) >= self.freeze:
                X = np.zeros((len(self._kept), len(self._columns)))
                for r, kept in enumerate(self._kept):
                    X[r, list(kept)] = list(kept.values())
                self._fix(X)

    def transform_one(self, x: Mapping[str, float]) -> dict[str, float]:  # type: ignore[override]
        """phi of a document, named phi0, phi1, …; beside x with `keep`. Changes nothing."""
        phi = self._phi(sparse_rows([self._row(x)]))[0]
        named = {f"phi{j}": float(value) for j, value in enumerate(phi)}
        return {**x, **named} if self.keep else named

    def learn_many(self, X: "pd.DataFrame") -> None:
        """Keep each row of a frame, in order, while centres are not fixed."""
        for x in X.to_dict("records"):
            self.learn_one({str(name): value for name, value in x.items()})

    def transform_many(self, X: "pd.DataFrame") -> "pd.DataFrame":
        """phi of each row of a frame."""
        import pandas as pd  # optional, as in river: whoever passes a frame has it

        rows = [self._row({str(name): value for name, value in x.items()}) for x in X.to_dict("records")]
        phi = self._phi(sparse_rows(rows))
        frame = pd.DataFrame(phi, index=X.index, columns=[f"phi{j}" for j in range(phi.shape[1])])
        return pd.concat([X, frame], axis=1) if self.keep else frame

    # -- in batch ------------------------------------------------------------------------------------------

    def fit(self, X: Any) -> Self:
        """Find the centres among all rows of an array or scipy matrix; columns go by position."""
        matrix = csr_matrix(X, dtype=np.float64)
        if matrix.shape[1] > NAMES:
            raise ValueError(f"X has {matrix.shape[1]} columns: centres are dense, so at most {NAMES}")
        if not matrix.shape[0] or not np.isfinite(matrix.data).all():
            raise ValueError("X has no rows, or a value in it is not finite: leave those out")
        self._fix(matrix.toarray())
        return self

    def transform(self, X: Any) -> Floats:
        """phi of each row of an array or scipy matrix; with `keep` the columns of X come first."""
        matrix = csr_matrix(X, dtype=np.float64)
        borders = matrix.indptr.astype(np.int64)
        phi = self._phi(Rows(matrix.shape[0], matrix.indices.astype(np.int32), matrix.data, borders))
        return np.hstack([matrix.toarray(), phi]) if self.keep else phi

    # -- state ---------------------------------------------------------------------------------------------

    def to_state(self) -> dict[str, Any]:
        """Centres and spreads, or the documents kept so far; names. Copy arrays before changing them."""
        kept = sparse_rows(self._kept)
        return {
            "frozen": self._frozen,
            "place": self._place,
            "centres": self._centres,
            "inverse": self._inverse,
            "kept_indptr": kept.indptr,
            "kept_columns": kept.columns,
            "kept_values": kept.values,
            **self._columns.to_state(),
        }

    def from_state(self, state: Mapping[str, Any]) -> None:
        """Take up what `to_state` gave; the parameters are this one's own."""
        self._frozen, self._place = bool(state["frozen"]), np.array(state["place"])
        self._centres, self._inverse = np.array(state["centres"]), np.array(state["inverse"])
        self._derive()
        columns, values = state["kept_columns"].tolist(), state["kept_values"].tolist()
        borders = state["kept_indptr"].tolist()
        self._kept = [
            dict(zip(columns[a:b], values[a:b], strict=True)) for a, b in itertools.pairwise(borders)
        ]
        self._columns.from_state({key: state[key] for key in state if key.startswith("names#")})

    # -- below ---------------------------------------------------------------------------------------------

    def _row(self, x: Mapping[str, float]) -> dict[int, float]:
        pairs = ((self._columns.find(name), float(x[name])) for name in x if _is_number(x[name]))
        return dict(sorted(pair for pair in pairs if pair[0] >= 0))

    def _fix(self, X: Floats) -> None:
        with np.errstate(over="ignore", invalid="ignore"):
            mean, variance = X.mean(axis=0), X.var(axis=0)
            # the rest is rounding, or values beyond all sense
            used = np.flatnonzero((variance > 1e-12 * mean**2) & (variance < 1e200) & (variance > 1e-200))
        self._place = np.full(X.shape[1], -1, dtype=np.int64)
        self._place[used] = np.arange(len(used))
        spread = np.sqrt(variance[used])
        uniforms = np.random.default_rng(self.seed).random(self.M)
        found = k_means(
            np.ascontiguousarray(X[:, used] / spread), uniforms[: self.M if len(used) else 0], LLOYD
        )
        self._centres = found * spread
        self._inverse = 1.0 / ((2.0 * len(used) if self.scale is None else self.scale) * variance[used])
        self._kept, self._frozen = [], True
        self._derive()

    def _derive(self) -> None:
        self._from_zero = (self._centres**2 * self._inverse).sum(axis=1)

    def _phi(self, rows: Rows) -> Floats:
        out = np.empty((rows.n, 1 + len(self._centres)))
        basis = (self._place, self._centres, self._inverse, self._from_zero)
        gaussians(np.asarray(rows.indptr), rows.columns, rows.values, *basis, out)
        return out


def _is_number(value: Any) -> bool:
    # NaN is missing, as if its name were not there; so is a text that an encoder has left
    return isinstance(value, int | float) and math.isfinite(value)
