"""`streamrank state`."""

import argparse
import sys
from typing import Any, cast

import msgspec

from ..errors import ConfigError
from ..metrics.history import History
from ..pipeline import recommender
from ..pipeline.inventory import BOUNDS, MB, Share, inventory
from ..pipeline.model import METRICS
from ..state import Store
from ..state.values import decode
from .output import existing_store, print_json, print_table


def show(arguments: argparse.Namespace) -> int:
    """Every shard: whose it is, where it stands, what it holds, how well its models do."""
    with existing_store(arguments.store) as store:
        shards = {shard: _shard(store, shard) for shard in store.shards()}
    if arguments.json:
        print_json({"shards": shards})
        return 0
    columns = ["epoch", "generation", "owner", "offset", "events", "entries", "bytes", "letters"]
    rows = [(name, *(shard[column] for column in columns)) for name, shard in shards.items()]
    print_table(f"{len(shards)} shards", ["shard", *columns], rows)
    models = [
        (name, model, quality["learner"], *(quality[metric] for metric in METRICS))
        for name, shard in shards.items()
        for model, quality in shard["models"].items()
    ]
    print_table(
        "\nmodels, each list scored before it is learnt", ["shard", "model", "learner", *METRICS], models
    )
    recommenders = [
        (name, one, *quality.values())
        for name, shard in shards.items()
        for one, quality in shard["recommenders"].items()
    ]
    if recommenders:
        heads = ["shard", "recommender", "learner", *recommender.METRICS]
        print_table("\nrecommenders, each click ranked before it is learnt", heads, recommenders)
    for name, shard in shards.items():
        print(f"\nshard {name} was learnt under {msgspec.json.encode(shard['settings']).decode()}")
    return 0


def memory(arguments: argparse.Namespace) -> int:
    """Entries and bytes by kind, and what the store itself says."""
    with existing_store(arguments.store) as store:
        shards = {shard: inventory(store.load(shard), store.letters(shard)) for shard in store.shards()}
        used = store.bytes_used()
    kinds = {
        kind: Share(
            sum(s[kind].entries for s in shards.values()), sum(s[kind].bytes for s in shards.values())
        )
        for kind in BOUNDS
    }
    if arguments.json:
        total = sum(share.bytes for share in kinds.values())
        print_json({"bytes": total, "kinds": kinds, "shards": shards, "stored": used})
        return 0
    rows = [(kind, share.entries, _mb(share.bytes), BOUNDS[kind]) for kind, share in kinds.items()]
    print_table(f"keys and values of {len(shards)} shards", ["kind", "entries", "MB", "to lower"], rows)
    if used:
        print_table(
            "\nas the store measures it", ["what", "MB"], [(what, _mb(n)) for what, n in used.items()]
        )
    return 0


def reset(arguments: argparse.Namespace) -> int:
    """Empty shards, when the user means it."""
    with existing_store(arguments.store) as store:
        known = store.shards()
        chosen = known if arguments.all else arguments.shard
        if unknown := sorted(set(chosen) - set(known)):
            raise ConfigError(f"the store has no shard {', '.join(unknown)}; it has {', '.join(known)}")
        what = "take from its owner" if arguments.keep_state else "empty"
        if not arguments.yes:
            _ask(f"{what} {', '.join(f'{shard} (at offset {store.offset(shard)})' for shard in chosen)}")
        for shard in chosen:
            store.reset(shard, keep_state=arguments.keep_state)
        epochs = {shard: store.standing(shard).epoch for shard in chosen}
    if arguments.json:
        print_json({"reset": epochs})
    else:
        for shard, epoch in epochs.items():
            print(f"shard {shard}: {'kept' if arguments.keep_state else 'empty'}, now at epoch {epoch}")
    return 0


def _ask(what: str) -> None:
    if not sys.stdin.isatty():
        raise ConfigError(f"this would {what}: say --yes if it is meant")
    if input(f"This will {what}. Type yes to go on: ").strip() != "yes":
        raise ConfigError("nothing was changed")


def _shard(store: Store, shard: str) -> dict[str, Any]:
    entries, _ = store.read(shard)
    shares = inventory(entries, store.letters(shard))
    settings = cast(dict[str, Any], decode(entries["config"])) if "config" in entries else {}
    counts = cast(dict[str, int], decode(entries["counts"])) if "counts" in entries else {}
    return {
        **msgspec.to_builtins(store.standing(shard)),
        "events": counts.get("events", 0),
        "entries": len(entries),
        "bytes": sum(share.bytes for share in shares.values()),
        "letters": shares["letters"].entries,
        "models": {
            model["name"]: {"learner": model["learner"], **_quality(entries, model["name"], METRICS)}
            for model in settings.get("models", [])
        },
        "recommenders": {
            one["name"]: {"learner": one["learner"], **_quality(entries, one["name"], recommender.METRICS)}
            for one in settings.get("recommenders", [])
        },
        "settings": settings,
    }


def _quality(entries: dict[str, bytes], model: str, names: tuple[str, ...]) -> dict[str, float]:
    if f"quality/{model}" not in entries:
        return History(names).totals()
    return History.from_state(names, cast(dict[str, Any], decode(entries[f"quality/{model}"]))).totals()


def _mb(n_bytes: int) -> str:
    return f"{n_bytes / MB:.3f}"
