"""A URL -> an open store. A backend's module, and so its library, is loaded when first asked for."""

import re
from importlib import import_module
from typing import cast

from streamrank.config import Settings
from streamrank.errors import ConfigError
from streamrank.state.base import Store

# scheme -> "module:Class" with its `from_url(url, settings)`, and the forms which that accepts
_REDIS = "streamrank.state.redis:RedisStore"
BACKENDS = {
    "memory": ("streamrank.state.memory:MemoryStore", "memory:// or memory://name"),
    "sqlite": (
        "streamrank.state.sqlite:SqliteStore",
        "sqlite:///relative/file.db or sqlite:////absolute/file.db",
    ),
    "redis": (_REDIS, "redis://[user[:password]@]host[:port][/db][?prefix=name]"),
    "rediss": (_REDIS, "rediss:// for TLS"),
    "redis+cluster": (_REDIS, "redis+cluster://host:port[,host:port]"),
    "rediss+cluster": (_REDIS, "rediss+cluster://"),
}


def open_store(url: str, settings: Settings | None = None) -> Store:
    """Open the store that `url` names; `settings` say more where the URL is not enough.

    >>> open_store("mysql://here")
    Traceback (most recent call last):
    streamrank.errors.ConfigError: store URL 'mysql://here': unknown scheme. Accepted: memory:// or ...
    """
    scheme, separator, _ = url.partition("://")
    if not separator or scheme not in BACKENDS:
        forms = ", ".join(form for _, form in BACKENDS.values())
        raise ConfigError(f"store URL {shown(url)!r}: unknown scheme. Accepted: {forms}")
    module, _, name = BACKENDS[scheme][0].partition(":")
    try:
        backend = getattr(import_module(module), name)
    except ModuleNotFoundError as error:  # the extra is named for its library
        raise ConfigError(
            f"store URL {shown(url)!r}: needs {error.name}, which is not installed: "
            f"pip install 'streamrank[{error.name}]'"
        ) from error
    return cast(Store, backend.from_url(url, settings or Settings()))


def shown(url: str) -> str:
    """The URL as it may be printed: without its password.

    >>> shown("redis://me:secret@host:6379/0")
    'redis://me:***@host:6379/0'
    """
    return re.sub(r"(?<=://)([^/@:]*):.*@", r"\1:***@", url)
