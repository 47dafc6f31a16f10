"""A worker and a broker that is away for a while."""

import time

import pytest

from streamrank.config import load_settings
from streamrank.errors import SourceDown, StoreFull
from streamrank.pipeline import worker as workers
from streamrank.pipeline.worker import Worker
from streamrank.simulation import Settings, Simulator
from streamrank.state import open_store
from streamrank.state.digest import shard_digests
from streamrank.state.memory import MemoryStore
from tests.pipeline.broker import Broker

VALUES = list(Simulator(Settings(events=600, seed=3)).records())
LOGS = VALUES[0::2], VALUES[1::2]


def learn(**options):
    settings = load_settings(None, {}, base={"commit_every": 120, **options.pop("base", {})})
    with open_store("memory://") as store:
        worker = Worker(settings, store, Broker(LOGS, **options), group="g")
        worker.run(lambda: False, until_idle_s=0.0)
        return shard_digests(store), worker.counts, worker.topic.waits


@pytest.fixture(autouse=True)
def soon(monkeypatch):
    monkeypatch.setattr(workers, "RETRY_S", 0.001)


@pytest.mark.parametrize(
    "away",
    [
        [("poll", 1), ("poll", 2)],
        [("poll", 4), ("poll", 7)],
        [("bounds", 1), ("bounds", 2), ("bounds", 4)],
        [("shown", 1), ("shown", 3)],
        [("poll", 5), ("bounds", 3), ("bounds", 4)],
    ],
    ids=str,
)
def test_it_waits_and_ends_as_if_the_broker_had_always_been_there(away):
    undisturbed, *_ = learn()
    digests, counts, _ = learn(away=away)
    assert digests == undisturbed
    assert {offset for _, offset in digests.values()} == {len(VALUES) // 2}
    assert (counts["reopened"] > 0) == any(call == "poll" and n > 1 for call, n in away)


def test_it_gives_up_in_the_end():
    with pytest.raises(SourceDown, match="nobody"):
        learn(away=[("bounds", n) for n in range(1, 1000)], base={"kafka": {"give_up_ms": 20}})


def test_it_gives_up_too_where_a_shard_can_be_opened_and_never_committed(monkeypatch):
    began = time.monotonic()

    def refuse(*_, **__):
        assert time.monotonic() - began < 60, "it goes on for ever"
        raise StoreFull("no room")

    monkeypatch.setattr(MemoryStore, "commit", refuse)
    with pytest.raises(StoreFull, match="no room"):
        learn(base={"kafka": {"give_up_ms": 20}})


def test_a_disk_that_is_full_for_a_while_is_waited_for(tmp_path):
    undisturbed, *_ = learn()
    polls = []

    def limit(pages):
        store._connection.execute(f"PRAGMA max_page_count = {pages}")

    def at(here):
        if here == "4c" and not polls:
            limit(1)  # that is: as many as there are
            polls.append(here)
        if here == "3a" and polls:
            polls.append(here)
            if len(polls) == 20:
                assert worker.counts["reopened"] > 0
                limit(1_000_000)

    with open_store(f"sqlite:///{tmp_path}/s.db") as store:
        worker = Worker(
            load_settings(None, {}, base={"commit_every": 120}), store, Broker(LOGS), group="g", at=at
        )
        worker.run(lambda: False, until_idle_s=0.0)
        assert len(polls) > 20
        assert shard_digests(store) == undisturbed


def test_it_waits_for_records_no_longer_than_a_commit_may_wait():
    *_, waits = learn(base={"commit_ms": 70, "commit_every": 10_000})
    assert waits[0] == workers.POLL_MS
    assert all(wait <= 70 for wait in waits[2:5])
