"""streamrank: streaming learning to rank. The promised names; each is loaded when it is first asked for."""

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .config import Settings, load_settings
    from .learners.approxndcg import ApproxNDCG
    from .learners.base import Ranker
    from .learners.basis import GaussianBasis
    from .learners.egdm import EGDM
    from .learners.lambdarank import LambdaRank
    from .learners.latent import RoBiRankMF
    from .learners.listmle import ListMLE
    from .learners.listnet import ListNet
    from .learners.neuralndcg import NeuralNDCG
    from .learners.pdgd import PDGD
    from .learners.ranknet import RankNet
    from .learners.rankrls import RankRLS
    from .learners.regression import LinearRegressionRanker
    from .learners.robirank import RoBiRank
    from .learners.song import KSONG, SONG
    from .metrics.running import DCG, MAP, MRR, NDCG, HitAt, ListRMS, PairwiseError, PrecisionAt, RecallAt
    from .pipeline.flow import Flow
    from .serve.client import AsyncClient, Client
    from .serve.live import Live
    from .serve.local import Local
    from .state import open_store

__all__ = [
    "DCG",
    "EGDM",
    "KSONG",
    "MAP",
    "MRR",
    "NDCG",
    "PDGD",
    "SONG",
    "ApproxNDCG",
    "AsyncClient",
    "Client",
    "Flow",
    "GaussianBasis",
    "HitAt",
    "LambdaRank",
    "LinearRegressionRanker",
    "ListMLE",
    "ListNet",
    "ListRMS",
    "Live",
    "Local",
    "NeuralNDCG",
    "PairwiseError",
    "PrecisionAt",
    "RankNet",
    "RankRLS",
    "Ranker",
    "RecallAt",
    "RoBiRank",
    "RoBiRankMF",
    "Settings",
    "load_settings",
    "open_store",
]

# river's metrics and numba take a second to load: `streamrank --help` should not wait for them
_HOMES = {
    "config": ("Settings", "load_settings"),
    "learners.base": ("Ranker",),
    "learners.basis": ("GaussianBasis",),
    "learners.egdm": ("EGDM",),
    "learners.approxndcg": ("ApproxNDCG",),
    "learners.lambdarank": ("LambdaRank",),
    "learners.listmle": ("ListMLE",),
    "learners.listnet": ("ListNet",),
    "learners.neuralndcg": ("NeuralNDCG",),
    "learners.pdgd": ("PDGD",),
    "learners.latent": ("RoBiRankMF",),
    "learners.ranknet": ("RankNet",),
    "learners.rankrls": ("RankRLS",),
    "learners.regression": ("LinearRegressionRanker",),
    "learners.robirank": ("RoBiRank",),
    "learners.song": ("KSONG", "SONG"),
    "metrics.running": (
        "DCG", "MAP", "MRR", "NDCG", "HitAt", "ListRMS", "PairwiseError", "PrecisionAt", "RecallAt",
    ),
    "pipeline.flow": ("Flow",),
    "serve.client": ("AsyncClient", "Client"),
    "serve.live": ("Live",),
    "serve.local": ("Local",),
    "state": ("open_store",),
}  # fmt: skip


def __getattr__(name: str) -> Any:
    for module, names in _HOMES.items():
        if name in names:
            return getattr(importlib.import_module(f"streamrank.{module}"), name)
    raise AttributeError(f"streamrank has no {name!r}; it has {', '.join(__all__)}")
