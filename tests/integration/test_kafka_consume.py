"""Live from a real broker: every fault named, and the state equal to that of an undisturbed replay."""

import uuid
from contextlib import closing

import msgspec
import pytest
from kafka import KafkaProducer

from streamrank.config import load_settings
from streamrank.pipeline.shard import Shard
from streamrank.pipeline.worker import Worker
from streamrank.sources.kafka import Topic
from streamrank.state import open_store
from streamrank.state.digest import shard_digests

T0 = 1_700_000_000_000
SOON = {"heartbeat_interval_ms": 200, "session_timeout_ms": 1500, "fetch_max_wait_ms": 50}


def ranking(n, at=0, user="u"):
    items = [{"id": f"i{k}", "fields": [{"name": "price", "value": (n * 7 + k * 3) % 11}]} for k in range(4)]
    return {"event": "ranking", "id": f"r{n}", "timestamp": T0 + n * 1000 + at, "user": user, "items": items}


def click(n, item=1, at=500):
    stamp = T0 + n * 1000 + at
    return {
        "event": "interaction", "id": f"c{n}.{item}", "timestamp": stamp, "ranking": f"r{n}",
        "item": f"i{item}", "type": "click",
    }  # fmt: skip


def events(first, last):
    return [event for n in range(first, last) for event in (ranking(n), click(n, n % 4))]


@pytest.fixture
def produce(broker):
    with closing(KafkaProducer(bootstrap_servers=broker.address, max_request_size=20_000_000)) as producer:

        def send(topic, values, partition=0):
            for value in values:
                data = value if value is None or isinstance(value, bytes) else msgspec.json.encode(value)
                producer.send(topic, data, partition=partition)
            producer.flush()

        yield send


@pytest.fixture
def settings(broker):
    def make(topic, **kafka):
        options = SOON | kafka.pop("options", {})
        given = {"servers": broker.address, "topic": topic, "options": options} | kafka
        return load_settings(None, {}, base={"kafka": given, "commit_every": 20, "commit_ms": 50})

    return make


@pytest.fixture
def store(redis_url):
    with open_store(f"{redis_url}?prefix={uuid.uuid4().hex}") as opened:
        yield opened


def learn(settings, store, *, at=lambda _: None, letters=None, idle=0.3, group="g"):
    """One worker until there is nothing more to learn."""
    with closing(Topic(settings.kafka, settings.kafka.topic, group)) as topic:
        worker = Worker(settings, store, topic, group=group, letters=letters, at=at)
        worker.run(lambda: False, until_idle_s=idle)
    return worker


def replayed(settings):
    """The digests of an undisturbed reading."""
    with open_store("memory://") as store, closing(Topic(settings.kafka, settings.kafka.topic)) as topic:
        for partition in topic.partitions:
            shard = Shard(store, settings, topic, partition)
            for messages in topic.read(partition, shard.position, topic.bounds(partition).end):
                shard.take(messages)
            shard.checkpoint.commit()
        return shard_digests(store)


def test_a_worker_reaches_the_state_of_a_replay_and_goes_on_where_it_stopped(
    new_topic, produce, settings, store
):
    name = new_topic(partitions=2)
    s = settings(name)
    for partition in (0, 1):
        produce(name, events(0, 40), partition)
    learn(s, store)
    produce(name, events(40, 50))
    learn(s, store)
    assert shard_digests(store) == replayed(s)
    assert store.offset(f"{name}[0]") == 100


class Killed(BaseException):
    pass


@pytest.mark.parametrize("step", ["1", "2a", "2b", "3a", "3b", "4a", "4b", "5", "6a", "6b"])
def test_a_worker_that_ends_at_any_step_loses_and_doubles_nothing(step, new_topic, produce, settings, store):
    name = new_topic()
    s = settings(name)
    produce(name, events(0, 60))
    reached = []

    def at(here):
        if here == step:
            reached.append(here)
            raise Killed

    with pytest.raises(Killed):
        learn(s, store, at=at)
    learn(s, store)
    assert reached == [step]
    assert shard_digests(store) == replayed(s)
