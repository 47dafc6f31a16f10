"""Every command and option, with help that teaches."""

import argparse
from importlib.metadata import version

from .options import (
    consume,
    demo,
    evaluate,
    letters,
    promote,
    reconcile,
    replay,
    serve,
    simulate,
    snapshots,
    state,
    validate,
)
from .options.common import Parser

DESCRIPTION = """\
Streaming learning to rank: clicks in, rankings out, learnt exactly once.

Start here:
  streamrank demo                                    watch a ranker learn, lose its way and recover
  streamrank simulate --events 20000 --out log.jsonl      make a click log
  streamrank validate log.jsonl                           is it well formed?
  streamrank replay log.jsonl --report out.html           learn from it, and see how well
"""


def build_parser() -> argparse.ArgumentParser:
    """The whole command line."""
    parser = Parser(
        prog="streamrank", description=DESCRIPTION, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--version", action="version", version=f"streamrank {version('streamrank')}")
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND", parser_class=Parser)
    for group in (
        demo,
        serve,
        consume,
        simulate,
        validate,
        replay,
        evaluate,
        snapshots,
        reconcile,
        promote,
        letters,
        state,
    ):
        group.add(commands)
    return parser
