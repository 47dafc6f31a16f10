"""Options of `streamrank state`."""

from typing import Any

from .common import Parser, add_json, add_store, command


def add(commands: Any) -> None:
    """The options of `state`."""
    group = command(
        commands,
        "state",
        "state:show",
        "what a store holds: shards and models, what takes the memory, and how to begin anew",
        "state show --store sqlite:///s.db",
        "state memory --store redis://localhost --json",
        "state reset --shard 0 --yes",
    )
    actions = group.add_subparsers(dest="action", required=True, metavar="ACTION", parser_class=Parser)
    parser = command(
        actions,
        "show",
        "state:show",
        "each shard: owner, offset, size, the settings it was learnt under, the quality of its models",
        "state show",
    )
    add_store(parser)
    add_json(parser)
    parser = command(
        actions,
        "memory",
        "state:memory",
        "entries and bytes by kind of state, and which setting bounds each",
        "state memory",
    )
    add_store(parser)
    add_json(parser)
    parser = command(
        actions,
        "reset",
        "state:reset",
        "empty a shard, or all: what was learnt is gone, and a log is learnt from its beginning again",
        "state reset --shard 0",
        "state reset --all --yes",
        "state reset --shard 'clicks[0]' --keep-state",
    )
    which = parser.add_mutually_exclusive_group(required=True)
    which.add_argument("--shard", action="append", metavar="NAME", help="this one; may be repeated")
    which.add_argument("--all", action="store_true", help="every shard")
    parser.add_argument(
        "--keep-state",
        action="store_true",
        help="only fence the owner and forget the generation of the consumer group, which was made anew",
    )
    parser.add_argument("--yes", action="store_true", help="do not ask")
    add_store(parser)
    add_json(parser)
