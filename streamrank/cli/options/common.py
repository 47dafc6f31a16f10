"""What the options of all commands are made of. Nothing heavy is imported here: help is to come at once."""

import argparse
import math
import sys
from collections.abc import Callable
from typing import Any


class Parser(argparse.ArgumentParser):
    """Errors say where help is."""

    def error(self, message: str) -> Any:
        self.print_usage(sys.stderr)
        print(f"{self.prog}: {message}\nTry: {self.prog} --help", file=sys.stderr)
        raise SystemExit(2)


def command(commands: Any, name: str, run: str, summary: str, *examples: str) -> argparse.ArgumentParser:
    """A command: its help, its examples, and the function of `streamrank.cli` that runs it."""
    parser: argparse.ArgumentParser = commands.add_parser(
        name,
        help=summary,
        description=summary[0].upper() + summary[1:] + ".",
        epilog="Examples:\n" + "\n".join(f"  streamrank {example}" for example in examples),
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.set_defaults(run=run)
    return parser


def add_json(parser: argparse.ArgumentParser, note: str = "") -> None:
    """`--json`."""
    what = f"last line of standard output is one JSON object{note}"
    parser.add_argument("--json", action="store_true", help=what)


def add_store(parser: argparse.ArgumentParser) -> None:
    """`--store`."""
    parser.add_argument(
        "--store",
        type=filled,
        metavar="URL",
        help="where the state lives: sqlite:///file.db, redis://host:6379/0, redis+cluster://host:port, "
        "memory:// (default: the setting `store`, sqlite:///streamrank.db)",
    )


def add_config(parser: argparse.ArgumentParser, *, of_store: bool = True) -> None:
    """`--config`; `of_store`: what a store was learnt under is the default."""
    parser.add_argument(
        "--config",
        metavar="FILE",
        help="settings, TOML or YAML (default: $STREAMRANK_CONFIG, else "
        + ("what the store was learnt under, else " if of_store else "")
        + "one default model)",
    )


def add_adopt_config(parser: argparse.ArgumentParser) -> None:
    """`--adopt-config`."""
    parser.add_argument(
        "--adopt-config", action="store_true", help="go on under settings other than the store's"
    )


def whole(low: int) -> Callable[[str], int]:
    """A whole number from `low` up."""

    def parse(text: str) -> int:
        try:
            value = int(text)
        except ValueError:
            value = low - 1
        if value < low:
            raise argparse.ArgumentTypeError(f"{text!r} is not a whole number from {low} up")
        return value

    return parse


def share(limit: float) -> Callable[[str], float]:
    """A share from 0 to `limit`."""

    def parse(text: str) -> float:
        value = _number(text)
        if not 0 <= value <= limit:
            raise argparse.ArgumentTypeError(f"{text!r} is not a share from 0 to {limit:g}")
        return value

    return parse


def above_zero(text: str) -> float:
    """A number above 0."""
    value = _number(text)
    if not value > 0:
        raise argparse.ArgumentTypeError(f"{text!r} is not a number above 0")
    return value


def _number(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        return math.nan  # in no range


def filled(text: str) -> str:
    """A text that is not empty."""
    if not text:
        raise argparse.ArgumentTypeError("is empty: leave the option out, or give it a value")
    return text
