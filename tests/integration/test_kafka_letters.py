"""Records that cannot become events: kept with where and why, gone past, never dropped."""

import json
from contextlib import closing

import msgspec
import pytest
from kafka import KafkaConsumer, TopicPartition

from streamrank.cli import main
from streamrank.errors import SourceError
from streamrank.pipeline.letters import DeadLetters
from streamrank.simulation.malformed import MALFORMED
from streamrank.state import DeadLetter, open_store
from streamrank.state.digest import shard_digests
from tests.integration.live import T0, click, counts, events, learn, ranking, replayed

PACKED = msgspec.msgpack.encode({"event": "item", "id": "m", "timestamp": T0, "item": "a"})
POISON = [build(f"x{n}", T0) for n, build in enumerate(MALFORMED.values())]
POISON += [
    b"",
    b"\xff\x00",
    b"[]",
    b"5",
    PACKED[:-2],
    msgspec.msgpack.encode({"event": "ranking"}),
    b"\x00" * 50,
]
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


def test_too_many_refused_raise_the_alarm_once(new_topic, produce, settings, store, caplog):
    name = new_topic()
    produce(name, [*events(0, 60), *[b"poison"] * 3, *events(60, 70)])
    worker = learn(settings(name), store)
    assert (worker.counts["rejected"], worker.counts["alarms"]) == (3, 1)
    assert "3 of 140 records refused: see streamrank dlq list" in caplog.text
    quiet = learn(settings(name, dead_letter_alarm=0.1), store)
    assert quiet.counts["alarms"] == 0


def test_letters_of_a_topic_are_listed_shown_and_learnt_again_once(
    new_topic, produce, settings, store, store_url, tmp_path, capsys
):
    name, dead = new_topic(partitions=2), new_topic(partitions=2)
    s = settings(name, dead_letter_topic=dead)
    mended, poison = msgspec.json.encode(ranking(3)), msgspec.json.encode(ranking(3))[:-9]
    produce(name, [*events(0, 3), poison, click(3, 1), b"poison"])
    produce(name, [b"poison"], partition=1)
    with closing(DeadLetters(s.kafka)) as letters:
        learn(s, store, letters=letters)
        letters.send(name, 0, [DeadLetter(6, 0, "", "truncated", "came twice", poison)])  # as after a crash

    def dlq(*arguments):
        code = main(["dlq", *arguments, "--kafka", s.kafka.servers, "--topic", dead, "--json"])
        return code, json.loads(capsys.readouterr().out)

    names = [f"{name}[0]:6.0", f"{name}[0]:8.0", f"{name}[1]:0.0"]
    assert [one["id"] for one in dlq("list")[1]["letters"]] == names
    code, shown = dlq("show", names[0])
    assert (code, shown["value"], shown["place"]) == (0, poison.decode(), f"{name}[0]@6")
    code, told = dlq("replay", names[1], "--store", store_url)
    assert (code, list(told["refused"])) == (1, [names[1]])
    (tmp_path / "mended.json").write_bytes(mended)
    before = counts(store, name)
    code, told = dlq("replay", names[0], "--with", str(tmp_path / "mended.json"), "--store", store_url)
    assert (code, told["learnt"]) == (0, [names[0]])
    after = counts(store, name)
    assert after == before | {"ranking": 4, "judged": 4, "learnt": 4, "rejected": 1}
    assert [one["id"] for one in dlq("list")[1]["letters"]] == names[2:]
    assert [letter.offset for letter in store.letters(f"{name}[0]")] == [8]  # still refused: the store has it
    assert learn(s, store).counts["records"] == 2  # the last one of each partition, looked at again
    assert counts(store, name) == after
