"""What the tests of live learning share: events, one worker, and the undisturbed reading to compare with."""

import os
import subprocess
import sys
import time
from contextlib import closing

import msgspec

from streamrank.pipeline.shard import Shard
from streamrank.pipeline.worker import Worker
from streamrank.sources.topics import open_topic
from streamrank.state import open_store
from streamrank.state.digest import shard_digests
from streamrank.state.values import decode

T0 = 1_700_000_000_000
SOON = {  # short time-outs and small batches, as each client names them
    "kafka-python": {
        "heartbeat_interval_ms": 200,
        "session_timeout_ms": 1500,
        "fetch_max_wait_ms": 50,
        "max_poll_records": 20,
    },
    "confluent": {
        "heartbeat.interval.ms": 200,
        "session.timeout.ms": 1500,
        "fetch.wait.max.ms": 50,
        "max.poll.records": 20,
    },
}
PATIENCE_S = 20.0


def ranking(n, at=0):
    items = [{"id": f"i{k}", "fields": [{"name": "price", "value": (n * 7 + k * 3) % 11}]} for k in range(4)]
    return {"event": "ranking", "id": f"r{n}", "timestamp": T0 + n * 1000 + at, "user": "u", "items": items}


def click(n, item=1, at=500):
    return {
        "event": "interaction",
        "id": f"c{n}.{item}",
        "timestamp": T0 + n * 1000 + at,
        "ranking": f"r{n}",
        "item": f"i{item}",
        "type": "click",
    }


def events(first, last):
    return [event for n in range(first, last) for event in (ranking(n), click(n, n % 4))]


def learn(settings, store, *, at=lambda _: None, letters=None, idle=0.3, adopt_config=False):
    """One worker until there is nothing more to learn; its group is called as the topic."""
    name = settings.kafka.topic
    with closing(open_topic(settings.kafka, name, name)) as topic:
        worker = Worker(settings, store, topic, group=name, letters=letters, adopt_config=adopt_config, at=at)
        worker.run(lambda: False, until_idle_s=idle)
    return worker


def replayed(settings):
    """The digests of an undisturbed reading."""
    with open_store("memory://") as store, closing(open_topic(settings.kafka, settings.kafka.topic)) as topic:
        for partition in topic.partitions:
            shard = Shard(store, settings, topic, partition)
            for messages in topic.read(partition, shard.position, topic.bounds(partition).end):
                shard.take(messages)
            shard.checkpoint.commit()
        return shard_digests(store)


def counts(store, topic, partition=0):
    """The counters of a shard, as they are stored."""
    return decode(store.get(f"{topic}[{partition}]", "counts"))


def second(step, do):
    """A hook that does something the second time a step is reached: amid the work, after a commit."""
    times = []

    def at(here):
        if here == step:
            times.append(here)
            if len(times) == 2:
                do()

    return at


def wait_for(holds):
    """Until it is true, which it is bound to become."""
    deadline = time.monotonic() + PATIENCE_S
    while not holds():
        assert time.monotonic() < deadline, "it did not come"
        time.sleep(0.02)


def environ(settings, **more):
    """The same settings for a process, by its environment."""
    kafka = settings.kafka
    given = {
        "STREAMRANK_KAFKA_SERVERS": kafka.servers,
        "STREAMRANK_KAFKA_OPTIONS": msgspec.json.encode(kafka.options).decode(),
        "STREAMRANK_KAFKA_DEAD_LETTER_TOPIC": kafka.dead_letter_topic,
        "STREAMRANK_COMMIT_EVERY": str(settings.commit_every),
        "STREAMRANK_COMMIT_MS": str(settings.commit_ms),
    }
    return {**os.environ, **given, **more}


def run(*command, env):
    """A command of ours to its end."""
    command = [sys.executable, "-m", *command]
    return subprocess.run(command, env=env, capture_output=True, text=True, timeout=120)
