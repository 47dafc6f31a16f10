"""Options of `streamrank validate`."""

from typing import Any

from .common import add_config, add_json, command, whole


def add(commands: Any) -> None:
    """The options of `validate`."""
    parser = command(
        commands,
        "validate",
        "validate:validate",
        "check logs event by event; exit code 1 if any is refused",
        "validate log.jsonl",
        "validate monday.jsonl.gz tuesday.jsonl.gz --json",
    )
    parser.add_argument("logs", nargs="+", metavar="LOG", help="event logs; - for standard input")
    parser.add_argument(
        "--show", type=whole(0), default=3, metavar="N", help="examples of each fault (default: 3)"
    )
    add_config(parser)
    add_json(parser)
