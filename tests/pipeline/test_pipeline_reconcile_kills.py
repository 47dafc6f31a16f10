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
from streamrank.pipeline.flow import Flow
from streamrank.pipeline.memory import all_entries
from streamrank.pipeline.reconcile import reconcile
from streamrank.pipeline.swap import swaps_of
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
        reconcile(store, open_source([log]), SETTINGS, at=at)


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
        again = reconcile(store, open_source([log]), SETTINGS)
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
