"""A simulated stream, shared out over partitions, produced by librdkafka: the client of many producers."""

import json
import zlib

from confluent_kafka import KafkaException, Producer
from confluent_kafka.admin import AdminClient, NewTopic

from streamrank.simulation import Settings, Simulator

PATIENCE_S = 120.0


class Traffic:
    """Records by partition: all of one user in one, what is known of items in each."""

    def __init__(self, address: str, topic: str, *, events: int, partitions: int, seed: int) -> None:
        self.topic, self.partitions, self.sent = topic, partitions, 0
        admin = AdminClient({"bootstrap.servers": address})
        admin.create_topics([NewTopic(topic, partitions, 1)])[topic].result(PATIENCE_S)
        settings = Settings(events=events, seed=seed, malformed=0.01, duplicates=0.02, drift_at=0.5)
        self._records = [
            (partition, value)
            for value in Simulator(settings).records()
            for partition in _partitions(value, partitions)
        ]
        self.ends = [0] * partitions  # how many each partition was given
        self._producer = Producer(
            {
                "bootstrap.servers": address,
                "enable.idempotence": True,
                "linger.ms": 5,
                "log_level": 0,
                "message.timeout.ms": int(1000 * PATIENCE_S),
                "reconnect.backoff.max.ms": 500,
            }
        )
        self._failed: list[object] = []

    def __len__(self) -> int:
        return len(self._records)

    def send(self, n: int) -> None:
        """The next `n` records, on their way; `flush` waits for them."""
        for partition, value in self._records[self.sent : self.sent + n]:
            self._send(partition, value)
        self.sent = min(self.sent + n, len(self._records))

    def send_again(self, n: int) -> None:
        """The last `n` records once more, as a producer does that was not told of its success."""
        for partition, value in self._records[max(self.sent - n, 0) : self.sent]:
            self._send(partition, value)

    def flush(self) -> None:
        """Wait until the broker has all of them."""
        left = self._producer.flush(PATIENCE_S)
        if left or self._failed:
            raise KafkaException(f"{left} records were not taken, {len(self._failed)} failed")

    def _send(self, partition: int, value: bytes) -> None:
        while True:
            try:
                self._producer.produce(self.topic, value, partition=partition, on_delivery=self._told)
                break
            except BufferError:
                self._producer.poll(0.1)
        self._producer.poll(0)
        self.ends[partition] += 1

    def _told(self, error: object, _: object) -> None:
        if error is not None:
            self._failed.append(error)


def _partitions(value: bytes, n: int) -> list[int]:
    try:
        event = json.loads(value)
        kind, user = event["event"], event.get("user", "")
    except (ValueError, KeyError, TypeError):
        return [zlib.crc32(value) % n]  # malformed
    return list(range(n)) if kind == "item" else [zlib.crc32(str(user).encode()) % n]
