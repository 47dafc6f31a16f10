"""Learners by the name a config gives them."""

import inspect
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from ..errors import ConfigError
from .approxndcg import ApproxNDCG
from .base import Ranker
from .egdm import EGDM
from .lambdarank import LambdaRank
from .latent import RoBiRankMF
from .listmle import ListMLE
from .listnet import ListNet
from .neuralndcg import NeuralNDCG
from .pdgd import PDGD
from .ranknet import RankNet
from .regression import LinearRegressionRanker
from .robirank import RoBiRank
from .song import KSONG, SONG

LEARNERS: dict[str, type[Ranker]] = {
    "approxndcg": ApproxNDCG,
    "egdm": EGDM,
    "ksong": KSONG,
    "lambdarank": LambdaRank,
    "listmle": ListMLE,
    "listnet": ListNet,
    "neuralndcg": NeuralNDCG,
    "pdgd": PDGD,
    "ranknet": RankNet,
    "regression": LinearRegressionRanker,
    "robirank": RoBiRank,
    "song": SONG,
}


def parameters(learner: type[Any]) -> list[str]:
    """What a learner is made with.

    >>> parameters(LEARNERS["regression"])[:2]
    ['solver', 'lam']
    """
    return [name for name in inspect.signature(learner.__init__).parameters if name != "self"]


def refuse_unknown(name: str, params: Iterable[str], known: Sequence[str]) -> None:
    """`ConfigError` for the first parameter that the learner `name` does not have."""
    for param in params:
        if param not in known:
            raise ConfigError(f"{name} has no parameter {param!r}; it has: {', '.join(known)}")


def build(name: str, params: Mapping[str, Any]) -> Ranker:
    """A learner with its parameters, or `ConfigError` that says which there are.

    >>> build("ranknet", {"rate": 0.05}).rate
    0.05
    """
    if name not in LEARNERS:
        raise ConfigError(f"there is no learner {name!r}; choose one of: {', '.join(sorted(LEARNERS))}")
    refuse_unknown(name, params, parameters(LEARNERS[name]))
    try:
        return LEARNERS[name](**params)
    except TypeError as error:
        raise ConfigError(f"{name} cannot take {dict(params)}: {error}") from None


RECOMMENDERS = {"robirank-mf": "robirank", "bpr": "bpr"}  # and the loss of each


def build_recommender(name: str, params: Mapping[str, Any]) -> RoBiRankMF:
    """A learner of who clicked what with its parameters, or `ConfigError` that says which there are.

    >>> build_recommender("bpr", {"d": 8}).loss
    'bpr'
    """
    if name not in RECOMMENDERS:
        choice = ", ".join(sorted(RECOMMENDERS))
        raise ConfigError(f"there is no learner {name!r} of interactions; choose one of: {choice}")
    refuse_unknown(name, params, parameters(RoBiRankMF))
    return RoBiRankMF(**{"loss": RECOMMENDERS[name], **params})
