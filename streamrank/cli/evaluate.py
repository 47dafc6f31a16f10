"""`streamrank evaluate`."""

import argparse
from typing import Any

import msgspec

from ..errors import ConfigError
from ..pipeline.evaluate import evaluate as run
from ..pipeline.evaluate import read_lists
from .output import print_json, print_table


def evaluate(arguments: argparse.Namespace) -> int:
    """Train on one set of judged lists, test on another."""
    result = run(
        read_lists(arguments.train),
        read_lists(arguments.test),
        valid=read_lists(arguments.valid) if arguments.valid else None,
        learner=arguments.learner,
        params=_params(arguments.set or []),
        passes=arguments.passes,
        seed=arguments.seed,
    )
    if arguments.json:
        print_json(result)
    else:
        plain = [(name, value) for name, value in result.items() if name != "test"]
        print_table(f"{arguments.learner} on {', '.join(arguments.test)}", ["", ""], plain)
        print_table("", ["measure", "test"], list(result["test"].items()))
    return 0


def _params(pairs: list[str]) -> dict[str, Any]:
    params = {}
    for pair in pairs:
        name, equals, text = pair.partition("=")
        if not equals or not name:
            raise ConfigError(f"--set {pair}: give name=value, such as --set rate=0.03")
        try:  # numbers, lists, true and null are JSON; anything else is a plain string
            params[name] = msgspec.json.decode(text.encode())
        except msgspec.DecodeError:
            params[name] = text
    return params
