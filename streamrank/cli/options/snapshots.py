"""Options of `streamrank snapshot`, `restore` and `digest`."""

from typing import Any

from .common import add_json, add_store, command


def add(commands: Any) -> None:
    """The options of `snapshot`, `restore` and `digest`."""
    parser = command(
        commands,
        "snapshot",
        "snapshots:snapshot",
        "write the whole state to one safetensors file",
        "snapshot --store sqlite:///s.db --out s.safetensors",
    )
    add_store(parser)
    parser.add_argument("--out", required=True, metavar="FILE", help="written aside, then renamed")
    add_json(parser)
    parser = command(
        commands,
        "restore",
        "snapshots:restore",
        "bring a store to the state of a snapshot",
        "restore s.safetensors --store sqlite:///t.db",
    )
    parser.add_argument("snapshot", metavar="FILE", help="what `streamrank snapshot` wrote")
    add_store(parser)
    parser.add_argument("--overwrite", action="store_true", help="replace what the store holds")
    add_json(parser)
    parser = command(
        commands,
        "digest",
        "snapshots:digest",
        "one number for the whole learnt state: equal digests, equal states, bit for bit",
        "digest --store sqlite:///s.db",
        "digest --store redis://localhost --by-shard --json",
    )
    parser.add_argument(
        "--by-shard", action="store_true", help="of each shard; in JSON: shards.NAME.{digest, offset}"
    )
    add_store(parser)
    add_json(parser)
