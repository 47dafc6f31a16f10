"""Snapshots by themselves, and what they are worth: go on from any, on any store, to the same bits."""

import os
import uuid

import msgspec
import pytest

from streamrank.config import Settings, SnapshotSettings
from streamrank.errors import SnapshotError
from streamrank.events.types import Record
from streamrank.pipeline.checkpoint import Checkpoint
from streamrank.pipeline.flow import Flow
from streamrank.pipeline.schedule import Schedule, restore_newest, snapshot
from streamrank.simulation import Settings as SimulationSettings
from streamrank.simulation import Simulator
from streamrank.state import open_store
from streamrank.state.digest import digest
from streamrank.state.snapshot import read_snapshot, restore_snapshot

RECORDS = [
    Record(n, value, f"t:{n}")
    for n, value in enumerate(Simulator(SimulationSettings(events=1200, seed=5, malformed=0.01)).records())
]


@pytest.fixture
def schedule(tmp_path):
    """A store, a clock to turn, and a schedule of both."""

    class Taking:
        now = 1_700_000_000.0

        def __init__(self):
            self.store = open_store("memory://")
            self.epochs = {shard: self.store.acquire(shard) for shard in "ab"}

        def learn(self, shard, n):
            start = self.store.offset(shard)
            self.store.commit(shard, self.epochs[shard], {}, start=start, end=start + n)

        def plan(self, **settings):
            given = SnapshotSettings(folder=str(tmp_path / "taken"), **settings)
            return Schedule(self.store, given, now=lambda: self.now)

    return Taking()


def test_by_events_of_all_shards_together(schedule):
    plan = schedule.plan(every_events=100)
    schedule.learn("a", 60)
    assert plan.maybe_take() is None
    schedule.learn("b", 40)
    path = plan.maybe_take()
    assert read_snapshot(path).info.offsets == {"a": 60, "b": 40}
    assert plan.maybe_take() is None


def test_by_seconds_and_only_if_something_was_learnt(schedule):
    plan = schedule.plan(every_seconds=30)
    schedule.learn("a", 1)
    schedule.now += 29
    assert plan.maybe_take() is None
    schedule.now += 1
    assert plan.maybe_take() is not None
    schedule.now += 1000
    assert plan.maybe_take() is None
    schedule.learn("a", 1)
    assert plan.maybe_take() is not None


def test_two_workers_that_share_a_folder_take_one_between_them(schedule):
    one, other = schedule.plan(every_events=10), schedule.plan(every_events=10)
    schedule.learn("a", 10)
    assert one.maybe_take() is not None
    assert other.maybe_take() is None


def test_a_second_worker_takes_none_while_the_first_is_at_it(schedule, monkeypatch):
    one, other = schedule.plan(every_events=10), schedule.plan(every_events=10)
    schedule.learn("a", 10)
    answers = []

    def slowly(path, store):
        answers.append(other.maybe_take())
        return snapshot(path, store)

    monkeypatch.setattr("streamrank.pipeline.schedule.snapshot", slowly)
    assert one.maybe_take() is not None
    assert answers == [None]
    assert other.maybe_take() is None


def test_what_a_worker_left_that_was_killed_while_it_wrote_goes_with_the_next(schedule):
    plan = schedule.plan(every_events=1)
    plan.folder.mkdir()
    name = "20261118T142352.267545Z-000000017661.safetensors"
    left, mine = plan.folder / f".{name}.{uuid.uuid4().hex}", plan.folder / ".mine.safetensors.part"
    for path in (left, mine):
        path.write_bytes(b"half")
    schedule.learn("a", 1)
    assert plan.maybe_take() is not None
    assert (left.exists(), mine.exists()) == (False, True)


def test_the_way_back_of_a_shard_that_was_lost_is_kept_while_others_go_on(schedule):
    plan = schedule.plan(every_events=10, keep=2)
    for _ in range(3):
        schedule.learn("a", 50)
        schedule.learn("b", 50)
        schedule.now += 1
        whole = plan.maybe_take()
    for shard in "ab":  # all is lost; b comes back later
        schedule.store.reset(shard)
    schedule.epochs["a"] = schedule.store.acquire("a")
    for _ in range(8):
        schedule.learn("a", 10)
        schedule.now += 1
        assert plan.maybe_take() is not None
    kept = taken_in(plan.folder)
    assert len(kept) == 2 + 2
    assert whole in kept
    epoch = schedule.store.acquire("b")
    assert restore_newest(schedule.store, "b", epoch, plan.folder) == whole
    assert schedule.store.offset("b") == 150


