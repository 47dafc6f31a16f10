"""Options of `streamrank serve`."""

from typing import Any

from .common import add_config, add_store, command, filled, whole


def add(commands: Any) -> None:
    """The options of `serve`."""
    parser = command(
        commands,
        "serve",
        "serve:serve",
        "rank over HTTP, take clicks in, learn from them at once; a page at / shows it live",
        "serve --store sqlite:///s.db --port 8000",
        "serve --store sqlite:///s.db --host 0.0.0.0 --token SECRET",
        "serve --store redis://localhost:6379/0 --kafka localhost:9092",
    )
    add_store(parser)
    add_config(parser)
    parser.add_argument(
        "--kafka",
        type=filled,
        metavar="HOST:PORT",
        help="send /feedback to this broker (topic kafka.topic, streamrank.events) instead of a log on disk; "
        "`streamrank consume clicks` learns from it",
    )
    parser.add_argument("--topic", type=filled, help="with --kafka: which topic")
    parser.add_argument("--host", type=filled, help="address to listen on (default: 127.0.0.1, this machine)")
    parser.add_argument("--port", type=whole(0), help="(default: 8000; 0: a free one, which is printed)")
    parser.add_argument(
        "--challenger",
        type=filled,
        metavar="MODEL",
        help="shares the lists of the first model, the champion; clicks decide (setting serve.challenger)",
    )
    parser.add_argument("--token", type=filled, help="asked for as `Authorization: Bearer …`")
