"""Workers whose shards pool: items known to all, every click counted once, whatever dies."""

import json
import logging
from contextlib import suppress
from itertools import count

import msgspec
import numpy as np
import pytest

from streamrank.config import JoinSettings, PoolSettings, RecommenderSettings, Settings, load_settings
from streamrank.errors import ConfigError, StoreDown
from streamrank.events.types import Record
from streamrank.kernels.factors import CLICKS
from streamrank.pipeline import worker as workers
from streamrank.pipeline.checkpoint import Checkpoint
from streamrank.pipeline.flow import Flow
from streamrank.pipeline.memory import restore
from streamrank.pipeline.pool import Pool
from streamrank.pipeline.shard import Shard
from streamrank.pipeline.worker import Worker
from streamrank.state import open_store
from streamrank.state.digest import shard_digests
from tests.pipeline.broker import Broker

N = 420  # clicks of a partition
SETTINGS = Settings(
    recommenders=[RecommenderSettings(name="latent", params={"d": 4, "negatives": 4})],
    pool=PoolSettings(every_seconds=1),
    commit_every=120,
)


def log_of(partition, n=N, n_items=30, first=0):
    """Clicks of users of its own on items that all have, and on some that it has alone."""
    rng = np.random.default_rng(partition)
    users, items = rng.integers(0, 15, n), rng.integers(0, n_items, n)
    return [
        json.dumps(
            {"event": "interaction", "id": f"c{partition}.{k}", "timestamp": 10**12 + 1000 * k,
             "type": "click", "user": f"u{partition}.{users[k]}",
             "item": f"i{items[k]}" if items[k] % 5 else f"only{partition}.{items[k]}"}
        ).encode()
        for k in range(first, n)
    ]  # fmt: skip


LOGS = [log_of(partition) for partition in range(3)]


class Killed(BaseException):
    """As sudden as kill -9, for all that is in memory."""


def killer(step):
    """Dies when a step is reached for the given time."""
    name, _, time = step.partition(":")
    left = [int(time or 1)]

    def at(here):
        left[0] -= here == name
        if not left[0]:
            raise Killed

    return at


def work(store, logs=LOGS, settings=SETTINGS, at=lambda _: None, every=1):
    """A worker to the end of its logs; its clock goes on by a second each time it is asked."""
    worker = Worker(settings, store, Broker(logs), group="g", at=at)
    worker.pool = Pool(settings, store, now=(k / every for k in count()).__next__)
    worker.run(lambda: False, until_idle_s=0.0)
    return worker


def learner(store, partition, settings=SETTINGS):
    flow = Flow(settings)
    restore(flow, *store.read(f"t[{partition}]"))
    return flow.recommenders[0].learner


def counted(store, partition):
    """Clicks by the counter, by the marks of items and of users; and the offset."""
    flow = Flow(SETTINGS)
    entries, offset = store.read(f"t[{partition}]")
    restore(flow, entries, offset)
    arrays = flow.recommenders[0].learner._tables.arrays
    marks = [table[:, CLICKS].clip(0).sum() for table in (arrays.item_marks, arrays.user_marks)]
    return flow.counts["clicks"], *marks, offset


def known(store, partition):
    return set(learner(store, partition)._tables.items.ids) - {None}


@pytest.fixture(autouse=True)
def soon(monkeypatch):
    monkeypatch.setattr(workers, "RETRY_S", 0.001)


@pytest.fixture
def store(tmp_path):
    with open_store(f"sqlite:///{tmp_path}/s.db") as opened:
        yield opened


def test_every_shard_comes_to_know_the_items_of_all_and_counts_its_own_clicks(store):
    work(store)
    everything = {f"i{k}" for k in range(30) if k % 5} | {
        f"only{p}.{k}" for p in range(3) for k in range(0, 30, 5)
    }
    for partition in range(3):
        assert known(store, partition) == everything
        assert counted(store, partition) == (N, N, N, N)


@pytest.mark.parametrize(
    "step",
    ["2a:2", "2b:3", "3a:3", "3b:5", "4a:4", "7:1", "7:2", "7:5", "4a:8", "4c:1", "4c:3", "4c:6", "5:2",
     "6a:1", "6b:1", "6b:2"],
)  # fmt: skip
def test_a_worker_that_dies_at_any_step_counts_every_click_once(step, store):
    with pytest.raises(Killed):
        work(store, at=killer(step))
    for partition in range(3):  # what is stored agrees with itself at any time
        clicks, items, users, offset = counted(store, partition)
        assert clicks == items == users == offset
    work(store)
    for partition in range(3):
        assert counted(store, partition) == (N, N, N, N)


def test_workers_that_die_one_after_the_other_count_every_click_once(store):
    for n in range(1, 11):
        begun = [log[: 40 * n] for log in LOGS]
        with suppress(Killed):
            work(store, begun, at=killer(["7:2", "4c", "4a:2", "6a:2"][n % 4]))
    work(store)
    assert [counted(store, partition) for partition in range(3)] == [(N, N, N, N)] * 3


def test_what_is_taken_in_is_stored_at_once_though_nothing_came(store):
    work(store, [LOGS[0], LOGS[1][:10]], every=10**9)
    before = store.standing("t[1]").offset
    assert not known(store, 1) & known(store, 0) - {f"i{k}" for k in range(30)}
    steps = []
    work(store, [LOGS[0], LOGS[1][:10]], at=steps.append)
    assert store.standing("t[1]").offset == before == 10
    assert known(store, 0) == known(store, 1)
    assert steps.index("7") < steps.index("4c")
    assert counted(store, 1) == (10, 10, 10, 10)


