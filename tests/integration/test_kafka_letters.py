"""Records that cannot become events: kept with where and why, gone past, never dropped."""

from contextlib import closing

import pytest
from kafka import KafkaConsumer, TopicPartition

from streamrank.errors import SourceError
from streamrank.pipeline.letters import DeadLetters
from streamrank.simulation.malformed import MALFORMED
from streamrank.state import open_store
from streamrank.state.digest import shard_digests
from tests.integration.live import T0, counts, events, learn, replayed

POISON = [build(f"x{n}", T0) for n, build in enumerate(MALFORMED.values())] + [b"", b"\xff\x00", b"[]", b"5"]
LONG = b'{"event":"item"' + b" " * 10_000_000  # ten megabytes


@pytest.fixture
def letters_of(broker):
    """The messages of a dead-letter topic."""

    def read(topic, n):
        place, got = TopicPartition(topic, 0), []
        consumer = KafkaConsumer(bootstrap_servers=broker.address, auto_offset_reset="earliest")
        with closing(consumer):
            consumer.assign([place])
            while len(got) < n:
                got += consumer.poll(1000).get(place, [])
        return got

    return read


def test_poison_of_every_kind_a_tombstone_and_ten_megabytes_are_kept_with_their_reason_and_gone_past(
    new_topic, produce, settings, store, letters_of
):
    name, dead = new_topic(max_message_bytes=20_000_000), new_topic()
    values = [*events(0, 5), *POISON, LONG, None, *events(5, 10)]
    produce(name, values)
    s, shard = settings(name), f"{name}[0]"
    learn(s, store)
    assert [letter.offset for letter in store.letters(shard)] == list(range(10, 11 + len(POISON)))
    assert shard_digests(store) == replayed(s)
    assert store.offset(shard) == len(values)
    assert (counts(store, name)["tombstones"], counts(store, name)["judged"]) == (1, 10)
    with open_store("memory://") as other:
        to_topic = settings(name, dead_letter_topic=dead)
        with closing(DeadLetters(to_topic.kafka)) as letters:
            learn(to_topic, other, letters=letters)
        assert not other.letters(shard)
        assert shard_digests(other) == shard_digests(store)
    got = letters_of(dead, len(POISON) + 1)
    headers = [{name: text.decode() for name, text in message.headers} for message in got]
    for letter, header, message in zip(store.letters(shard), headers, got, strict=True):
        assert header == {
            "origin-topic": name,
            "origin-partition": "0",
            "origin-offset": str(letter.offset),
            "origin-part": "0",
            "kind": letter.kind,
            "error": letter.error,
        }
        assert message.value == letter.value
    assert headers[-1]["kind"] == "too-long"


def test_a_dead_letter_topic_that_takes_nothing_stops_the_worker_and_nothing_is_passed(
    new_topic, produce, settings, store, monkeypatch
):
    monkeypatch.setattr("streamrank.sources.topics.ASK_MS", 500)
    name = new_topic()
    produce(name, [*events(0, 5), b"poison"])
    s = settings(name, dead_letter_topic="absent")
    with closing(DeadLetters(s.kafka)) as letters, pytest.raises(SourceError, match=r"Nothing was dropped"):
        learn(s, store, letters=letters)
    assert store.offset(f"{name}[0]") == 0
