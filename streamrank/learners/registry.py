"""Learners by the name a config gives them."""

import inspect
from collections.abc import Mapping
from typing import Any

from ..errors import ConfigError
from .approxndcg import ApproxNDCG
from .base import Ranker
from .egdm import EGDM
from .lambdarank import LambdaRank
from .listmle import ListMLE
from .listnet import ListNet
from .neuralndcg import NeuralNDCG
from .ranknet import RankNet
from .regression import LinearRegressionRanker

LEARNERS: dict[str, type[Ranker]] = {
    "approxndcg": ApproxNDCG,
    "egdm": EGDM,
    "lambdarank": LambdaRank,
    "listmle": ListMLE,
    "listnet": ListNet,
    "neuralndcg": NeuralNDCG,
    "ranknet": RankNet,
    "regression": LinearRegressionRanker,
}


def build(name: str, params: Mapping[str, Any]) -> Ranker:
    """A learner with its parameters, or `ConfigError` that says which there are.

    >>> build("ranknet", {"rate": 0.05}).rate
    0.05
    """
    if name not in LEARNERS:
        raise ConfigError(f"there is no learner {name!r}; choose one of: {', '.join(sorted(LEARNERS))}")
    known = inspect.signature(LEARNERS[name].__init__).parameters
    for param in params:
        if param not in known:
            names = ", ".join(key for key in known if key != "self")
            raise ConfigError(f"{name} has no parameter {param!r}; it has: {names}")
    try:
        return LEARNERS[name](**params)
    except TypeError as error:
        raise ConfigError(f"{name} cannot take {dict(params)}: {error}") from None
