import os
import uuid
from contextlib import ExitStack, closing, contextmanager
from pathlib import Path

import pytest
from hypothesis import settings

from streamrank.features.offsets import Offsets
from tests import servers
from tests.servers import redis as redis_servers

# the first call of a kernel compiles it, which no deadline allows for
settings.register_profile("streamrank", deadline=None)
settings.load_profile("streamrank")


@pytest.fixture(autouse=True)
def no_settings_from_outside(monkeypatch):
    for name in list(os.environ):
        kept = ("STREAMRANK_DATA", "STREAMRANK_REQUIRE_SERVERS")
        if name.startswith("STREAMRANK_") and name not in kept and not name.startswith("STREAMRANK_TEST_"):
            monkeypatch.delenv(name)


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items):
    """All tests that need the broker run in one process, so that one broker is started."""
    for item in items:
        if "broker" in getattr(item, "fixturenames", ()):
            item.add_marker(pytest.mark.xdist_group("broker"))


@pytest.fixture(scope="session")
def broker():
    """A Kafka broker: the one in STREAMRANK_TEST_KAFKA, else one started here."""
    from tests.servers import kafka

    address = os.environ.get("STREAMRANK_TEST_KAFKA")
    try:
        running = kafka.Foreign(address) if address else kafka.Broker(secure=True)
    except servers.Unavailable as error:
        if servers.required():
            raise
        pytest.skip(str(error))
    yield running
    running.stop()


@pytest.fixture(scope="session")
def redis_url():
    """A Redis that tests share, each under its own prefix: STREAMRANK_TEST_REDIS, else one started here."""
    if given := os.environ.get("STREAMRANK_TEST_REDIS"):
        yield given if "://" in given else f"redis://{given}"
        return
    with started(redis_servers.Server) as server:
        yield server.url


@pytest.fixture(scope="session")
def redis_cluster():
    """A Redis Cluster that tests share, each under a prefix of its own."""
    with started(redis_servers.Cluster) as cluster:
        yield cluster


@pytest.fixture
def start_redis():
    """Start a Redis that is the test's to kill, fill and flush; or a Cluster, with `of=Cluster`."""
    with ExitStack() as stack:
        yield lambda of=redis_servers.Server, **options: stack.enter_context(started(of, **options))


@contextmanager
def started(server, **options):
    """A server, stopped at the end; a skip where it cannot be had, unless it is required."""
    try:
        running = server(**options)
    except servers.Unavailable as error:
        if servers.required():
            raise
        pytest.skip(str(error))
    try:
        yield running
    finally:
        running.stop()


@pytest.fixture
def new_topic(broker):
    """Make a topic of its own name; returns the name."""
    from kafka import KafkaAdminClient
    from kafka.admin import NewTopic

    def make(partitions=1, **configs):
        name = f"clicks.{uuid.uuid4().hex[:8]}"
        options = {key.replace("_", "."): str(value) for key, value in configs.items()}
        with closing(KafkaAdminClient(bootstrap_servers=broker.address)) as admin:
            admin.create_topics([NewTopic(name, partitions, 1, topic_configs=options)])
        return name

    return make


@pytest.fixture(scope="session")
def public_data():
    """The folder of public data sets, for tests that use them where they are."""
    folder = Path(os.environ.get("STREAMRANK_DATA") or Path(__file__).parents[2] / "shared" / "data")
    if not folder.is_dir():
        pytest.skip("no public data sets here: set STREAMRANK_DATA to the folder that holds them")
    return folder


@pytest.fixture(scope="module")
def uncentred():
    """Rows with their numbers as they were sent, not counted from what is typical of them."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Offsets, "centred", lambda _, rows, **__: rows)
        yield
