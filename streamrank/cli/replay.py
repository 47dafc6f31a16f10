"""`streamrank replay`."""

import argparse
from typing import Any

import msgspec

from ..config import load_settings
from ..errors import ConfigError
from ..pipeline.checkpoint import Checkpoint
from ..pipeline.flow import Flow
from ..pipeline.memory import check_last
from ..pipeline.model import METRICS
from ..pipeline.replay import replay as run
from ..pipeline.replay import summary
from ..sources import open_source
from ..state import open_store
from ..state.urls import shown
from .output import check_writable, print_json, print_table, progress, say, settings_of

SHARD = "0"


def replay(arguments: argparse.Namespace) -> int:
    """Learn from the logs, going on where the store stands."""
    if bool(arguments.logs) == bool(arguments.kafka):
        raise ConfigError("say what to replay: LOG files, or --kafka HOST:PORT with --topic")
    if arguments.kafka:
        from .topics import replay_topic  # the extra `kafka`

        return replay_topic(arguments)
    if arguments.report:
        check_writable(arguments.report, "report")
    source = open_source(arguments.logs)
    given = load_settings(arguments.config)
    url = arguments.store or given.store
    with open_store(url, given) as store:
        settings = settings_of(store, SHARD, arguments.config)
        if arguments.commit_every:
            settings = msgspec.structs.replace(settings, commit_every=arguments.commit_every)
        first = source.fingerprint()
        checkpoint = Checkpoint(
            store, Flow(settings), shard=SHARD, source=first, adopt_config=arguments.adopt_config
        )
        flow = checkpoint.flow
        before = flow.counts["events"]
        records = source.records(max(flow.offset - 1, 0))
        if flow.offset:
            check_last(flow, next(records, None))
        with progress(source, "replay") as update:
            ticks = 0

            def watch() -> None:
                nonlocal ticks
                ticks += 1
                if ticks % 500 == 0:
                    quality = flow.models[0].history.recent(8)["ndcg@10"]
                    update(f"{flow.counts['events']} events, ndcg@10 {quality:.3f}")

            try:
                seconds = run(records, checkpoint, until=arguments.until, watch=watch)
            except KeyboardInterrupt:
                say(f"stopped after {flow.counts['events']} events, all committed; run it again to go on")
                raise
        source.close()
        result = summary(flow, store)
        taken = flow.counts["events"] - before
        result |= {"seconds": seconds, "events_per_second": taken / seconds if taken else 0.0}
        if arguments.report:
            from ..pipeline.report import write_report  # plotly takes half a second to load

            result["report"] = arguments.report
            write_report(arguments.report, "replay", flow, result)
    if arguments.json:
        print_json(result)
    else:
        plain = [(name, value) for name, value in result.items() if name not in ("models", "recommenders")]
        print_table("replay", ["", ""], plain)
        rows = [(name, *(quality[m] for m in METRICS)) for name, quality in result["models"].items()]
        print_table("\nmodels, each list scored before it is learnt", ["model", *METRICS], rows)
        if result["recommenders"]:
            rows = [(name, *quality.values()) for name, quality in result["recommenders"].items()]
            names = flow.recommenders[0].history.names
            print_table(
                "\nrecommenders, each click ranked before it is learnt", ["recommender", *names], rows
            )
    _remark(result, shown(url))
    return 0


def _remark(result: dict[str, Any], store: str) -> None:
    """What a reader of the figures should not overlook."""
    if result["rejected"]:
        say(f"{result['rejected']} events were refused: streamrank dlq list --store {store}")
    if result["events"] and not result["judged"] and not result["clicks"]:
        say(
            f"nothing was learnt: {result['unmatched']} interactions belong to no ranking in the log, "
            f"{result['late']} events came too late. A ranker learns from rankings and the clicks on them, "
            "from labelled lists, preferences or examples; one of `recommenders` from interactions alone."
        )
    if result["features_dropped"]:
        say(
            f"{result['features_dropped']} feature values found no column: raise features.columns, or set "
            'features.mode = "hashed"'
        )
    for name, model in result["models"].items():
        if model["refused"]:
            say(f"model {name} refused {model['refused']} lists with values that are no sensible numbers")
