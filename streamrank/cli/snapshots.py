"""`streamrank snapshot`, `restore` and `digest`."""

import argparse
from typing import Any

import msgspec

from ..config import load_settings
from ..pipeline.schedule import snapshot as take
from ..state import open_store
from ..state.digest import digest as digest_of
from ..state.digest import shard_digests
from ..state.snapshot import restore_snapshot
from .output import existing_store, print_json, print_table


def snapshot(arguments: argparse.Namespace) -> int:
    """Write the state of one moment to a file."""
    with existing_store(arguments.store) as store:
        info = take(arguments.out, store)
    _print(arguments, msgspec.to_builtins(info))
    return 0


def restore(arguments: argparse.Namespace) -> int:
    """Bring a store to the state of a snapshot."""
    settings = load_settings()
    with open_store(arguments.store or settings.store, settings) as store:
        info = restore_snapshot(arguments.snapshot, store, overwrite=arguments.overwrite)
    _print(arguments, msgspec.to_builtins(info))
    return 0


def digest(arguments: argparse.Namespace) -> int:
    """Print the digest of a store, or of each of its shards."""
    with existing_store(arguments.store) as store:
        result: dict[str, Any] = {"digest": digest_of(store)}
        if arguments.by_shard:
            shards = shard_digests(store).items()
            result["shards"] = {shard: {"digest": one, "offset": offset} for shard, (one, offset) in shards}
    if arguments.json:
        print_json(result)
    elif arguments.by_shard:
        print_table(
            "",
            ["shard", "offset", "digest"],
            [(s, d["offset"], d["digest"]) for s, d in result["shards"].items()],
        )
    else:
        print(result["digest"])
    return 0


def _print(arguments: argparse.Namespace, info: dict[str, object]) -> None:
    if arguments.json:
        print_json(info)
    else:
        print("\n".join(f"{name}: {value}" for name, value in info.items() if name != "config_json"))
