"""Options of `streamrank dlq`."""

from typing import Any

from .common import Parser, add_json, add_store, command, filled


def add(commands: Any) -> None:
    """The options of `dlq`."""
    group = command(
        commands,
        "dlq",
        "letters:list_letters",
        "the dead letters: records that could not become events",
        "dlq list --store sqlite:///s.db",
        "dlq show 17.0 --store sqlite:///s.db",
        "dlq replay --store sqlite:///s.db",
        "dlq list --kafka localhost:9092 --topic dead.letters",
    )
    actions = group.add_subparsers(dest="action", required=True, metavar="ACTION", parser_class=Parser)
    parser = command(actions, "list", "letters:list_letters", "one line a letter, oldest first", "dlq list")
    parser.add_argument("--kind", help="only this kind of fault, such as bad-timestamp")
    _add_place(parser)
    add_json(parser)
    parser = command(
        actions, "show", "letters:show_letter", "why, from where, and the record itself", "dlq show 17.0"
    )
    parser.add_argument("id", help="as `dlq list` prints it")
    _add_place(parser)
    add_json(parser)
    parser = command(
        actions,
        "replay",
        "letters:replay_letters",
        "try letters again; those that are events now are learnt and leave the list",
        "dlq replay",
        "dlq replay 17.0 --with mended.json",
    )
    parser.add_argument("ids", nargs="*", metavar="ID", help="which (default: all)")
    parser.add_argument(
        "--with", dest="mended", metavar="FILE", help="the mended record, for one ID; - for standard input"
    )
    _add_place(parser)
    add_json(parser)


def _add_place(parser: Any) -> None:
    add_store(parser)
    parser.add_argument(
        "--kafka",
        type=filled,
        metavar="HOST:PORT",
        help="read the dead-letter topic there, not the store's table",
    )
    parser.add_argument(
        "--topic", type=filled, help="the dead-letter topic (setting kafka.dead_letter_topic), not the table"
    )