def taken_in(folder):
    return sorted(folder.glob("*.safetensors"))


def test_the_newest_are_kept_and_files_of_others_are_left_alone(schedule):
    plan = schedule.plan(every_events=1, keep=2)
    plan.folder.mkdir()
    mine = plan.folder / "before-the-migration.safetensors"
    mine.write_bytes(b"mine")
    taken = []
    for _ in range(5):
        schedule.learn("a", 1)
        schedule.now += 1
        taken.append(plan.maybe_take())
    assert taken_in(plan.folder) == sorted([mine, *taken[-2:]])


def test_a_store_that_was_set_back_is_snapshot_anew(schedule):
    plan = schedule.plan(every_events=10)
    schedule.learn("a", 25)
    plan.maybe_take()
    schedule.store.reset("a")
    schedule.epochs["a"] = schedule.store.acquire("a")
    schedule.learn("a", 3)
    schedule.now += 1
    assert read_snapshot(plan.maybe_take()).info.offsets == {"a": 3, "b": 0}


def test_off_unless_it_is_set(schedule):
    plan = schedule.plan()
    schedule.learn("a", 10**6)
    schedule.now += 10**6
    assert plan.maybe_take() is None


def test_one_that_cannot_be_written_is_logged_and_tried_again(schedule, monkeypatch, caplog):
    plan = schedule.plan(every_events=1)
    schedule.learn("a", 1)

    def full_disk(_):
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(os, "fsync", full_disk)
        assert plan.maybe_take() is None
    assert "No space left on device" in caplog.text
    assert [path.name for path in plan.folder.iterdir()] == [".lock"]
    assert plan.maybe_take() is not None


def learn(store, folder="", until=None, every=100):
    snapshots = SnapshotSettings(every_events=300 if folder else 0, folder=str(folder), keep=9)
    settings = msgspec.structs.replace(Settings(), commit_every=every, commit_ms=10**9, snapshots=snapshots)
    checkpoint = Checkpoint(store, Flow(settings))
    for record in RECORDS[checkpoint.flow.offset : until]:
        checkpoint.flow.step(record)
        checkpoint.maybe_commit()
    checkpoint.commit()
    return digest(store)


def test_from_each_file_taken_on_the_way_the_rest_leads_to_the_same_state(tmp_path):
    with open_store("memory://") as store:
        straight = learn(store, tmp_path / "taken")
    taken = taken_in(tmp_path / "taken")
    assert [int(path.stem.partition("-")[2]) for path in taken] == [300, 600, 900, 1200]
    for path in taken:
        with open_store("memory://") as store:
            restore_snapshot(path, store)
            assert learn(store, every=37) == straight


def test_from_redis_to_sqlite_and_back_the_digest_stays_and_learning_goes_on(tmp_path, redis_url):
    def redis():
        return open_store(f"{redis_url}?prefix={uuid.uuid4().hex}")

    with open_store("memory://") as store:
        straight = learn(store)
    with redis() as store:
        before = learn(store, tmp_path / "one", until=700)
    with open_store(f"sqlite:///{tmp_path}/s.db") as store:
        # the last file is of 600; what came after it is learnt here
        assert restore_snapshot(taken_in(tmp_path / "one")[-1], store).offsets == {"0": 600}
        assert learn(store, until=700) == before
        at_800 = learn(store, tmp_path / "two", until=800)
    with redis() as store:
        restore_snapshot(taken_in(tmp_path / "two")[-1], store)
        assert digest(store) == at_800
        assert learn(store) == straight


def test_a_damaged_file_of_the_folder_is_refused_and_the_one_before_it_serves(tmp_path):
    with open_store("memory://") as store:
        straight = learn(store, tmp_path / "taken")
        *_, older, newest = taken_in(tmp_path / "taken")
        newest.write_bytes(newest.read_bytes()[:-1])
        with pytest.raises(SnapshotError):
            restore_snapshot(newest, store, overwrite=True)
        restore_snapshot(older, store, overwrite=True)
        assert learn(store) == straight
