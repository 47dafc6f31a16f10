"""What every client of Kafka promises, each against the real broker."""

import json
import time
from contextlib import closing, contextmanager
from uuid import uuid4

import pytest
from kafka import KafkaProducer

from streamrank.cli import main
from streamrank.config import KafkaSettings
from streamrank.errors import ConfigError, SourceError
from streamrank.sources import open_source, topics
from streamrank.sources.partition import PartitionSource
from streamrank.sources.topics import open_outbox, open_topic
from tests.servers import free_port
from tests.servers.kafka import PASSWORD, USER

FAST = {  # as the client names them
    "kafka-python": {"heartbeat_interval_ms": 150, "session_timeout_ms": 1000, "fetch_max_wait_ms": 20},
    "confluent": {"heartbeat.interval.ms": 150, "session.timeout.ms": 1000, "fetch.wait.max.ms": 20},
}
POLLS = 100


@pytest.fixture(params=topics.CLIENTS)
def client(request):
    return request.param


@pytest.fixture
def kafka(client, broker):
    return KafkaSettings(client=client, servers=broker.address, options=FAST[client])


@pytest.fixture
def numbers(new_topic, kafka):
    """A topic of so many partitions; in each the values 0, 1, 2, … up to n."""

    def make(n, partitions=1):
        name = new_topic(partitions)
        with closing(open_outbox(kafka)) as outbox:
            for partition in range(partitions):
                for value in range(n):
                    outbox.send(name, b"%d" % value, partition=partition)
            outbox.flush()
        return name

    return make


@contextmanager
def member(kafka, name):
    with closing(open_topic(kafka, name, name)) as topic:
        yield topic


def given(topic, n):
    """Poll until the member has so many partitions; nothing of them is delivered."""
    for _ in range(POLLS):
        assert not topic.poll(100)
        if any(what == "assigned" and len(partitions) == n for what, partitions in topic.changes()):
            assert len(topic.assigned()) == n
            return
    raise AssertionError("nothing was assigned")


def taken(topic, n):
    """The offsets of the first partition until there are so many."""
    got = []
    for _ in range(POLLS):
        got += [message.offset for message in topic.poll(100).get(0, [])]
        if len(got) >= n:
            break
    return got


def test_a_partition_is_read_from_anywhere_to_its_end(kafka, numbers):
    name = numbers(50)
    with closing(open_topic(kafka, name)) as topic:
        assert topic.partitions == [0]
        assert topic.bounds(0) == (0, 50)
        for start, end in ((0, 50), (20, 30), (49, 50), (50, 50)):
            got = [message for batch in topic.read(0, start, end) for message in batch]
            assert [(one.offset, one.value) for one in got] == [(n, b"%d" % n) for n in range(start, end)]


def test_a_partition_is_a_source_like_the_log_of_the_same_records(kafka, numbers, tmp_path, broker):
    name = numbers(20)
    (tmp_path / "log.jsonl").write_bytes(b"".join(b"%d\n" % n for n in range(20)))
    with closing(KafkaProducer(bootstrap_servers=broker.address)) as producer:
        producer.send(name, None, key=b"k", partition=0)  # a tombstone is no record
    log = open_source([tmp_path / "log.jsonl"])
    with closing(open_topic(kafka, name)) as topic:
        source = PartitionSource(topic, 0)
        assert source.fingerprint() == log.fingerprint()
        for start in (0, 7, 19, 20):
            ours, theirs = ([(r.offset, r.value) for r in one.records(start)] for one in (source, log))
            assert ours == theirs == [(n, b"%d" % n) for n in range(start, 20)]
        assert source.progress() == (21, 21)
        reading = source.records()
        assert next(reading).place == f"{name}[0]@0"
        assert source.progress() == (1, 21)
        source.close()
        source.close()
        assert list(reading) == []


