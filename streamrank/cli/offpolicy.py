"""`streamrank evaluate --off-policy`."""

import argparse
from collections.abc import Mapping
from typing import Any

import msgspec

from ..config import ModelSettings, load_settings
from ..errors import ConfigError
from ..features.space import FeatureSpace
from ..learners.base import Ranker
from ..pipeline.offpolicy import SHOWN, compare
from ..serve.shards import load
from ..sources import open_source
from ..state.values import decode
from .output import existing_store, print_json, print_table, progress, say


def weigh_candidates(arguments: argparse.Namespace, params: Mapping[str, Any]) -> int:
    """What each candidate would have got from the users of a log."""
    if arguments.store and arguments.learner:
        raise ConfigError("--store compares models that have learnt, --learner one that learns: give either")
    settings, source = load_settings(arguments.config), open_source(arguments.off_policy)
    frozen: tuple[FeatureSpace, Mapping[str, Ranker]] | None = None
    seen = False
    if arguments.store:
        with existing_store(arguments.store) as store:
            served = load(store, settings, {})
            sources = [store.get(shard, "source") for shard in store.shards()]
        first = source.fingerprint()
        seen = any(decode(one) == first for one in sources if one is not None)
        frozen = (served.features, served.learners)
        # rows are those of the store; what clicks are worth may be judged otherwise than when it learnt
        judge = load_settings(
            arguments.config, base={"judge": msgspec.to_builtins(served.settings.judge)}
        ).judge
        settings = msgspec.structs.replace(served.settings, judge=judge)
    elif arguments.learner:
        model = ModelSettings(name=arguments.learner, learner=arguments.learner, params=dict(params))
        settings = msgspec.structs.replace(settings, models=[model])
    with progress(source, "evaluate") as update:
        result = compare(
            source.records(0),
            settings,
            frozen=frozen,
            by=arguments.by or (),
            clip=arguments.clip,
            watch=lambda events: update(f"{events} events"),
        )
    source.close()
    result["learnt_from_this_log"] = seen
    if arguments.json:
        print_json(result)
    else:
        _print(arguments, result)
    if seen:
        say("the store has learnt from this very log, so its models are flattered: take a later log")
    return 0


def _print(arguments: argparse.Namespace, result: Mapping[str, Any]) -> None:
    rows = [
        [
            name,
            *(_interval(found[kind]) for kind in ("ips", "clipped", "snips")),
            "" if name == SHOWN else _interval(found["lift"]),
            found["effective_clicks"],
        ]
        for name, found in result["candidates"].items()
    ]
    said = f"{result['lists']} rankings, {result['clicks']} clicks, theta from {result['theta_from']}"
    head = ["candidate", "reward a list (IPS)", f"clipped at {result['clip']:g}", "SNIPS", "lift over shown"]
    print_table(f"{', '.join(arguments.off_policy)}: {said}", [*head, "effective clicks"], rows)


def _interval(found: Mapping[str, float]) -> str:
    return f"{found['value']:.4f} [{found['low']:.4f}, {found['high']:.4f}]"
