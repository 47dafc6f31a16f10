"""Options of `streamrank reconcile` and `streamrank rollback`."""

from typing import Any

from .common import add_config, add_json, add_store, command, filled
from .consume import add_kafka

METHODS = ("tikhonov", "early", "hybrid")


def add(commands: Any) -> None:
    """The options of both."""
    parser = command(
        commands,
        "reconcile",
        "reconcile:reconcile",
        "how far the online model is from the full-batch optimum; goes there if later data says so",
        "reconcile --store sqlite:///s.db --data log.jsonl --method hybrid --json",
        "reconcile --store redis://localhost:6379/0 --data kafka --topic clicks --dask local",
    )
    add_store(parser)
    add_config(parser)
    parser.add_argument(
        "--data",
        nargs="+",
        required=True,
        metavar="LOG|archive|kafka",
        help="what the store was learnt from: the log files, all of them, in the same order (more may "
        "follow); archive: the lists kept in archive.folder, of all shards together; kafka: the topic again "
        "(--kafka, --topic), all its partitions together",
    )
    add_kafka(parser)
    parser.add_argument(
        "--model",
        metavar="NAME",
        help="which model (default: the first of the config); a recommender is refitted from all its clicks",
    )
    parser.add_argument(
        "--shard",
        action="append",
        help="which shard; may be given again (default: the only one, or 0, that of a log; else all)",
    )
    parser.add_argument(
        "--method",
        choices=METHODS,
        default="hybrid",
        help="tikhonov: solve to the end, lambda by validation. early: no lambda, stop by validation. hybrid "
        "(default): both at once, from one Krylov run",
    )
    parser.add_argument(
        "--dask",
        type=filled,
        metavar="URL",
        help="solve over the workers of a Dask cluster: tcp://host:8786, or local for two processes of this "
        "machine (setting reconcile.folder: a folder that they see too)",
    )
    parser.add_argument("--dry-run", action="store_true", help="measure only, swap nothing")
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
