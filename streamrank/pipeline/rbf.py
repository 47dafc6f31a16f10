"""Judged lists through a Gaussian basis, for a learner behind it."""

import inspect
from collections.abc import Mapping
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
from scipy.sparse import csr_matrix

from ..errors import ConfigError
from ..learners.basis import GaussianBasis
from ..sources.dataset import Dataset

RBF = "rbf"
# what `rbf` calls its parameters -> what GaussianBasis does; all others are the learner's behind it
BASIS = {"centres": "M", "scale": "scale", "freeze": "freeze", "keep": "keep", "seed": "seed"}


class Front(NamedTuple):
    """The sets as the basis shows them, its parameters, and those that are left for the learner."""

    train: Dataset
    test: Dataset
    valid: Dataset | None
    chosen: dict[str, Any]
    params: dict[str, Any]


def in_front(
    train: Dataset, test: Dataset, valid: Dataset | None, params: Mapping[str, Any], seed: int = 0
) -> Front:
    """Find the centres among the first documents of `train`, as a stream would; show all sets through them.

    Then every document is learnt with the centres in place, also those that they were found among.
    """
    given = {name: value for name, value in params.items() if name in BASIS}
    chosen = {name: _default(name) for name in BASIS} | {"seed": seed} | given
    try:
        basis = GaussianBasis(**{BASIS[name]: value for name, value in chosen.items()})
    except TypeError as error:
        raise ConfigError(f"rbf cannot take {given}: {error}") from None
    n_columns = max(data.shape[1] for data in (train, test, valid or test))
    try:
        basis.fit(_matrix(train, n_columns)[: basis.freeze])
    except ValueError as error:
        raise ConfigError(f"rbf cannot find centres in this: {error}") from None

    def shown(data: Dataset) -> Dataset:
        phi = csr_matrix(basis.transform(_matrix(data, n_columns)))
        names = data.names + [f"column {j}" for j in range(data.shape[1], n_columns)] if basis.keep else []
        return replace(
            data,
            indptr=phi.indptr.astype(np.int64),
            indices=phi.indices.astype(np.int32),
            data=phi.data,
            names=[*names, *(f"phi{j}" for j in range(phi.shape[1] - len(names)))],
        )

    left = {name: value for name, value in params.items() if name not in BASIS}
    return Front(shown(train), shown(test), None if valid is None else shown(valid), chosen, left)


def _default(name: str) -> Any:
    return inspect.signature(GaussianBasis.__init__).parameters[BASIS[name]].default


def _matrix(data: Dataset, n_columns: int) -> csr_matrix:
    return csr_matrix((data.data, data.indices, data.indptr), shape=(len(data.y), n_columns))
