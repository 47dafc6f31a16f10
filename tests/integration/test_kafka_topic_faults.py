"""A topic that is not there, or not what it was: said at once, with what to do; or followed, as set."""

from contextlib import closing

import msgspec
import pytest
from kafka import KafkaProducer, TopicPartition
from kafka.admin import NewPartitions, NewTopic

from streamrank.errors import SourceError
from streamrank.sources import topics
from streamrank.sources.topics import open_topic
from streamrank.state.digest import shard_digests
from tests.integration.live import counts, events, learn, replayed, wait_for
from tests.servers import free_port


def test_records_dropped_before_they_were_learnt_stop_the_worker_or_are_counted(
    new_topic, produce, settings, store, admin
):
    name = new_topic()
    produce(name, events(0, 20))
    learn(settings(name), store)
    produce(name, events(20, 40))
    admin.delete_records({TopicPartition(name, 0): 60})
    with pytest.raises(SourceError, match=r"stands at offset 40.*begins at 60: 20 records.*state reset"):
        learn(settings(name), store)
    assert store.offset(f"{name}[0]") == 40
    worker = learn(settings(name, on_gap="skip"), store)
    assert (worker.counts["records"], counts(store, name)["lost"]) == (20, 20)
    assert store.offset(f"{name}[0]") == 80


def test_records_dropped_while_a_worker_reads_are_noticed(new_topic, produce, settings, store, admin):
    name, dropped = new_topic(), []
    for n in range(0, 100, 5):
        produce(name, events(n, n + 5))  # each a batch of its own, and one batch a fetch

    def at(here):
        if here == "4c" and not dropped:
            dropped.append(admin.delete_records({TopicPartition(name, 0): 190}))

    s = settings(name, options={"max_partition_fetch_bytes": 1})
    with pytest.raises(SourceError, match=r"begins at 190: \d+ records were dropped"):
        learn(s, store, at=at)


@pytest.fixture
def make_anew(admin, broker):
    """Delete a topic and make it again, with other events."""

    def make(name, n):
        admin.delete_topics([name])
        wait_for(lambda: name not in admin.list_topics())
        admin.create_topics([NewTopic(name, 1, 1)])
        with closing(KafkaProducer(bootstrap_servers=broker.address)) as producer:
            for event in events(1000, 1000 + n):
                producer.send(name, msgspec.json.encode(event), partition=0)
            producer.flush()

    return make


SHORTER, LONGER = (5, "the topic ends at 10"), (50, "not the one the store took last")


@pytest.mark.parametrize(("n", "why"), [SHORTER, LONGER])
def test_a_topic_made_anew_is_noticed_shorter_or_longer(
    n, why, new_topic, produce, settings, store, make_anew
):
    name = new_topic()
    produce(name, events(0, 20))
    learn(settings(name), store)
    make_anew(name, n)
    before = shard_digests(store)
    with pytest.raises(SourceError, match=rf"{why}.*state reset"):
        learn(settings(name), store)
    assert shard_digests(store) == before
    store.reset(f"{name}[0]")
    learn(settings(name), store)
    assert shard_digests(store) == replayed(settings(name))


@pytest.mark.parametrize("client", topics.CLIENTS)
@pytest.mark.parametrize(("n", "why"), [SHORTER, (50, "was made anew")])
def test_a_topic_made_anew_while_a_worker_reads_it_is_noticed(
    n, why, client, new_topic, produce, settings, store, make_anew
):
    name, anew = new_topic(), []
    produce(name, events(0, 20))

    def at(here):
        if here == "5" and store.offset(f"{name}[0]") == 40 and not anew:
            anew.append(make_anew(name, n))

    with pytest.raises(SourceError, match=rf"{why}.*state reset"):
        learn(settings(name, client=client), store, at=at, idle=30)
    assert store.offset(f"{name}[0]") == 40


def test_partitions_that_are_added_are_learnt(new_topic, produce, settings, store, admin, broker):
    name, added = new_topic(), []
    s = settings(name, options={"metadata_max_age_ms": 300})
    produce(name, events(0, 20))

    def at(here):
        if here == "4c" and not added:
            added.append(admin.create_partitions({name: NewPartitions(2)}))
            with closing(KafkaProducer(bootstrap_servers=broker.address, metadata_max_age_ms=50)) as producer:
                wait_for(lambda: len(producer.partitions_for(name)) == 2)
                for event in events(20, 30):
                    producer.send(name, msgspec.json.encode(event), partition=1)

    learn(s, store, at=at, idle=1)
    assert store.offset(f"{name}[1]") == 20
    assert shard_digests(store) == replayed(s)


def test_a_broker_that_is_absent_is_named(settings):
    s = settings("t", servers=f"127.0.0.1:{free_port()}", options={"bootstrap_timeout_ms": 300})
    with pytest.raises(SourceError, match=r"127\.0\.0\.1.*Look whether the broker runs"):
        open_topic(s.kafka, "t", "g")


def test_a_topic_that_is_absent_is_named(settings, broker):
    with pytest.raises(SourceError, match=r"has no topic 'nowhere'"):
        open_topic(settings("nowhere").kafka, "nowhere", "g")
