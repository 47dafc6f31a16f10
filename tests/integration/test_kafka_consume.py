"""Live from a real broker: the state is that of an undisturbed replay, whatever the events are."""

import time
from contextlib import closing
from uuid import uuid4

import msgspec
import pytest
from kafka import KafkaProducer

from streamrank.cli.consume import _member
from streamrank.cli.parser import build_parser
from streamrank.errors import ConfigError
from streamrank.pipeline.worker import Worker
from streamrank.sources import topics
from streamrank.sources.topics import open_topic
from streamrank.state.digest import shard_digests
from tests.integration.live import click, counts, events, learn, ranking, replayed


@pytest.mark.parametrize("client", topics.CLIENTS)
def test_a_worker_reaches_the_state_of_a_replay_and_goes_on_where_it_stopped(
    client, new_topic, produce, settings, store
):
    name = new_topic(partitions=2)
    s = settings(name, client=client)
    for partition in (0, 1):
        produce(name, events(0, 40), partition)
    learn(s, store)
    produce(name, events(40, 50))
    assert learn(s, store).counts["records"] == 20 + 2  # the last one of each is looked at again
    assert shard_digests(store) == replayed(s) == replayed(settings(name))
    assert store.offset(f"{name}[0]") == 100


def test_other_settings_are_refused_until_they_are_adopted(new_topic, produce, settings, store):
    topic = new_topic()
    produce(topic, events(0, 5))
    before = settings(topic)
    learn(before, store)
    produce(topic, events(5, 10))
    after = msgspec.structs.replace(before, join=msgspec.structs.replace(before.join, window_ms=60_000))
    with pytest.raises(ConfigError, match=r"window_ms.*--adopt-config"):
        learn(after, store)
    assert learn(after, store, adopt_config=True).counts["records"] == 11  # one again, to know the topic by
    assert counts(store, topic)["events"] == 20
    learn(after, store)  # they are the store's now


def test_adopting_is_asked_of_every_member():
    options = build_parser().parse_args(["consume", "clicks", "--workers", "2", "--adopt-config"])
    assert _member(options)[-1] == "--adopt-config"


def test_the_lag_is_what_is_not_learnt_yet(new_topic, produce, settings, store):
    name = new_topic()
    produce(name, events(0, 40))
    s, lags = settings(name), []
    with closing(open_topic(s.kafka, name, name)) as topic:
        worker = Worker(
            s, store, topic, group=name, at=lambda here: here == "2b" and lags.append(worker.lag())
        )
        worker.run(lambda: False, until_idle_s=0.3, watch=lambda: lags.append(worker.lag()))
    assert lags[0] == 80
    assert lags == sorted(lags, reverse=True)
    assert len([lag for lag in set(lags) if 0 < lag < 80]) > 0
    assert lags[-1] == 0


STARTS = {  # where a shard of records of 5, 3 and 1 hours ago begins
    "earliest": 0,
    "latest": 60,
    "ts=2023-11-14T22:13:20Z": 0,
    "last=4h": 20,
    "last=7200s": 40,
    "last=99999999d": 0,  # before 1970
}


@pytest.mark.parametrize("start", STARTS)
def test_a_start_is_used_only_where_the_store_knows_none(start, new_topic, settings, store, broker):
    name, now = new_topic(), int(time.time() * 1000)
    with closing(KafkaProducer(bootstrap_servers=broker.address)) as producer:

        def send(first, last, hours):
            for event in events(first, last):
                stamp = now - int(hours * 3_600_000)
                producer.send(name, msgspec.json.encode(event), partition=0, timestamp_ms=stamp)
            producer.flush()

        for first, hours in ((0, 5), (10, 3), (20, 1)):
            send(first, first + 10, hours)
        begun = learn(settings(name, start=start), store).counts["records"]
        assert begun == 60 - STARTS[start]
        assert store.offset(f"{name}[0]") == 60
        send(30, 40, 0)
    learn(settings(name, start="latest"), store)
    assert (store.offset(f"{name}[0]"), counts(store, name)["events"]) == (80, begun + 20)


def test_a_click_before_its_ranking_waits_for_it(new_topic, produce, settings, store):
    name, other = new_topic(), new_topic()
    produce(name, [click(0), *events(1, 15), ranking(0)])
    produce(other, [*events(1, 15), ranking(0), click(0)])
    for topic in (name, other):
        learn(settings(topic), store)
    assert shard_digests(store) == replayed(settings(name)) | replayed(settings(other))
    assert counts(store, name)["judged"] == counts(store, other)["judged"] == 15


def test_a_late_click_is_counted_and_teaches_nothing(new_topic, produce, settings, store):
    name, without = new_topic(), new_topic()
    early, hours = events(0, 20), [ranking(n) for n in range(10_000, 10_020)]
    produce(name, [*early, *hours, click(2, 3)])
    produce(without, [*early, *hours])
    for topic in (name, without):
        learn(settings(topic), store)
    assert shard_digests(store) == replayed(settings(name)) | replayed(settings(without))
    assert counts(store, name) == counts(store, without) | {"late": 1, "events": 61}
    learnt = [{k: v for k, v in store.load(f"{t}[0]").items() if k[:6] == "model/"} for t in (name, without)]
    assert learnt[0] == learnt[1]


def test_an_event_dated_years_ahead_does_not_make_the_others_late(new_topic, produce, settings, store):
    name = new_topic()
    s = settings(name)
    produce(name, [*events(0, 10), ranking(10, at=10**11), *events(11, 40)])
    learn(s, store)
    assert shard_digests(store) == replayed(s)
    assert (counts(store, name)["judged"], counts(store, name).get("late", 0)) == (39, 0)


def test_aborted_transactions_are_not_learnt(new_topic, produce, settings, store, broker):
    name = new_topic()
    produce(name, events(0, 5))
    options = {"bootstrap_servers": broker.address, "transactional_id": uuid4().hex}
    with closing(KafkaProducer(**options)) as producer:
        producer.init_transactions()
        for n, end in ((5, producer.abort_transaction), (6, producer.commit_transaction)):
            producer.begin_transaction()
            for event in events(n, n + 1):
                producer.send(name, msgspec.json.encode(event), partition=0)
            producer.flush()
            end()
    learn(settings(name), store)
    assert (counts(store, name)["events"], counts(store, name)["judged"]) == (12, 6)
    assert shard_digests(store) == replayed(settings(name))
