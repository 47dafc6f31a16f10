"""Events that other programs produce are learnt, to the same bits as from a file of the same lines."""

import shutil
import subprocess
from contextlib import closing
from itertools import islice

import pytest

from streamrank.config import load_settings
from streamrank.pipeline.checkpoint import Checkpoint
from streamrank.pipeline.flow import Flow
from streamrank.pipeline.replay import replay
from streamrank.pipeline.worker import Worker
from streamrank.simulation import Settings, Simulator
from streamrank.sources import open_source
from streamrank.sources.kafka import Topic
from streamrank.state import open_store
from streamrank.state.digest import digest_of

N = 800
RANKLENS_EVENTS = 500  # after its 2512 items


@pytest.fixture
def simulated(tmp_path):
    file = tmp_path / "log.jsonl"
    file.write_bytes(b"\n".join(Simulator(Settings(events=N, seed=5)).records()) + b"\n")
    return file


def from_topic(broker, topic):
    """What a worker makes of the topic."""
    given = {"kafka": {"servers": broker.address, "topic": topic}, "commit_every": 300}
    settings = load_settings(None, {}, base=given)
    with open_store("memory://") as store, closing(Topic(settings.kafka, topic, topic)) as reading:
        worker = Worker(settings, store, reading, group=topic)
        worker.run(lambda: False, until_idle_s=0.3)
        return digest_of([("", *store.read(f"{topic}[0]"))])


def from_file(file):
    """What `replay` makes of the lines, every one of which was learnt from."""
    source = open_source([file])
    with open_store("memory://") as store, closing(source):
        checkpoint = Checkpoint(store, Flow(load_settings(None, {})), source=source.fingerprint())
        replay(source.records(), checkpoint)
        assert checkpoint.flow.counts["judged"] > 0
        return digest_of([("", *store.read("0"))])


def kcat(broker, topic, file):
    if shutil.which("kcat") is None:
        pytest.skip("no kcat here (Debian has it)")
    with file.open("rb") as lines:
        subprocess.run(["kcat", "-P", "-b", broker.address, "-t", topic], stdin=lines, check=True)


def test_kcat(broker, new_topic, simulated):
    topic = new_topic()
    kcat(broker, topic, simulated)
    assert from_topic(broker, topic) == from_file(simulated)


def test_kafkas_console_producer(broker, new_topic, simulated):
    if not hasattr(broker, "java"):
        pytest.skip("no jars of Kafka with a broker that others run")
    topic = new_topic()
    producer = broker.java("org.apache.kafka.tools.ConsoleProducer", "--bootstrap-server", broker.address)
    with simulated.open("rb") as lines:
        subprocess.run([*producer, "--topic", topic], stdin=lines, check=True, capture_output=True)
    assert from_topic(broker, topic) == from_file(simulated)


def test_metaranks_ranklens(broker, new_topic, public_data, tmp_path):
    files = [public_data / "ranklens" / name for name in ("items.jsonl.gz", "events.first80.jsonl.gz")]
    with closing(open_source(files)) as source:
        records = islice(source.records(), 2512 + RANKLENS_EVENTS)
        file = tmp_path / "ranklens.jsonl"
        file.write_bytes(b"".join(record.value + b"\n" for record in records))
    topic = new_topic()
    kcat(broker, topic, file)
    assert from_topic(broker, topic) == from_file(file)
