"""What is served: the learnt state of all shards of a store, merged."""

import hashlib
from collections import Counter
from collections.abc import Mapping
from typing import Any, NamedTuple, cast

import msgspec

from ..config import Settings
from ..features.space import FeatureSpace
from ..learners.base import Ranker
from ..learners.latent import RoBiRankMF
from ..pipeline.champion import credit_since, latest, reign_of
from ..pipeline.flow import Flow
from ..pipeline.memory import restore
from ..preferences.contest import Credit
from ..preferences.judge import Judge
from ..state.base import Standing, Store
from ..state.values import decode

# what ranking needs; open rankings and seen ids, the largest part of a shard, stay where they are
PREFIXES = ("config", "counts", "clock", "features/", "judge/", "contest/", "champion", "model/", "quality/")


class Shard(NamedTuple):
    """A shard as it was read."""

    entries: Mapping[str, bytes]
    standing: Standing
    flow: Flow


class Served(NamedTuple):
    """What answers requests; never changed, only replaced."""

    version: str
    settings: Settings
    features: FeatureSpace
    learners: Mapping[str, Ranker]
    recommenders: Mapping[str, RoBiRankMF]
    learnt: bool  # whether any list was
    judge: Judge  # knows how likely each rank is looked at
    champion: str
    shards: Mapping[str, Shard]

    @property
    def counts(self) -> Counter[str]:
        """Events by kind and fate, of all shards."""
        return sum((shard.flow.counts for shard in self.shards.values()), Counter())

    def credit(self, one: str, other: str) -> Credit:
        """How a model did against another on lists they shared since the champion reigns, in all shards."""
        credit = Credit()
        for shard in self.shards.values():
            credit = credit.plus(credit_since(shard.flow.contests, reign_of(shard.entries), one, other))
        return credit


def load(store: Store, settings: Settings, before: Mapping[str, Shard]) -> Served:
    """Read every shard that changed since `before`, and merge.

    The settings of learning are those of the shard that learnt most; shards learnt under others are shown,
    and left out of what ranks.
    """
    shards = {name: _read(store, name, settings, before.get(name)) for name in store.shards()}
    # the one that learnt most gives names their columns, so that a full vocabulary loses the least
    order = sorted(shards, key=lambda name: (-shards[name].flow.counts["judged"], name))
    if order:
        settings = shards[order[0]].flow.settings
    alike = [shards[name].flow for name in order if shards[name].flow.settings == settings]
    merged = _merged(settings, alike)
    standings = ",".join(
        f"{name}@{s.standing.epoch}.{s.standing.offset}" for name, s in sorted(shards.items())
    )
    names = [model.name for model in settings.models]
    champion = [*names[:1], *latest([reign_of(shard.entries) for shard in shards.values()]).names][-1]
    total = sum(shard.standing.offset for shard in shards.values())
    return Served(
        version=f"{total}-{hashlib.blake2b(standings.encode(), digest_size=4).hexdigest()}",
        settings=settings,
        features=merged.features,
        learners={model.name: model.learner for model in merged.models},
        recommenders={one.name: one.learner for one in merged.recommenders},
        learnt=any(flow.counts["judged"] for flow in alike),
        judge=merged.judge,
        champion=champion if champion in names else names[0],
        shards=shards,
    )


def _read(store: Store, name: str, settings: Settings, before: Shard | None) -> Shard:
    standing = store.standing(name)
    if before is not None and before.standing == standing:
        return before
    entries, offset = store.read(name, PREFIXES)
    if "config" in entries:
        learnt_under = cast(dict[str, Any], decode(entries["config"]))
        settings = msgspec.convert({**msgspec.to_builtins(settings), **learnt_under}, Settings)
    flow = Flow(settings)
    # items are most of what there is to read, and seldom change
    same = before is not None and before.flow.settings == settings
    same = same and _features(entries) == _features(cast(Shard, before).entries)
    restore(
        flow, {key: entries[key] for key in entries if not (same and key.startswith("features/"))}, offset
    )
    if same and before is not None:
        flow.features = before.flow.features
    return Shard(entries, msgspec.structs.replace(standing, offset=offset), flow)


def _features(entries: Mapping[str, bytes]) -> dict[str, bytes]:
    return {key: entries[key] for key in entries if key.startswith("features/") and key != "features/dropped"}


def _merged(settings: Settings, flows: list[Flow]) -> Flow:
    if len(flows) == 1:
        return flows[0]
    merged = Flow(settings)
    for flow in flows:
        columns = merged.features.merge(flow.features)
        merged.judge.merge(flow.judge)
        for mine, theirs in zip(merged.models, flow.models, strict=True):
            mine.learner.merge(theirs.learner, columns)
        for one, other in zip(merged.recommenders, flow.recommenders, strict=True):
            one.learner.merge(other.learner)
    return merged
