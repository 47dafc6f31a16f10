"""kill -9 at every step of a reconciliation, and a worker that learns on beside one: SQLite and Redis."""

import multiprocessing
import os
import signal
import uuid

import pytest

from streamrank.config import ModelSettings, ReconcileSettings, Settings
from streamrank.errors import Fenced
from streamrank.events.types import Record
from streamrank.pipeline.checkpoint import Checkpoint
from streamrank.pipeline.datasets import LogData, again
from streamrank.pipeline.flow import Flow
from streamrank.pipeline.memory import all_entries
from streamrank.pipeline.reconcile import reconcile
from streamrank.pipeline.swap import roll_back, swaps_of
from streamrank.simulation import Settings as SimulationSettings
from streamrank.simulation import Simulator
from streamrank.sources import open_source
from streamrank.state import open_store

SLOW = ModelSettings(name="slow", learner="ranknet", params={"rate": 0.0005})
SETTINGS = Settings(models=[SLOW], reconcile=ReconcileSettings(margin=0.0))
LOG = list(Simulator(SimulationSettings(events=1500, seed=3, drift_at=0.3)).records())
TAKEN = 1000
FORK = multiprocessing.get_context("fork")  # a process that has loaded everything


@pytest.fixture(params=["sqlite", "redis"])
def url(request, tmp_path):
    if request.param == "sqlite":
        return f"sqlite:///{tmp_path}/state.db"
    return f"{request.getfixturevalue('redis_url')}?prefix={uuid.uuid4().hex}"


@pytest.fixture
def log(tmp_path):
    path = tmp_path / "log.jsonl"
    path.write_bytes(b"\n".join(LOG) + b"\n")
    return path


def learn(checkpoint, end):
    for offset in range(checkpoint.flow.offset, end):
        checkpoint.flow.step(Record(offset, LOG[offset]))
    checkpoint.commit()


def state(store):
    return {key: value for key, value in store.load("0").items() if key not in ("swaps/slow", "source")}


def oracle(swaps, end):
    """The log again, the weights of each swap taken where it was made."""
    flow, due = Flow(SETTINGS), {swap.offset: swap.after for swap in swaps}
    for offset in range(end + 1):
        if offset in due:
            flow.learn()
            flow.models[0].learner.take_weights(due[offset])
        if offset < end:
            flow.step(Record(offset, LOG[offset]))
    flow.learn()
    return {key: value for key, value in all_entries(flow).items() if key != "source"}


def reconcile_apart(url, log, at):
    """In a process of its own, with its own connections."""
    with open_store(url) as store:
        reconcile(store, LogData(open_source([log]), SETTINGS), SETTINGS, at=at)


def test_killed_at_any_step_the_old_or_the_new_model_stands_and_a_rerun_completes(url, log):
    with open_store(url) as store:
        learn(Checkpoint(store, Flow(SETTINGS)), TAKEN)
        old = state(store)
    for step in range(1, 9):  # each run gets one step further than the one before it
        kill = FORK.Process(
            target=reconcile_apart,
            args=(url, log, lambda at, step=step: os.kill(os.getpid(), signal.SIGKILL) if at == step else 0),
        )
        kill.start()
        kill.join()
        assert kill.exitcode == -signal.SIGKILL
        with open_store(url) as store:
            assert (state(store) == old) == (step < 8)
            assert len(swaps_of(store, "0", "slow")) == (step == 8)
    with open_store(url) as store:
        new = state(store)
        assert new == oracle(swaps_of(store, "0", "slow"), TAKEN)
        again = reconcile(store, LogData(open_source([log]), SETTINGS), SETTINGS)
        assert (again["swapped"], again["already"]) == (False, True)
        assert state(store) == new


def test_a_worker_that_learns_on_meanwhile_learns_every_record_exactly_once(url, log):
    with open_store(url) as store:
        worker = Checkpoint(store, Flow(SETTINGS))
        learn(worker, TAKEN)
        beside = FORK.Process(target=reconcile_apart, args=(url, log, lambda _: None))
        beside.start()
        fenced = 0
        while beside.is_alive() or worker.flow.offset < len(LOG):
            try:
                learn(worker, min(worker.flow.offset + 1, len(LOG)))
                beside.join(0.01 if beside.is_alive() else 0)
            except Fenced:
                worker, fenced = Checkpoint(store, Flow(SETTINGS)), fenced + 1
        assert beside.exitcode == 0
        swaps = swaps_of(store, "0", "slow")
        assert len(swaps) == 1
        assert swaps[0].offset >= TAKEN
        assert fenced <= 1  # not at all if the log ended before the swap
        assert state(store) == oracle(swaps, len(LOG))


SHARDS = ("clicks[0]", "clicks[1]")


class Halves:
    """The log dealt out to two shards, as two partitions would hold it."""

    def __init__(self):
        self.records = {shard: LOG[k : 2 * TAKEN : 2] for k, shard in enumerate(SHARDS)}

    def learn(self, store, shard, end):
        checkpoint = Checkpoint(store, Flow(SETTINGS), shard=shard)
        for offset in range(checkpoint.flow.offset, end):
            checkpoint.flow.step(Record(offset, self.records[shard][offset]))
        checkpoint.commit()

    def lists(self, shard, end, entries):
        return again(enumerate(self.records[shard]), SETTINGS, end, entries, lambda *_: None)

    def note(self, *_):
        return None

    def first(self, _):
        return 0


def test_a_swap_of_two_shards_that_dies_anywhere_is_completed_as_it_was_defined(tmp_path):
    url, halves = f"sqlite:///{tmp_path}/state.db", Halves()

    def apart(kill_at):
        steps = iter(range(100))

        def at(_):
            if next(steps) == kill_at:
                os.kill(os.getpid(), signal.SIGKILL)

        with open_store(url) as store:
            reconcile(store, halves, SETTINGS, shards=SHARDS, at=at)

    def ids(store):
        return [[swap.id for swap in swaps_of(store, shard, "slow")] for shard in SHARDS]

    with open_store(url) as store:
        for shard in SHARDS:
            halves.learn(store, shard, 600)
    optima, n = {}, 0
    # steps 1 2 3 4, 5 6 7 8 of each shard, 9; after the first commit 1, 5 6 7 8 of each shard (the plan is
    # written again), 9; after the second 1, 5 6 7 8, 5 6, 9
    for kill_at, expected in (
        (6, [0, 0]), (7, [1, 0]), (2, [1, 0]), (5, [1, 0]), (8, [1, 1]), (7, [1, 1]), (99, [1, 1]),
    ):  # fmt: skip
        run = FORK.Process(target=apart, args=(kill_at,))
        run.start()
        run.join()
        assert run.exitcode == (0 if kill_at == 99 else -signal.SIGKILL)
        with open_store(url) as store:
            found = ids(store)
            assert [len(one) for one in found] == expected
            assert {one for each in found for one in each} <= {"slow@600,600"}  # defined once
            for shard in SHARDS:
                for swap in swaps_of(store, shard, "slow"):
                    assert (optima.setdefault(shard, swap.optimum) == swap.optimum).all()
            if expected == [1, 0]:
                halves.learn(store, SHARDS[1], 601 + n)  # learning goes on between the tries
                n += 1
    with open_store(url) as store:
        assert store.get(SHARDS[0], "plan/slow") is None
        assert [swap.offset for swap in swaps_of(store, SHARDS[1], "slow")] == [601 + n - 1]
        for shard in SHARDS:
            assert roll_back(store, shard, SETTINGS, "slow").id == "slow@600,600"
