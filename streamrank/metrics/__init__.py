"""How good a ranking is: of one list (`functions`), over a stream (`running`), and over time (`history`)."""

from streamrank.metrics.functions import (
    average_precision,
    dcg,
    hit_at,
    list_metrics,
    ndcg,
    pairwise_error,
    precision_at,
    ranked,
    recall_at,
    reciprocal_rank,
    rms,
)
from streamrank.metrics.history import History
from streamrank.metrics.running import (
    DCG,
    MAP,
    MRR,
    NDCG,
    HitAt,
    ListRMS,
    PairwiseError,
    PrecisionAt,
    RankingMetric,
    RecallAt,
)

__all__ = [
    "DCG",
    "MAP",
    "MRR",
    "NDCG",
    "History",
    "HitAt",
    "ListRMS",
    "PairwiseError",
    "PrecisionAt",
    "RankingMetric",
    "RecallAt",
    "average_precision",
    "dcg",
    "hit_at",
    "list_metrics",
    "ndcg",
    "pairwise_error",
    "precision_at",
    "ranked",
    "recall_at",
    "reciprocal_rank",
    "rms",
]
