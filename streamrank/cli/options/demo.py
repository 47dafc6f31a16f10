"""Options of `streamrank demo`."""

from typing import Any

from .common import above_zero, add_json, command, whole


def add(commands: Any) -> None:
    """The options of `demo`."""
    parser = command(
        commands,
        "demo",
        "demo:demo",
        "simulated users click, a ranker learns live; taste changes halfway, it recovers; leaves a report",
        "demo",
        "demo --headless --seconds 20 --json",
    )
    parser.add_argument("--seconds", type=above_zero, default=30.0, help="how long (default: 30)")
    parser.add_argument("--seed", type=whole(0), default=7, help="of the simulated world (default: 7)")
    parser.add_argument(
        "--out", default="streamrank-demo", metavar="DIR", help="for the report and the store"
    )
    parser.add_argument("--headless", action="store_true", help="plain lines instead of the live view")
    add_json(parser)
