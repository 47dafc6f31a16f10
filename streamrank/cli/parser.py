"""Every command and option, with help that teaches."""

import argparse
import math
import sys
from collections.abc import Callable
from importlib.metadata import version
from typing import Any

DESCRIPTION = """\
Streaming learning to rank: clicks in, rankings out, learnt exactly once.

Start here:
  streamrank demo                                    watch a ranker learn, lose its way and recover
  streamrank simulate --events 20000 --out log.jsonl      make a click log
  streamrank validate log.jsonl                           is it well formed?
  streamrank replay log.jsonl --report out.html           learn from it, and see how well
"""


# as in streamrank.simulation, which needs numpy: help is to come at once, so it is not imported here
CLICK_MODELS = ("pbm", "cascade", "perfect", "navigational", "informational")
MAX_RATE, MAX_LATE = 0.25, 0.1


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> Any:
        self.print_usage(sys.stderr)
        print(f"{self.prog}: {message}\nTry: {self.prog} --help", file=sys.stderr)
        raise SystemExit(2)


def build_parser() -> argparse.ArgumentParser:
    """The whole command line."""
    parser = _Parser(
        prog="streamrank", description=DESCRIPTION, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--version", action="version", version=f"streamrank {version('streamrank')}")
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND", parser_class=_Parser)
    _demo(commands)
    _simulate(commands)
    _validate(commands)
    _replay(commands)
    _evaluate(commands)
    _snapshots(commands)
    _dead_letters(commands)
    _state(commands)
    return parser


def _command(commands: Any, name: str, run: str, summary: str, *examples: str) -> argparse.ArgumentParser:
    parser: argparse.ArgumentParser = commands.add_parser(
        name,
        help=summary,
        description=summary[0].upper() + summary[1:] + ".",
        epilog="Examples:\n" + "\n".join(f"  streamrank {example}" for example in examples),
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.set_defaults(run=run)
    return parser


def _json(parser: argparse.ArgumentParser, note: str = "") -> None:
    what = f"last line of standard output is one JSON object{note}"
    parser.add_argument("--json", action="store_true", help=what)


def _store(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--store",
        type=_filled,
        metavar="URL",
        help="where the state lives: sqlite:///file.db, redis://host:6379/0, redis+cluster://host:port, "
        "memory:// (default: the setting `store`, sqlite:///streamrank.db)",
    )


def _config(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--config",
        metavar="FILE",
        help="settings, TOML or YAML (default: $STREAMRANK_CONFIG, else what the store was learnt under, "
        "else one default model)",
    )


def _demo(commands: Any) -> None:
    parser = _command(
        commands,
        "demo",
        "demo:demo",
        "simulated users click, a ranker learns live; taste changes halfway, it recovers; leaves a report",
        "demo",
        "demo --headless --seconds 20 --json",
    )
    parser.add_argument("--seconds", type=_above_zero, default=30.0, help="how long (default: 30)")
    parser.add_argument("--seed", type=_whole(0), default=7, help="of the simulated world (default: 7)")
    parser.add_argument(
        "--out", default="streamrank-demo", metavar="DIR", help="for the report and the store"
    )
    parser.add_argument("--headless", action="store_true", help="plain lines instead of the live view")
    _json(parser)


def _simulate(commands: Any) -> None:
    parser = _command(
        commands,
        "simulate",
        "simulate:simulate",
        "write a realistic click log, in Metarank's event format, with known truth",
        "simulate --events 20000 --seed 7 --out log.jsonl",
        "simulate --malformed 0.01 --duplicates 0.02 --late 0.02 --drift-at 0.5 --out log.jsonl.gz",
        "simulate --events 50000 --numeric-features 46 --format msgpack --out packed.msgpack",
    )
    parser.add_argument("--events", type=_whole(1), default=20_000, help="lines in all (default: 20000)")
    parser.add_argument("--seed", type=_whole(0), default=7, help="same seed, same bytes (default: 7)")
    parser.add_argument(
        "--out",
        required=True,
        type=_filled,
        metavar="FILE",
        help="written aside (FILE.part), then renamed; - for standard output; .gz and .zst compress",
    )
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
            name, type=_share(limit), default=0.0, metavar="SHARE", help=f"{what} (default: 0)"
        )
    parser.add_argument(
        "--drift-at", type=_share(1.0), metavar="SHARE", help="taste changes at this share of the log"
    )
    parser.add_argument(
        "--shuffled",
        type=_share(1.0),
        default=0.05,
        metavar="SHARE",
        help="of rankings in random order (default: .05)",
    )
    parser.add_argument(
        "--numeric-features",
        type=_whole(0),
        default=0,
        metavar="N",
        help="every item has N plain numbers instead of the catalogue's fields",
    )
    parser.add_argument(
        "--truth", metavar="FILE", help="relevance of every shown item (default: OUT.truth; 'none' for none)"
    )
    _json(parser, note="; goes with a file, not with --out -")


def _validate(commands: Any) -> None:
    parser = _command(
        commands,
        "validate",
        "validate:validate",
        "check logs event by event; exit code 1 if any is refused",
        "validate log.jsonl",
        "validate monday.jsonl.gz tuesday.jsonl.gz --json",
    )
    parser.add_argument("logs", nargs="+", metavar="LOG", help="event logs; - for standard input")
    parser.add_argument(
        "--show", type=_whole(0), default=3, metavar="N", help="examples of each fault (default: 3)"
    )
    _config(parser)
    _json(parser)


def _replay(commands: Any) -> None:
    parser = _command(
        commands,
        "replay",
        "replay:replay",
        "learn from logs exactly as live; running it again goes on where it stopped",
        "replay log.jsonl --store sqlite:///s.db --json",
        "replay items.jsonl.gz events.jsonl.gz --config streamrank.toml --report out.html",
    )
    parser.add_argument(
        "logs",
        nargs="+",
        metavar="LOG",
        help="JSON lines, msgpack, LETOR/svmlight, ratings or Parquet; .gz and .zst too; several are one log",
    )
    _config(parser)
    _store(parser)
    parser.add_argument(
        "--commit-every",
        type=_whole(1),
        metavar="N",
        help="events between commits (setting commit_every)",
    )
    parser.add_argument("--until", type=_whole(1), metavar="N", help="stop after N events of the log")
    parser.add_argument("--report", metavar="FILE", help="write an HTML report with plots")
    parser.add_argument(
        "--adopt-config", action="store_true", help="go on under settings other than the store's"
    )
    _json(parser)


def _evaluate(commands: Any) -> None:
    parser = _command(
        commands,
        "evaluate",
        "evaluate:evaluate",
        "train a learner on judged lists and measure how well it ranks others",
        "evaluate --train S1.svmlight.gz S2.svmlight.gz --valid S3.svmlight.gz --test S4.svmlight.gz "
        "--learner rankrls --set method=hybrid",
        "evaluate --train S1.svmlight.gz --test S4.svmlight.gz --learner egdm --passes 1 --json",
        "evaluate --train S1.svmlight.gz --valid S3.svmlight.gz --test S4.svmlight.gz --learner rbf "
        "--set centres=10 --set solver=closed",
        "evaluate --train S1.svmlight.gz --valid S3.svmlight.gz --test S4.svmlight.gz --learner rankrls "
        "--plot solvers.html",
    )
    parser.add_argument("--train", nargs="+", required=True, metavar="FILE", help="LETOR/svmlight or Parquet")
    parser.add_argument("--test", nargs="+", required=True, metavar="FILE", help="measured on these")
    parser.add_argument(
        "--valid", nargs="+", metavar="FILE", help="what rankrls, regression, rbf choose lambda on"
    )
    parser.add_argument("--learner", required=True, help="rankrls (batch), egdm, ranknet, regression, rbf")
    parser.add_argument(
        "--set", action="append", metavar="NAME=VALUE", help="a parameter of the learner; may be repeated"
    )
    parser.add_argument(
        "--passes", type=_whole(1), default=1, metavar="N", help="over the lists, streaming (default: 1)"
    )
    parser.add_argument("--seed", type=_whole(0), default=0, help="of the order of later passes (default: 0)")
    parser.add_argument(
        "--plot",
        type=_filled,
        metavar="FILE.html",
        help="draw it. rankrls: error against iterations by lambda, eigenvalue estimates, GDM, eGDM and CG; "
        "others: quality on --valid (else --test) against lists learnt",
    )
    _json(parser, note="; with --plot `figures` in it holds what was fitted or drawn")


def _snapshots(commands: Any) -> None:
    parser = _command(
        commands,
        "snapshot",
        "snapshots:snapshot",
        "write the whole state to one safetensors file",
        "snapshot --store sqlite:///s.db --out s.safetensors",
    )
    _store(parser)
    parser.add_argument("--out", required=True, metavar="FILE", help="written aside, then renamed")
    _json(parser)
    parser = _command(
        commands,
        "restore",
        "snapshots:restore",
        "bring a store to the state of a snapshot",
        "restore s.safetensors --store sqlite:///t.db",
    )
    parser.add_argument("snapshot", metavar="FILE", help="what `streamrank snapshot` wrote")
    _store(parser)
    parser.add_argument("--overwrite", action="store_true", help="replace what the store holds")
    _json(parser)
    parser = _command(
        commands,
        "digest",
        "snapshots:digest",
        "one number for the whole learnt state: equal digests, equal states, bit for bit",
        "digest --store sqlite:///s.db",
        "digest --store redis://localhost --by-shard --json",
    )
    parser.add_argument(
        "--by-shard", action="store_true", help="of each shard; in JSON: shards.NAME.{digest, offset}"
    )
    _store(parser)
    _json(parser)


def _dead_letters(commands: Any) -> None:
    group = _command(
        commands,
        "dlq",
        "letters:list_letters",
        "the dead letters: records that could not become events",
        "dlq list --store sqlite:///s.db",
        "dlq show 17.0 --store sqlite:///s.db",
        "dlq replay --store sqlite:///s.db",
    )
    actions = group.add_subparsers(dest="action", required=True, metavar="ACTION", parser_class=_Parser)
    parser = _command(actions, "list", "letters:list_letters", "one line a letter, oldest first", "dlq list")
    parser.add_argument("--kind", help="only this kind of fault, such as bad-timestamp")
    _store(parser)
    _json(parser)
    parser = _command(
        actions, "show", "letters:show_letter", "why, from where, and the record itself", "dlq show 17.0"
    )
    parser.add_argument("id", help="as `dlq list` prints it")
    _store(parser)
    _json(parser)
    parser = _command(
        actions,
        "replay",
        "letters:replay_letters",
        "try letters again; those that are events now are learnt and leave the list",
        "dlq replay",
        "dlq replay 17.0 --with mended.json",
    )
    parser.add_argument("ids", nargs="*", metavar="ID", help="which (default: all)")
    parser.add_argument(
        "--with", dest="mended", metavar="FILE", help="the mended record, for one ID; - for standard input"
    )
    _store(parser)
    _json(parser)


def _state(commands: Any) -> None:
    group = _command(
        commands,
        "state",
        "state:show",
        "what a store holds: shards and models, what takes the memory, and how to begin anew",
        "state show --store sqlite:///s.db",
        "state memory --store redis://localhost --json",
        "state reset --shard 0 --yes",
    )
    actions = group.add_subparsers(dest="action", required=True, metavar="ACTION", parser_class=_Parser)
    parser = _command(
        actions,
        "show",
        "state:show",
        "each shard: owner, offset, size, the settings it was learnt under, the quality of its models",
        "state show",
    )
    _store(parser)
    _json(parser)
    parser = _command(
        actions,
        "memory",
        "state:memory",
        "entries and bytes by kind of state, and which setting bounds each",
        "state memory",
    )
    _store(parser)
    _json(parser)
    parser = _command(
        actions,
        "reset",
        "state:reset",
        "empty a shard, or all: what was learnt is gone, and a log is learnt from its beginning again",
        "state reset --shard 0",
        "state reset --all --yes",
        "state reset --shard 'clicks[0]' --keep-state",
    )
    which = parser.add_mutually_exclusive_group(required=True)
    which.add_argument("--shard", action="append", metavar="NAME", help="this one; may be repeated")
    which.add_argument("--all", action="store_true", help="every shard")
    parser.add_argument(
        "--keep-state",
        action="store_true",
        help="only fence the owner and forget the generation of the consumer group, which was made anew",
    )
    parser.add_argument("--yes", action="store_true", help="do not ask")
    _store(parser)
    _json(parser)


def _whole(low: int) -> Callable[[str], int]:
    def parse(text: str) -> int:
        try:
            value = int(text)
        except ValueError:
            value = low - 1
        if value < low:
            raise argparse.ArgumentTypeError(f"{text!r} is not a whole number from {low} up")
        return value

    return parse


def _share(limit: float) -> Callable[[str], float]:
    def parse(text: str) -> float:
        value = _number(text)
        if not 0 <= value <= limit:
            raise argparse.ArgumentTypeError(f"{text!r} is not a share from 0 to {limit:g}")
        return value

    return parse


def _above_zero(text: str) -> float:
    value = _number(text)
    if not value > 0:
        raise argparse.ArgumentTypeError(f"{text!r} is not a number above 0")
    return value


def _number(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        return math.nan  # in no range


def _filled(text: str) -> str:
    if not text:
        raise argparse.ArgumentTypeError("is empty: leave the option out, or give it a value")
    return text
