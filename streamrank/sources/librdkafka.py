"""What consumers and producers of confluent-kafka share: their options, and what librdkafka says."""

import logging
from typing import Any

from confluent_kafka import KafkaError

from streamrank.config import KafkaSettings
from streamrank.errors import SourceDown, SourceError
from streamrank.sources.options import check_options

SHARED = ("security.", "ssl.", "sasl.", "enable.ssl", "socket.", "broker.", "request.timeout")
PASSING = (KafkaError._TRANSPORT, KafkaError._ALL_BROKERS_DOWN, KafkaError._TIMED_OUT, KafkaError._WAIT_COORD)

log = logging.getLogger(__name__)


def shared(settings: KafkaSettings) -> dict[str, Any]:
    """The options that are not a consumer's alone."""
    check_options(settings.options, {"max.poll.records": 0})
    return {name: value for name, value in settings.options.items() if name.startswith(SHARED)}


class Heard:
    """What librdkafka said last of its connections: it tells the reason there, and only the effect elsewhere.

    Its own log is off: it repeats itself a hundred times a second while a broker is away.
    """

    def __init__(self) -> None:
        self.said = ""
        self.options: dict[str, Any] = {"log_level": 0, "error_cb": self._hear}

    def refusal(self, where: str, error: Exception) -> SourceError:
        """An error that says where and what to do."""
        first = error.args[0] if error.args else None
        passing = isinstance(first, KafkaError) and (first.retriable() or first.code() in PASSING)
        kind = SourceDown if passing else SourceError
        why = f" ({self.said})" if self.said else ""
        return kind(
            f"Kafka at {where}: {first or error!r}{why}. Look whether the broker runs there and lets this "
            "client in (kafka.servers, kafka.options)."
        )

    def _hear(self, error: KafkaError) -> None:
        if error.code() != KafkaError._ALL_BROKERS_DOWN and error.str() != self.said:
            self.said = error.str()
            log.warning("%s", self.said)
