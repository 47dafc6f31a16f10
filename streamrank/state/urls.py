"""A URL -> an open store. A backend's module, and so its library, is loaded when first asked for."""

from importlib import import_module
from typing import cast

from streamrank.errors import ConfigError
from streamrank.state.base import Store

# scheme -> "module:Class" with its `from_url(url)`, and the forms which that accepts
BACKENDS = {
    "memory": ("streamrank.state.memory:MemoryStore", "memory:// or memory://name"),
    "sqlite": (
        "streamrank.state.sqlite:SqliteStore",
        "sqlite:///relative/file.db or sqlite:////absolute/file.db",
    ),
}


def open_store(url: str) -> Store:
    """Open the store that `url` names.

    >>> open_store("mysql://here")
    Traceback (most recent call last):
    streamrank.errors.ConfigError: store URL 'mysql://here': unknown scheme. Accepted: memory:// or ...
    """
    scheme, separator, _ = url.partition("://")
    if not separator or scheme not in BACKENDS:
        forms = ", ".join(form for _, form in BACKENDS.values())
        raise ConfigError(f"store URL {url!r}: unknown scheme. Accepted: {forms}")
    module, _, name = BACKENDS[scheme][0].partition(":")
    return cast(Store, getattr(import_module(module), name).from_url(url))
