"""Options of `streamrank simulate`."""

from typing import Any

from .common import above_zero, add_json, command, filled, share, whole
from .consume import add_kafka

# as in streamrank.simulation, which needs numpy: help is to come at once, so it is not imported here
CLICK_MODELS = ("pbm", "cascade", "perfect", "navigational", "informational")
MAX_RATE, MAX_LATE = 0.25, 0.1


def add(commands: Any) -> None:
    """The options of `simulate`."""
    parser = command(
        commands,
        "simulate",
        "simulate:simulate",
        "write a realistic click log, in Metarank's event format, with known truth",
        "simulate --events 20000 --seed 7 --out log.jsonl",
        "simulate --malformed 0.01 --duplicates 0.02 --late 0.02 --drift-at 0.5 --out log.jsonl.gz",
        "simulate --events 50000 --kafka localhost:9092 --topic streamrank.events --rate 500",
        "simulate --events 50000 --numeric-features 46 --format msgpack --out packed.msgpack",
    )
    parser.add_argument("--events", type=whole(1), default=20_000, help="lines in all (default: 20000)")
    parser.add_argument("--seed", type=whole(0), default=7, help="same seed, same bytes (default: 7)")
    parser.add_argument(
        "--out",
        type=filled,
        metavar="FILE",
        help="written aside (FILE.part), then renamed; - for standard output; .gz and .zst compress",
    )
    add_kafka(parser)
    parser.add_argument("--rate", type=above_zero, metavar="N", help="with --kafka: events a second")
    parser.add_argument("--format", choices=["jsonl", "msgpack"], default="jsonl", help="default: jsonl")
    parser.add_argument(
        "--click-model",
        default="pbm",
        choices=CLICK_MODELS,
        help="how users click (default: pbm, position-based)",
    )
    for name, limit, what in (
        ("--noise", 1.0, "of the decisions to click made by tossing a coin, below 1"),
        ("--malformed", MAX_RATE, f"of the lines, up to {MAX_RATE}"),
        ("--duplicates", MAX_RATE, f"of the lines, up to {MAX_RATE}, are delivered twice"),
        ("--late", MAX_LATE, f"of the lines, up to {MAX_LATE}, are clicks past the join window"),
    ):
        parser.add_argument(
            name, type=share(limit), default=0.0, metavar="SHARE", help=f"{what} (default: 0)"
        )
    parser.add_argument(
        "--drift-at", type=share(1.0), metavar="SHARE", help="taste changes at this share of the log"
    )
    parser.add_argument(
        "--shuffled",
        type=share(1.0),
        default=0.05,
        metavar="SHARE",
        help="of rankings in random order (default: .05)",
    )
    parser.add_argument(
        "--numeric-features",
        type=whole(0),
        default=0,
        metavar="N",
        help="every item has N plain numbers instead of the catalogue's fields",
    )
    parser.add_argument(
        "--truth", metavar="FILE", help="relevance of every shown item (default: OUT.truth; 'none' for none)"
    )
    add_json(parser, note="; goes with a file, not with --out -")
