"""`streamrank serve`."""

import argparse

import msgspec

from ..config import load_settings
from ..errors import ConfigError
from ..serve.server import Server
from ..sources.feedback import SHARD
from ..state import open_store
from ..state.urls import shown
from .output import say, settings_of


def serve(arguments: argparse.Namespace) -> int:
    """Serve until Ctrl-C."""
    given = load_settings(arguments.config)
    url = arguments.store or given.store
    with open_store(url, given) as store:
        # a store that a replay filled is served under the settings it was learnt with
        shards = store.shards()
        shard = SHARD if SHARD in shards or not shards else shards[0]
        settings = settings_of(store, shard, arguments.config)
    options = {name: getattr(arguments, name) for name in ("host", "port", "token", "challenger")}
    section = msgspec.structs.replace(
        settings.serve, **{name: value for name, value in options.items() if value is not None}
    )
    if arguments.topic and not arguments.kafka:
        raise ConfigError("--topic goes with --kafka")
    if arguments.kafka:
        section = msgspec.structs.replace(section, feedback="kafka")
        kafka = msgspec.structs.replace(
            settings.kafka, servers=arguments.kafka, topic=arguments.topic or settings.kafka.topic
        )
        settings = msgspec.structs.replace(settings, kafka=kafka)
    settings = msgspec.structs.replace(settings, store=url, serve=section)
    with Server(settings) as server:
        say(f"serving {shown(url)} at {server.url} (Ctrl-C ends it)")
        server.wait()
    say("stopped; what was learnt is committed")
    return 0
