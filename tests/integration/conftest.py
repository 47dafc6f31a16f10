import uuid
from contextlib import closing

import msgspec
import pytest

from streamrank.config import load_settings
from streamrank.state import open_store
from tests.integration.live import SOON


@pytest.fixture
def produce(broker):
    """Send values (objects become JSON) to a partition, and wait until they are there."""
    from kafka import KafkaProducer

    with closing(KafkaProducer(bootstrap_servers=broker.address, max_request_size=20_000_000)) as producer:

        def send(topic, values, partition=0):
            for value in values:
                data = value if value is None or isinstance(value, bytes) else msgspec.json.encode(value)
                producer.send(topic, data, key=b"k", partition=partition)
            producer.flush()

        yield send


@pytest.fixture
def admin(broker):
    """What operators do to topics."""
    from kafka import KafkaAdminClient

    with closing(KafkaAdminClient(bootstrap_servers=broker.address)) as client:
        yield client


@pytest.fixture
def settings(broker):
    """Settings for a topic: small batches, short time-outs; the rest as given for kafka.*."""

    def make(topic, *, client="kafka-python", sections=None, **kafka):
        options = SOON[client] | kafka.pop("options", {})
        given = {"client": client, "servers": broker.address, "topic": topic, "options": options} | kafka
        base = {"kafka": given, "commit_every": 20, "commit_ms": 50, **(sections or {})}
        return load_settings(None, {}, base=base)

    return make


@pytest.fixture
def store_url(redis_url):
    """A place of its own in the Redis that tests share."""
    return f"{redis_url}?prefix={uuid.uuid4().hex}"


@pytest.fixture
def store(store_url):
    """The same, opened."""
    with open_store(store_url) as opened:
        yield opened
