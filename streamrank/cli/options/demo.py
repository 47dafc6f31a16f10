"""Options of `streamrank demo`."""

from typing import Any

from .common import above_zero, add_json, command, whole


def add(commands: Any) -> None:
    """The options of `demo`."""
    parser = command(
        commands,
        "demo",
        "demo:demo",
        "the whole product: simulated users come to a server and click; its page shows it learn, taste "
        "change, it recover and reconcile",
        "demo",
        "demo --headless --seconds 20 --json",
    )
    parser.add_argument(
        "--seconds",
        type=above_zero,
        help="how long (default: until Ctrl-C on a terminal; 30 where there is none, or --headless)",
    )
    parser.add_argument(
        "--port", type=whole(0), default=8000, help="of the page (default: 8000, another where that is taken)"
    )
    parser.add_argument("--seed", type=whole(0), default=7, help="of the simulated world (default: 7)")
    parser.add_argument(
        "--out", default="streamrank-demo", metavar="DIR", help="for the report and the store"
    )
    parser.add_argument("--headless", action="store_true", help="plain lines instead of the live view")
    add_json(parser)
