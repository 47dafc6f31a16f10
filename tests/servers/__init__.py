"""Real servers for tests, on loopback and free ports: a Kafka broker and a Redis, each started here."""

import os
import socket


class Unavailable(Exception):
    """A server cannot be had on this machine; the text says why and what would help."""


def required() -> bool:
    """Whether a test without its server fails instead of being skipped."""
    return os.environ.get("STREAMRANK_REQUIRE_SERVERS") == "1"


def free_port() -> int:
    """A port that nobody listens on now."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port
