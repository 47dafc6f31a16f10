"""Options of `streamrank promote`."""

from typing import Any

from .common import add_config, add_json, add_store, command, filled


def add(commands: Any) -> None:
    """The options of `promote`."""
    parser = command(
        commands,
        "promote",
        "promote:promote",
        "let the challenger answer in the champion's place, once clicks on lists they shared say so",
        "promote --store sqlite:///s.db",
        "promote --store sqlite:///s.db --challenger new --force",
        "promote --store sqlite:///s.db --undo",
    )
    add_store(parser)
    add_config(parser)
    parser.add_argument(
        "--challenger",
        type=filled,
        metavar="NAME",
        help="which model (default: the setting serve.challenger, else the other one of two)",
    )
    parser.add_argument(
        "--force",
        action="store_true",
        help="also where the interval of its win rate does not lie above one half, which is else refused",
    )
    parser.add_argument("--undo", action="store_true", help="back to the champion before")
    add_json(parser)
