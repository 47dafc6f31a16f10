"""The control: a worker as it is often written, which the chaos must catch.

It runs the library's own flow, and is careful: it stores before it commits, does so when partitions are taken
away, and begins anew from what is stored after an error. But state (Redis) and offset (Kafka's group) are two
writes, and nothing fences a worker that slept: kill it between the two, or wake it late, and events are
learnt twice, or one worker's state is written over another's.
"""

import os
import signal
import sys
import time

import redis
from kafka import ConsumerRebalanceListener, KafkaConsumer, TopicPartition
from kafka.errors import KafkaError
from kafka.structs import OffsetAndMetadata

from streamrank.config import Settings
from streamrank.events.types import Record
from streamrank.pipeline.flow import Flow
from streamrank.pipeline.memory import changes, restore

EVERY = 100  # records between two stores
POLL_MS = 5000  # kafka-python forgets a join that a poll does not wait for


def key(partition: int) -> str:
    return f"naive:{partition}"


class Worker(ConsumerRebalanceListener):
    """Learns from the partitions it is given."""

    def __init__(self, address: str, topic: str, redis_port: int, timeout_ms: int, dies_at: int) -> None:
        self.dies_at = dies_at
        self.redis = redis.Redis(port=redis_port, protocol=2)
        self.flows: dict[int, Flow] = {}
        self.since: dict[int, int] = {}
        self.topic = topic
        self.consumer = KafkaConsumer(
            bootstrap_servers=address,
            group_id=topic,
            enable_auto_commit=False,
            auto_offset_reset="earliest",
            session_timeout_ms=timeout_ms,
            heartbeat_interval_ms=timeout_ms // 4,
        )
        self.consumer.subscribe([topic], listener=self)

    def on_partitions_revoked(self, revoked: set[TopicPartition]) -> None:
        for one in revoked:
            if self.flows.pop(one.partition, None) is not None:
                self.since.pop(one.partition)

    def on_partitions_assigned(self, assigned: set[TopicPartition]) -> None:
        pass  # loaded with its first record

    def run(self) -> None:
        while True:
            for one, records in self.consumer.poll(POLL_MS).items():
                for record in records:
                    self.take(one, record.offset, record.value)
            for partition, n in list(self.since.items()):
                if n:
                    self.store(partition)

    def take(self, one: TopicPartition, offset: int, value: bytes) -> None:
        flow = self.flows.get(one.partition)
        if flow is None:
            flow = self.flows[one.partition] = Flow(Settings())
            entries = {name.decode(): data for name, data in self.redis.hgetall(key(one.partition)).items()}
            restore(flow, entries, offset)
            self.since[one.partition] = 0
        flow.step(Record(offset, value, ""))
        self.since[one.partition] += 1
        if self.since[one.partition] >= EVERY:
            self.store(one.partition)

    def store(self, partition: int) -> None:
        flow = self.flows[partition]
        flow.learn()
        writes = changes(flow)
        with self.redis.pipeline(transaction=True) as both:  # the first write
            gone = [name for name, value in writes.items() if value is None]
            if gone:
                both.hdel(key(partition), *gone)
            both.hset(key(partition), mapping={n: v for n, v in writes.items() if v is not None})
            both.execute()
        if self.redis.incr("stores") == self.dies_at:  # counted over all workers: it happens once
            os.kill(os.getpid(), signal.SIGKILL)
        at = {TopicPartition(self.topic, partition): OffsetAndMetadata(flow.offset, "", -1)}
        self.consumer.commit(at)  # the second
        self.since[partition] = 0


def main() -> None:
    def leave(*_: object) -> None:
        raise SystemExit(0)

    signal.signal(signal.SIGTERM, leave)
    address, topic, *numbers = sys.argv[1:]
    while True:
        worker = None
        try:
            worker = Worker(address, topic, *map(int, numbers))
            worker.run()
        except (KafkaError, redis.RedisError, OSError) as error:
            print(f"begins anew: {error!r}", file=sys.stderr, flush=True)
            time.sleep(0.2)
        finally:
            if worker is not None:
                worker.consumer.close(autocommit=False, timeout_ms=1000)


if __name__ == "__main__":
    main()