def test_a_topic_is_validated_before_it_is_learnt(new_topic, broker, capsys):
    name = new_topic(partitions=2)
    with closing(KafkaProducer(bootstrap_servers=broker.address)) as producer:
        producer.send(name, b"5", partition=1)
        producer.send(name, b'{"event":"preference","better":{"a":1},"worse":{"a":0}}', partition=0)
    assert main(["validate", "--kafka", broker.address, "--topic", name, "--json"]) == 1
    told = json.loads(capsys.readouterr().out)
    [fault] = told["faults"].values()
    assert (told["valid"], fault["examples"][0]["place"]) == (1, f"{name}[1]@0")
    assert main(["validate"]) == 2


def test_what_was_aborted_is_left_out_and_the_end_behind_it_is_reached(kafka, numbers, broker):
    name = numbers(5)
    options = {"bootstrap_servers": broker.address, "transactional_id": uuid4().hex}
    with closing(KafkaProducer(**options)) as producer:
        producer.init_transactions()
        for value, end in ((b"yes", producer.commit_transaction), (b"no", producer.abort_transaction)):
            producer.begin_transaction()
            producer.send(name, value, partition=0)
            producer.flush()
            end()
    with closing(open_topic(kafka, name)) as topic:
        got = [message.value for batch in topic.read(0, 4, topic.bounds(0).end) for message in batch]
    assert got == [b"4", b"yes"]
    with member(kafka, name) as topic:
        given(topic, 1)
        topic.resume(0, 5)
        assert taken(topic, 1) == [5]
        for _ in range(POLLS):
            topic.poll(50)
            if topic.position(0) == topic.bounds(0).end:
                break
        assert topic.position(0) == 9  # yes, its marker, no, its marker


def test_a_member_gets_nothing_before_its_place_is_sought_and_is_no_member_less_while_it_pauses(
    kafka, numbers
):
    name = numbers(30)
    with member(kafka, name) as topic:
        given(topic, 1)
        assert topic.generation >= 1
        topic.resume(0, 10)
        assert taken(topic, 20) == list(range(10, 30))
        assert topic.position(0) == 30
        topic.pause(0)
        before, until = topic.generation, time.monotonic() + 1.5  # past the session time-out
        with closing(open_outbox(kafka)) as outbox:
            outbox.send(name, b"more", partition=0)
            outbox.flush()
        while time.monotonic() < until:
            assert not topic.poll(100)
        assert (topic.changes(), topic.assigned(), topic.generation) == ([], {0}, before)
        topic.resume(0, 5)
        assert taken(topic, 26) == list(range(5, 31))


def test_partitions_are_shared_with_a_second_member_and_come_back_when_it_leaves(kafka, numbers):
    name = numbers(1, partitions=2)
    with member(kafka, name) as topic:
        given(topic, 2)
        first = topic.generation
        with member(kafka, name) as other:
            seen = []
            for _ in range(POLLS):
                topic.poll(50)
                other.poll(50)
                seen += topic.changes()
                if len(topic.assigned()) == len(other.assigned()) == 1:
                    break
            assert topic.assigned() | other.assigned() == {0, 1}
            assert sorted(seen[0][1]) == [0, 1]
            assert seen[0][0] == "revoked"
            assert topic.generation == other.generation > first
        given(topic, 2)


def test_a_place_that_the_partition_does_not_hold_is_told_by_no_messages(kafka, numbers):
    name = numbers(5)
    with member(kafka, name) as topic:
        given(topic, 1)
        topic.resume(0, 1000)
        for _ in range(POLLS):
            found = topic.poll(100)
            if found:
                break
        assert found == {0: []}


def test_offsets_by_time_and_offsets_shown(kafka, numbers, broker):
    name = numbers(0)
    with closing(KafkaProducer(bootstrap_servers=broker.address)) as producer:
        for n in range(5):
            producer.send(name, b"x", partition=0, timestamp_ms=1_700_000_000_000 + 1000 * n)
    with member(kafka, name) as topic:
        given(topic, 1)
        times = {-1: 0, 0: 0, 1: 1, 1500: 2, 4000: 4, 4001: 5}
        assert {ms: topic.offset_at(0, 1_700_000_000_000 + ms) for ms in times} == times
        assert topic.shown(0) == 0
        topic.show({0: 3})
        for _ in range(POLLS):
            topic.poll(20)
            if topic.shown(0):
                break
        assert topic.shown(0) == 3


