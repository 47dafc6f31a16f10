"""`streamrank replay`."""

import argparse

import msgspec

from ..config import Settings, load_settings
from ..pipeline.checkpoint import Checkpoint
from ..pipeline.flow import Flow
from ..pipeline.model import METRICS
from ..pipeline.replay import replay as run
from ..pipeline.replay import summary
from ..sources import open_source
from ..state import open_store
from .output import print_json, print_table, progress, settings_of

SHARD = "0"


def replay(arguments: argparse.Namespace) -> int:
    """Learn from the logs, going on where the store stands."""
    source = open_source(arguments.logs)
    with open_store(arguments.store or load_settings(arguments.config).store) as store:
        settings: Settings = settings_of(store, SHARD, arguments.config)
        if arguments.commit_every:
            settings = msgspec.structs.replace(settings, commit_every=arguments.commit_every)
        checkpoint = Checkpoint(store, Flow(settings), shard=SHARD, adopt_config=arguments.adopt_config)
        checkpoint.adopt_source(source.fingerprint())
        flow = checkpoint.flow
        before = flow.counts["events"]
        with progress(source, "replay") as update:
            ticks = 0

            def watch() -> None:
                nonlocal ticks
                ticks += 1
                if ticks % 500 == 0:
                    quality = flow.models[0].history.recent(8)["ndcg@10"]
                    update(f"{flow.counts['events']} events, ndcg@10 {quality:.3f}")

            seconds = run(source.records(flow.offset), checkpoint, until=arguments.until, watch=watch)
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
        plain = [(name, value) for name, value in result.items() if name != "models"]
        print_table("replay", ["", ""], plain)
        rows = [(name, *(quality[m] for m in METRICS)) for name, quality in result["models"].items()]
        print_table("\nmodels, each list scored before it is learnt", ["model", *METRICS], rows)
    return 0