def test_where_nobody_has_moved_nothing_is_read_or_written_again(store):
    work(store)
    steps = []
    work(store, at=steps.append)
    assert steps.count("7") == 3  # once, after opening
    digests = shard_digests(store)
    worker = work(store, at=steps.append)
    shards = [Shard(store, SETTINGS, worker.topic, partition) for partition in range(2)]
    pool = Pool(SETTINGS, store, now=count().__next__)
    assert [shard.name for shard in pool.turn(shards)] == ["t[0]", "t[1]"]
    assert pool.turn(shards) == []
    assert {name: offset for name, (_, offset) in shard_digests(store).items()} == {
        name: offset for name, (_, offset) in digests.items()
    }


@pytest.mark.parametrize("settings", [{"pool": PoolSettings()}, {"recommenders": []}])
def test_by_default_and_without_recommenders_nothing_is_pooled(settings, store):
    steps = []
    work(store, settings=msgspec.structs.replace(SETTINGS, **settings), at=steps.append)
    assert "4c" in steps
    assert "7" not in steps
    assert not any("elsewhere" in key for partition in range(3) for key in store.load(f"t[{partition}]"))


def test_a_store_that_is_away_is_asked_again(store, monkeypatch, caplog):
    asked, shards = [], store.shards

    def away():
        asked.append(0)
        if len(asked) in (1, 2, 4):
            raise StoreDown("nobody is there")
        return shards()

    monkeypatch.setattr(store, "shards", away)
    worker = work(store)
    assert worker.counts["reopened"] == 0
    assert len(asked) > 4
    assert sum("not taken in now: nobody" in record.getMessage() for record in caplog.records) == 3
    assert [counted(store, partition) for partition in range(3)] == [(N, N, N, N)] * 3
    assert known(store, 0) == known(store, 1)


def other_shard(store, log, settings, name="other"):
    checkpoint = Checkpoint(store, Flow(settings), shard=name)
    for offset, value in enumerate(log):
        checkpoint.flow.step(Record(offset, value))
    checkpoint.commit()


def test_a_shard_under_other_settings_is_left_out_and_told_once(store, caplog):
    params = {"d": 6, "negatives": 4}
    other = msgspec.structs.replace(
        SETTINGS, recommenders=[RecommenderSettings(name="latent", params=params)]
    )
    other_shard(store, log_of(7), other)
    other_shard(store, [], other, name="empty")
    other_shard(store, log_of(8), msgspec.structs.replace(SETTINGS, recommenders=[]), name="has none")
    with caplog.at_level(logging.WARNING):
        work(store)
    told = [record.getMessage() for record in caplog.records]
    assert told == [
        "other: recommender 'latent' is not pooled with other shards: it learns under other settings there"
    ]
    assert not any(key.startswith("only7") for key in known(store, 0))
    assert known(store, 0) == known(store, 1)


def test_a_shard_stays_within_max_state_mb(store):
    other_shard(store, log_of(7, 20_000, 9000), SETTINGS)
    tight = msgspec.structs.replace(SETTINGS, max_state_mb=1)
    worker = work(store, LOGS[:1], settings=tight)
    assert worker.counts["reopened"] == 0
    assert sum(len(key) + len(value) for key, value in store.load("t[0]").items()) <= 1_000_000
    assert 100 < len(known(store, 0)) < 7000
    assert counted(store, 0) == (N, N, N, N)


def test_what_others_know_leaves_room_for_what_is_still_to_come(store):
    other_shard(store, log_of(7, 20_000, 9000), SETTINGS)
    tight = msgspec.structs.replace(SETTINGS, max_state_mb=1)
    begun = log_of(0)
    work(store, [begun], tight)
    more = [value.replace(b'"u0.', b'"new%d.' % k) for k, value in enumerate(log_of(0, 2000, first=N))]
    worker = work(store, [begun + more], tight, every=10**9)
    assert worker.counts["reopened"] == 0
    assert store.offset("t[0]") == 2000


def test_recommenders_of_one_shard_share_the_room(store):
    two = [RecommenderSettings(name=name, params={"d": 4, "negatives": 4}) for name in ("one", "two")]
    both = msgspec.structs.replace(SETTINGS, recommenders=two)
    other_shard(store, log_of(7, 20_000, 9000), both)
    worker = work(store, LOGS[:1], settings=msgspec.structs.replace(both, max_state_mb=1))
    assert worker.counts["reopened"] == 0
    assert store.offset("t[0]") == N


def test_where_max_state_mb_leaves_no_room_at_all_it_says_so_and_learns_on(store, caplog):
    wide = msgspec.structs.replace(SETTINGS, join=JoinSettings(dedup_ms=10**9))  # ids take the room
    log = log_of(0, 12_000, 4000)
    work(store, [log], wide, every=10**9)
    other_shard(store, log_of(7), wide)
    again = log[5].replace(b"c0.5", b"again")
    worker = work(store, [[*log, again]], msgspec.structs.replace(wide, max_state_mb=1))
    assert "max_state_mb leaves no room for that" in caplog.text
    assert worker.counts["reopened"] == 0
    assert store.offset("t[0]") == 12_001
    assert not any(key.startswith("only7") for key in known(store, 0))


def test_it_is_set_in_seconds():
    assert load_settings(None, {"STREAMRANK_POOL_EVERY_SECONDS": "30"}).pool.every_seconds == 30
    with pytest.raises(ConfigError, match=r"pool\.every_seconds is -1"):
        load_settings(None, {"STREAMRANK_POOL_EVERY_SECONDS": "-1"})
