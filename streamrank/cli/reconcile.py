"""`streamrank reconcile` and `streamrank rollback`."""

import argparse

from ..pipeline import reconcile as pipeline
from ..pipeline.swap import roll_back
from ..sources import open_source
from .output import check_writable, existing_store, print_json, print_table, progress, say, settings_of


def reconcile(arguments: argparse.Namespace) -> int:
    """Measure the drift, and swap if it pays."""
    if arguments.report:
        check_writable(arguments.report, "report")
    source = open_source(arguments.data)
    with existing_store(arguments.store) as store:
        settings = settings_of(store, arguments.shard, arguments.config)
        with progress(source, "reconcile") as update:
            result = pipeline.reconcile(
                store,
                source,
                settings,
                shard=arguments.shard,
                model=arguments.model,
                method=arguments.method,
                taken=lambda done, total: update(f"{done} of {total} records"),
                watch=lambda step, error: update(f"step {step}, validation error {error:.4f}"),
            )
    if arguments.report:
        from ..pipeline.drift import write_drift  # plotly takes half a second to load

        write_drift(arguments.report, result)
    if arguments.json:
        print_json(result)
    else:
        print_table("drift, on lists that neither has seen", ["", ""], list(result["drift"].items()))
        rows = [(kind, m["pairwise_error"], m["ndcg"]) for kind, m in result["candidates"].items()]
        print_table("\ncandidates", ["", "pairwise_error", "ndcg@10"], rows)
        steps = result["iterations"]
        print(f"\nlambda {result['lambda']:g}, {steps['warm']} steps warm, {steps['cold']} cold")
    said = f"{result['chosen']}: the weights were swapped" if result["swapped"] else "the online model stays"
    say(f"{said} ({result['seconds']:.1f} s)")
    return 0


def rollback(arguments: argparse.Namespace) -> int:
    """Take the last swap back, in every shard; exit code 1 if there is none."""
    with existing_store(arguments.store) as store:
        undone = {}
        for shard in store.shards():
            settings = settings_of(store, shard, arguments.config)
            swap = roll_back(store, shard, settings, arguments.model or settings.models[0].name)
            if swap is not None:
                undone[shard] = swap.id
    if arguments.json:
        print_json({"undone": undone})
    elif undone:
        print("\n".join(f"shard {shard}: {swap} was taken back" for shard, swap in undone.items()))
    if not undone:
        say("there is no swap to take back")
    return 0 if undone else 1