def test_an_outbox_makes_topics_and_sends_keys_and_headers(kafka):
    name = uuid4().hex
    with closing(open_outbox(kafka)) as outbox:
        assert outbox.make_topic(name, 3) == [0, 1, 2]
        assert outbox.make_topic(name, 9) == [0, 1, 2]
        outbox.send(name, b"v", key=b"k", partition=1, headers=[("why", b"because")])
        outbox.flush()
    with closing(open_topic(kafka, name)) as topic:
        [[message]] = topic.read(1, 0, 1)
    assert (message.value, list(message.headers)) == (b"v", [("why", b"because")])


def test_a_broker_or_topic_that_is_absent_is_named(kafka, client, monkeypatch):
    with pytest.raises(SourceError, match="has no topic 'nowhere'"):
        open_topic(kafka, "nowhere", "g")
    monkeypatch.setattr(topics, "ASK_MS", 300)
    nobody = f"127.0.0.1:{free_port()}"
    away = KafkaSettings(client=client, servers=nobody)
    with pytest.raises(SourceError, match=rf"{nobody}.*Look whether the broker runs"):
        open_topic(away, "t", "g")


def test_an_option_that_the_client_does_not_know_is_named(client, broker):
    wrong = KafkaSettings(client=client, servers=broker.address, options={"no.such": 1})
    with pytest.raises((SourceError, ConfigError), match=r"no\.such"):
        open_topic(wrong, "t", "g")


def test_a_name_that_no_topic_can_have_is_refused(kafka):
    for group in ("g", None):
        with pytest.raises(SourceError, match="bad topic!"):
            open_topic(kafka, "bad topic!", group)


def test_a_client_that_is_not_installed_is_named_with_its_extra(monkeypatch):
    monkeypatch.setitem(topics.CLIENTS, "confluent", ("no_such_module", "fast"))
    with pytest.raises(ConfigError, match=r"needs no_such_module.*pip install 'streamrank\[fast\]'"):
        open_topic(KafkaSettings(client="confluent"), "t")


def test_tls_and_sasl_are_passed_through_to_readers_and_senders(client, broker, new_topic, monkeypatch):
    if not getattr(broker, "secure_address", ""):
        pytest.skip("this broker has no listener with TLS: it is not ours, or there is no openssl")
    name = new_topic()

    def secured(password):
        given = {
            "kafka-python": {
                "security_protocol": "SASL_SSL",
                "ssl_cafile": str(broker.certificate),
                "sasl_mechanism": "PLAIN",
                "sasl_plain_username": USER,
                "sasl_plain_password": password,
            },
            "confluent": {
                "security.protocol": "SASL_SSL",
                "ssl.ca.location": str(broker.certificate),
                "sasl.mechanism": "PLAIN",
                "sasl.username": USER,
                "sasl.password": password,
            },
        }
        return KafkaSettings(client=client, servers=broker.secure_address, options=given[client])

    right = secured(PASSWORD)
    with closing(open_outbox(right)) as outbox:
        assert outbox.make_topic(name, 1) == [0]
        outbox.send(name, b"v", partition=0)
        outbox.flush()
    with closing(open_topic(right, name)) as topic:
        [[message]] = topic.read(0, 0, 1)
    assert message.value == b"v"
    monkeypatch.setattr(topics, "ASK_MS", 2000)
    # the broker hangs up on a wrong password; kafka-python may see that before it sees why
    with pytest.raises(SourceError, match=r"(?i)authentication failed|bootstrap-0 failed.*disconnected"):
        open_topic(secured("wrong"), name)
