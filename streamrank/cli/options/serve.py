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
    )
    add_store(parser)
    add_config(parser)
    parser.add_argument("--host", type=filled, help="address to listen on (default: 127.0.0.1, this machine)")
    parser.add_argument("--port", type=whole(0), help="(default: 8000; 0: a free one, which is printed)")
    parser.add_argument("--token", type=filled, help="asked for as `Authorization: Bearer …`")
