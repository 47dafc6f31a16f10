"""Records into topics by confluent-kafka."""

from collections.abc import Sequence
from typing import Any

from confluent_kafka import KafkaError, KafkaException, Producer
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

from streamrank.config import KafkaSettings
from streamrank.errors import SourceDown
from streamrank.sources import topics
from streamrank.sources.librdkafka import Heard, shared


class Outbox:
    """A producer that is given up when the broker takes nothing for ASK_MS."""

    def __init__(self, settings: KafkaSettings) -> None:
        self._servers = settings.servers
        self._options = {"bootstrap.servers": settings.servers, **shared(settings)}
        sending = {"linger.ms": 20, "message.timeout.ms": topics.ASK_MS, "enable.idempotence": True}
        # one request at a time: with five on their way, the first batch to a topic just made was once told as
        # delivered and was in no log, which began with the sequence number of the second
        sending["max.in.flight"] = 1
        self._refused: KafkaError | None = None
        self._heard = Heard()
        self._options |= self._heard.options
        try:
            self._producer: Any = Producer(self._options | sending)
        except KafkaException as error:
            raise self._heard.refusal(self._servers, error) from error

    def make_topic(self, topic: str, partitions: int) -> list[int]:
        admin = AdminClient(self._options)
        try:
            if topic not in admin.list_topics(timeout=topics.ASK_MS / 1000).topics:
                admin.create_topics([NewTopic(topic, partitions, 1)])[topic].result(topics.ASK_MS / 1000)
            found = admin.list_topics(topic, timeout=topics.ASK_MS / 1000).topics[topic]
        except KafkaException as error:
            raise self._heard.refusal(self._servers, error) from error
        return sorted(found.partitions) or list(range(partitions))

    def send(
        self,
        topic: str,
        value: bytes | None,
        *,
        key: bytes | None = None,
        partition: int | None = None,
        headers: Sequence[tuple[str, bytes]] = (),
    ) -> None:
        where = {} if partition is None else {"partition": partition}
        while True:
            try:
                self._producer.produce(
                    topic, value, key, headers=list(headers), on_delivery=self._delivered, **where
                )
                break
            except BufferError:  # as many as it holds are on their way
                self._producer.poll(0.1)
            except KafkaException as error:
                raise self._heard.refusal(self._servers, error) from error
        self._producer.poll(0)
        self._check()

    def flush(self) -> None:
        left = self._producer.flush(2 * topics.ASK_MS / 1000)
        self._check()
        if left:
            raise SourceDown(f"Kafka at {self._servers}: {left} records were not taken in time")

    def close(self) -> None:
        self._producer.flush(topics.CLOSE_MS / 1000)

    def _delivered(self, error: KafkaError | None, _: Any) -> None:
        self._refused = self._refused or error

    def _check(self) -> None:
        if self._refused is not None:
            error, self._refused = self._refused, None
            raise self._heard.refusal(self._servers, KafkaException(error))
