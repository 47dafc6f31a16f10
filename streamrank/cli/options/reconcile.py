"""Options of `streamrank reconcile` and `streamrank rollback`."""

from typing import Any

from .common import add_config, add_json, add_store, command

METHODS = ("tikhonov", "early", "hybrid")


def add(commands: Any) -> None:
    """The options of both."""
    parser = command(
        commands,
        "reconcile",
        "reconcile:reconcile",
        "how far the online model is from the full-batch optimum; goes there if later data says so",
        "reconcile --store sqlite:///s.db --data log.jsonl --method hybrid --json",
    )
    add_store(parser)
    add_config(parser)
    parser.add_argument(
        "--data",
        nargs="+",
        required=True,
        metavar="LOG",
        help="the log that the store was learnt from, all of it, in the same order (more may follow)",
    )
    parser.add_argument("--model", metavar="NAME", help="which model (default: the first of the config)")
    parser.add_argument("--shard", default="0", help="which shard (default: 0, that of a log)")
    parser.add_argument(
        "--method",
        choices=METHODS,
        default="hybrid",
        help="tikhonov: solve to the end, lambda by validation. early: no lambda, stop by validation. hybrid "
        "(default): both at once, from one Krylov run",
    )
    parser.add_argument("--report", metavar="FILE", help="write an HTML page with the validation curves")
    add_json(parser)
    parser = command(
        commands,
        "rollback",
        "reconcile:rollback",
        "take the last swap of weights back",
        "rollback --store sqlite:///s.db",
    )
    add_store(parser)
    add_config(parser)
    parser.add_argument("--model", metavar="NAME", help="which model (default: the first of the config)")
    add_json(parser)
