"""Options of `streamrank consume`."""

import argparse
from typing import Any

from .common import above_zero, add_adopt_config, add_config, add_json, add_store, command, filled, whole


def add(commands: Any) -> None:
    """The options of `consume`."""
    parser = command(
        commands,
        "consume",
        "consume:consume",
        "learn live from a Kafka topic, exactly once; stop it and start it as you like",
        "consume clicks --kafka localhost:9092 --topic streamrank.events --store redis://localhost:6379/0",
        "consume clicks --kafka localhost:9092 --workers 2 --until-idle 5 --json",
    )
    parser.add_argument(
        "what",
        choices=["clicks", "examples"],
        help="which topic and group by default; events of every kind are taken from either",
    )
    add_kafka(parser)
    parser.add_argument("--group", type=filled, help="consumer group (setting kafka.group)")
    add_store(parser)
    add_config(parser, of_store=False)
    add_adopt_config(parser)
    parser.add_argument(
        "--workers", type=whole(1), default=1, metavar="N", help="processes that share the partitions (1)"
    )
    parser.add_argument(
        "--until-idle", type=above_zero, metavar="S", help="end when nothing has come for S seconds"
    )
    # one of --workers: by whom it was started, and whether in place of one that died
    parser.add_argument("--member", type=int, metavar="PID", help=argparse.SUPPRESS)
    parser.add_argument("--again", action="store_true", help=argparse.SUPPRESS)
    add_json(parser)


def add_kafka(parser: Any) -> None:
    """`--kafka` and `--topic`."""
    parser.add_argument(
        "--kafka", type=filled, metavar="HOST:PORT", help="the brokers (setting kafka.servers)"
    )
    parser.add_argument("--topic", type=filled, help="the topic (setting kafka.topic)")
