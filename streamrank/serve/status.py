"""What the page and the metrics show, as of one moment."""

import time
from typing import Any

import numpy as np

from ..errors import ConfigError
from ..learners.egdm import EGDM
from .comparison import comparison
from .latency import Latencies
from .live import Live
from .shards import Served, Shard

FATES = ("events", "judged", "rejected", "duplicates", "late")


def learnt(live: Live, latencies: Latencies) -> dict[str, Any]:
    """The models and the shards they were merged from; numbers that are not known are left out or null."""
    served = live.served
    models: dict[str, dict[str, Any]] = {}
    for name in live.models:
        models[name] = {"learner": "", "quality": {}, **latencies.quantiles(name)}
        if served:
            learner = served.learners[name]
            models[name]["learner"] = type(learner).__name__
            models[name]["quality"] = _quality(list(served.shards.values()), name)
            if isinstance(learner, EGDM):
                models[name]["spectrum"] = dict(learner.spectrum()._asdict())
    return {
        "time": time.time(),
        "version": served.version if served else "none",
        "degraded": live.failure or (not served or not served.learnt),
        "model_age_s": time.time() - live.loaded_at,
        "events": dict(served.counts) if served else {},
        "models": models,
        "champion": served.champion if served else live.models[0],
        "comparison": comparison(served, live.settings.serve.challenger),
        "shards": {
            name: {
                "offset": shard.standing.offset,
                "epoch": shard.standing.epoch,
                **{fate: shard.flow.counts[fate] for fate in FATES},
            }
            for name, shard in (served.shards.items() if served else ())
        },
    }


def trained(served: Served | None, model: str, result: dict[str, Any]) -> dict[str, Any]:
    """A report of `reconcile` in the shape of Metarank's answer to /train, and beside that as it is.

    A step's `testMetric` is the share of pairs in order on the validation lists, under the best lambda.
    """
    features: list[dict[str, Any]] = []
    size = 0
    if served and model in served.learners:
        try:
            w = served.learners[model].served_weights()
            names = [served.features.columns.name(int(j)) for j in np.flatnonzero(w)]
            features = [
                {"name": n, "weight": float(v)} for n, v in zip(names, w[np.flatnonzero(w)], strict=True)
            ]
        except ConfigError:  # it has not one weight a feature
            features = []
        prefix = f"model/{model}/"
        size = sum(
            len(entry)
            for shard in served.shards.values()
            for key, entry in shard.entries.items()
            if key.startswith(prefix)
        )
    known = [[error for error in row if error is not None] for row in result["validation"]["errors"]]
    steps = [min(row) for row in known if row]
    millis = round(1000 * result["seconds"] / max(len(steps), 1))
    iterations = [{"id": k, "millis": millis, "testMetric": 1.0 - error} for k, error in enumerate(steps)]
    shape = {"features": features, "iterations": iterations, "sizeBytes": size}
    return result | {"steps": result["iterations"]} | shape


def _quality(shards: list[Shard], model: str) -> dict[str, float]:
    """Of the last lists of each shard, weighted by how many it judged; without the names that have none."""
    sums: dict[str, float] = {}
    weights: dict[str, float] = {}
    for shard in shards:
        for one in shard.flow.models:
            if one.name == model:
                for name, value in one.history.recent(8).items():
                    if value == value:
                        n = shard.flow.counts["judged"]
                        sums[name] = sums.get(name, 0.0) + n * value
                        weights[name] = weights.get(name, 0.0) + n
    return {name: sums[name] / weights[name] for name in sums if weights[name]}
