"""The way to a Redis: from its URL to answers."""

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar
from urllib.parse import SplitResult, parse_qsl, unquote, urlsplit

import redis
from redis.backoff import NoBackoff
from redis.cluster import ClusterNode, RedisCluster
from redis.retry import Retry

from streamrank.config import RedisSettings
from streamrank.errors import ConfigError, StoreError
from streamrank.state.redis_errors import ERRORS, leaves_doubt, named, passes
from streamrank.state.urls import BACKENDS, shown

T = TypeVar("T")


class Link:
    """A client of one Redis or one Cluster; a question is asked again while it is away or not ready.

    What is asked must bear being asked twice. Threads may share a link.
    """

    def __init__(self, url: str, settings: RedisSettings) -> None:
        self.where = shown(url)
        scheme, _, rest = url.partition("://")
        parts = urlsplit(f"//{rest}")
        query = dict(parse_qsl(parts.query))
        self.prefix = query.pop("prefix", settings.prefix)
        self._retry_s = settings.retry_ms / 1000
        try:
            if query:
                raise ValueError(f"unknown {', '.join(query)}")
            self._connect = _connector(scheme, parts, settings)
        except ValueError as error:
            forms = ", ".join(form for name, (_, form) in BACKENDS.items() if name.startswith("redis"))
            raise ConfigError(f"store URL {self.where!r}: {error}. Accepted: {forms}") from None
        self._client: Any = None
        self._closed = False

    def ask(self, question: Callable[[Any], T]) -> T:
        """The answer to `question(client)`, or a `StoreError`."""
        deadline, pause, doubt = time.monotonic() + self._retry_s, 0.01, False
        while True:
            if self._closed:
                raise StoreError(f"{self.where}: this store is closed: open another with open_store")
            try:
                if self._client is None:
                    self._client = self._connect()  # a Cluster is asked for its slots at once
                return question(self._client)
            except ERRORS as error:
                if not passes(error) or time.monotonic() + pause > deadline:
                    raise named(error, self.where, doubt=doubt) from error
                doubt = doubt or leaves_doubt(error)
            time.sleep(pause)
            pause = min(2 * pause, 0.5)

    def close(self) -> None:
        """Let the connections go."""
        self._closed = True
        if self._client is not None:
            self._client.close()


def _connector(scheme: str, parts: SplitResult, settings: RedisSettings) -> Callable[[], Any]:
    login, _, hosts = parts.netloc.rpartition("@")
    user, _, password = login.partition(":")
    nodes = [_address(host) for host in hosts.split(",")]
    number = parts.path.strip("/")
    options: dict[str, Any] = {
        "username": unquote(user) or None,
        "password": unquote(password) or settings.password or None,
        "socket_timeout": settings.timeout_ms / 1000,
        "socket_connect_timeout": settings.timeout_ms / 1000,
        "protocol": 2,
    }
    if scheme.startswith("rediss"):
        if settings.ca_file and not Path(settings.ca_file).is_file():
            raise ConfigError(f"redis.ca_file is {settings.ca_file!r}: there is no such file")
        options |= {"ssl": True, "ssl_ca_certs": settings.ca_file or None}
    if scheme.endswith("+cluster"):
        if number:
            raise ValueError("a Cluster has one database only")
        start: list[Any] = [ClusterNode(*node) for node in nodes]  # type: ignore[no-untyped-call]
        # the client asks again once, to find the new place of a slot; the rest is for `Link.ask`
        return lambda: RedisCluster(startup_nodes=start, retry=Retry(NoBackoff(), 1), **options)
    if len(nodes) > 1:
        raise ValueError("several hosts are for redis+cluster://")
    if number and not number.isdigit():
        raise ValueError(f"the database is a number, not {number!r}")
    host, port = nodes[0]
    return lambda: redis.Redis(host, port, db=int(number or 0), retry=Retry(NoBackoff(), 0), **options)


def _address(text: str) -> tuple[str, int]:
    parts = urlsplit(f"//{text}")
    if not parts.hostname:
        raise ValueError("no host is named")
    return parts.hostname, parts.port or 6379  # .port raises a ValueError of its own
