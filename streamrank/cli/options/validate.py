"""Options of `streamrank validate`."""

from typing import Any

from .common import add_config, add_json, command, whole
from .consume import add_kafka


def add(commands: Any) -> None:
    """The options of `validate`."""
    parser = command(
        commands,
        "validate",
        "validate:validate",
        "check logs event by event; exit code 1 if any is refused",
        "validate log.jsonl",
        "validate monday.jsonl.gz tuesday.jsonl.gz --json",
        "validate --kafka localhost:9092 --topic clicks",
    )
    parser.add_argument("logs", nargs="*", metavar="LOG", help="event logs; - for standard input")
    add_kafka(parser)
    parser.add_argument(
        "--show", type=whole(0), default=3, metavar="N", help="examples of each fault (default: 3)"
    )
    add_config(parser, of_store=False)
    add_json(parser)
