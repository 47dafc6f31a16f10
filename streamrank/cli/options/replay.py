"""Options of `streamrank replay`."""

from typing import Any

from .common import add_adopt_config, add_config, add_json, add_store, command, whole
from .consume import add_kafka


def add(commands: Any) -> None:
    """The options of `replay`."""
    parser = command(
        commands,
        "replay",
        "replay:replay",
        "learn from logs exactly as live; running it again goes on where it stopped",
        "replay log.jsonl --store sqlite:///s.db --json",
        "replay --kafka localhost:9092 --topic streamrank.events --store memory:// --json",
        "replay items.jsonl.gz events.jsonl.gz --config streamrank.toml --report out.html",
    )
    parser.add_argument(
        "logs",
        nargs="*",
        metavar="LOG",
        help="JSON lines, msgpack, LETOR/svmlight, ratings or Parquet; .gz and .zst too; several are one log",
    )
    add_kafka(parser)
    add_config(parser)
    add_store(parser)
    parser.add_argument(
        "--commit-every",
        type=whole(1),
        metavar="N",
        help="events between commits (setting commit_every)",
    )
    parser.add_argument("--until", type=whole(1), metavar="N", help="stop after N events of the log")
    parser.add_argument("--report", metavar="FILE", help="write an HTML report with plots")
    add_adopt_config(parser)
    add_json(parser)
