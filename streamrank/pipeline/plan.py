"""A swap of several shards: defined once, carried out shard by shard, and completed if it died midway."""

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any, NamedTuple, cast

import msgspec
import numpy as np

from ..config import Settings
from ..features.batch import Floats
from ..state.base import Store
from ..state.values import StateValue, decode, encode
from .swap import At, Made, put_in

KEEP, REPLACE, REBASE = "keep", "replace", "rebase"


class Plan(NamedTuple):
    """What every shard is to serve; weights are on raw values, by each shard's own columns."""

    id: str
    kind: str  # replace or rebase
    exact: bool  # the optimum as it is; else as long as the weights that it replaces
    optimum: Mapping[str, Floats]
    snapshot: Mapping[str, Floats]  # the online weights when the optimum was sought
    report: str  # what the run that made it would have said, as JSON

    def target(self, shard: str, now: Floats) -> Made:
        """What to put into a shard that serves `now`."""
        optimum = self.optimum[shard]
        n = max(len(now), len(optimum))
        now, wide = sized(now, n), sized(optimum, n)
        target = wide if self.exact else as_long(wide, now)
        if self.kind == REBASE:
            target = target + now - sized(self.snapshot[shard], n)
        return Made(self.id, self.kind, target, optimum)


def carry_out(store: Store, plan: Plan, settings: Settings, model: str, at: At = lambda _: None) -> bool:
    """Put the plan into every shard, (5) to (8) of `put_in` for each; whether any was changed.

    Where there are several, the plan is stored with the first, in the same commit: whoever finds it
    (`unfinished`) can complete it. (9) it is taken out when all have it.
    """
    shards, swapped = sorted(plan.optimum), False
    several = len(shards) > 1
    for k, shard in enumerate(shards):
        writes = {_key(model): encode(cast(StateValue, list(plan)))} if several and k == 0 else {}
        make = partial(plan.target, shard)
        swapped = put_in(store, shard, settings, model, make, at=at, writes=writes) or swapped
    if several:
        at(9)
        put_in(store, shards[0], settings, model, lambda _: None, writes={_key(model): None})
    return swapped


def unfinished(store: Store, shards: Sequence[str], model: str) -> Plan | None:
    """A plan that was not carried out to its end."""
    stored = store.get(min(shards), _key(model)) if shards else None
    return None if stored is None else Plan(*cast(list[Any], decode(stored)))


def report_of(plan: Plan) -> dict[str, Any]:
    """What the run that made the plan would have said."""
    report: dict[str, Any] = msgspec.json.decode(plan.report)
    return report


def sized(w: Floats, n: int) -> Floats:
    """n weights: cut, or filled up with 0."""
    return np.concatenate([w, np.zeros(max(n - len(w), 0))])[:n]


def as_long(w: Floats, like: Floats) -> Floats:
    """w in the length of another; as it is where either has none."""
    norm, wanted = np.linalg.norm(w), np.linalg.norm(like)
    return w * (wanted / norm) if norm > 0 and wanted > 0 else w


def _key(model: str) -> str:
    return f"plan/{model}"
