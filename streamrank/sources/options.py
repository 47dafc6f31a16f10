"""`kafka.options`, looked at before a client gets them: what it would take silently, or choke on later."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from streamrank.errors import ConfigError

PROTOCOLS = ("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL")
INSTEAD = {  # what is not passed through, by what gives it
    "bootstrap_servers": "give kafka.servers",
    "group_id": "give kafka.group",
    "enable_auto_commit": "where to go on is kept by the store, with the state",
    "auto_offset_reset": "give kafka.start",
    "enable_partition_eof": "it is needed to see the end",
}


def check_options(options: Mapping[str, Any], defaults: Mapping[str, Any]) -> None:
    """Raise if one is ours to give, or not of the kind of its default (where one is known).

    A protocol that is misspelt, or in small letters, kafka-python would take for PLAINTEXT.

    >>> check_options({"security_protocol": "SASL_SLL"}, {})
    Traceback (most recent call last):
    streamrank.errors.ConfigError: kafka.options: security_protocol is 'SASL_SLL': it is one of PLAINTEXT, ...
    """
    for name, value in options.items():
        plain = name.replace(".", "_")
        if plain in INSTEAD:
            raise ConfigError(f"kafka.options: {name} is not taken: {INSTEAD[plain]}")
        if name == "security_protocol" and value not in PROTOCOLS:
            raise _wrong(name, value, f"it is one of {', '.join(PROTOCOLS)}")
        if name.startswith("ssl_") and name.endswith("file") and value and not Path(str(value)).is_file():
            raise _wrong(name, value, "there is no such file")
        default = defaults.get(name)
        if isinstance(default, int | float) and not _is_like(value, default):
            raise _wrong(
                name, value, f"a {'truth value' if isinstance(default, bool) else 'number'} is wanted"
            )


def _is_like(value: object, default: object) -> bool:
    return isinstance(value, int | float) and isinstance(value, bool) == isinstance(default, bool)


def _wrong(name: str, value: object, why: str) -> ConfigError:
    return ConfigError(f"kafka.options: {name} is {value!r}: {why}")
