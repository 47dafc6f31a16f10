"""Reconciliations on a schedule, beside the worker; and a swap that does harm is taken back by itself."""

import logging
import time

import msgspec
import numpy as np
import pytest

from streamrank.config import ArchiveSettings, ModelSettings, ReconcileSettings, Settings, load_settings
from streamrank.errors import ConfigError, Fenced
from streamrank.events.types import Record
from streamrank.pipeline import driftlog
from streamrank.pipeline.checkpoint import Checkpoint
from streamrank.pipeline.driftlog import drift_history, note_drift
from streamrank.pipeline.flow import Flow
from streamrank.pipeline.guard import Guard, Watch
from streamrank.pipeline.swap import Made, put_in, standing_swap, swaps_of
from streamrank.pipeline.upkeep import Upkeep, due
from streamrank.simulation import Settings as SimulationSettings
from streamrank.simulation import Simulator
from streamrank.state import open_store

pytest.importorskip("pyarrow")
LOG = list(Simulator(SimulationSettings(events=3000, seed=3)).records())
SLOW = ModelSettings(name="slow", learner="ranknet", params={"rate": 0.0005})


@pytest.fixture
def settings(tmp_path):
    return Settings(
        store=f"sqlite:///{tmp_path}/s.db",
        models=[SLOW],
        archive=ArchiveSettings(folder=str(tmp_path / "archive")),
        reconcile=ReconcileSettings(margin=0.0, every_events=1000, memory_mb=256),
    )


def learn(checkpoint, end):
    for offset in range(checkpoint.flow.offset, end):
        checkpoint.flow.step(Record(offset, LOG[offset]))
    checkpoint.commit()


def test_every_so_many_events_a_process_reconciles_while_the_worker_learns_on(settings):
    with open_store(settings.store) as store:
        upkeep = Upkeep(settings, store, now=iter(range(10**6)).__next__)
        checkpoint = Checkpoint(store, Flow(settings))
        learn(checkpoint, 900)
        upkeep.turn()
        assert upkeep._process is None
        learn(checkpoint, 1500)
        upkeep.turn()
        assert upkeep._process.wait() == 0  # within its memory
        (entry,) = drift_history(settings)
        assert (entry["model"], entry["offset"], entry["events"]) == ("slow", 1500, 1500)
        assert entry["swapped"]
        assert 0 < entry["drift"]["pairwise_error_optimal"] < entry["drift"]["pairwise_error_online"] < 1
        with pytest.raises(Fenced):
            learn(checkpoint, 1600)
        checkpoint = Checkpoint(store, Flow(settings))
        assert checkpoint.flow.offset == 1500
        upkeep.turn()
        assert len(drift_history(settings)) == 1  # not due
        upkeep.close()


def test_by_time_it_is_due_only_if_something_was_learnt(settings):
    timed = ReconcileSettings(every_seconds=60)
    settings = msgspec.structs.replace(settings, reconcile=timed)
    with open_store(settings.store) as store:
        assert not due(settings, store, 0.0, 61.0)
        learn(Checkpoint(store, Flow(settings)), 100)
        assert not due(settings, store, 0.0, 59.0)
        assert due(settings, store, 0.0, 61.0)
        note_drift(settings, model="slow", events=100, error="too few lists")
        assert not due(settings, store, 0.0, time.time() + 61)
        learn(Checkpoint(store, Flow(settings)), 200)
        assert due(settings, store, 0.0, time.time() + 61)


def test_without_an_archive_there_is_no_schedule(settings):
    with pytest.raises(ConfigError, match=r"set archive\.folder"):
        load_settings(None, {"STREAMRANK_RECONCILE_EVERY_EVENTS": "5"})
    with pytest.raises(ConfigError, match="memory://"), open_store("memory://") as store:
        Upkeep(msgspec.structs.replace(settings, store="memory://"), store)


def test_the_history_is_bounded(settings, monkeypatch):
    monkeypatch.setattr(driftlog, "KEPT", 10)
    for n in range(25):
        note_drift(settings, model="slow", events=n)
    kept = [entry["events"] for entry in drift_history(settings)]
    assert kept[-1] == 24
    assert 5 <= len(kept) <= 10
    assert kept == list(range(25 - len(kept), 25))


def test_a_swap_that_does_harm_is_taken_back_and_told(settings, caplog):
    with open_store(settings.store) as store:
        guard = Guard(settings, store)
        checkpoint = Checkpoint(store, Flow(settings))
        guard.opened("0", checkpoint.flow)
        learn(checkpoint, 1800)
        good = checkpoint.flow.models[0].learner.served_weights().copy()
        put_in(store, "0", settings, "slow", lambda now: Made("slow@bad", "replace", -now, -now))
        checkpoint = Checkpoint(store, Flow(settings))
        guard.opened("0", checkpoint.flow)
        for end in range(1850, 3001, 50):
            learn(checkpoint, end)
            if guard.act():
                break
        assert end < 3000
        assert standing_swap(store, "0", "slow") is None
        assert [swap.kind for swap in swaps_of(store, "0", "slow")] == ["replace", "rollback"]
        back = Checkpoint(store, Flow(settings)).flow.models[0].learner.served_weights()
        np.testing.assert_allclose(back[: len(good)], good, atol=1e-12)
        assert not guard.act()  # once
        (entry,) = drift_history(settings)
        assert entry["rolled_back"] == "slow@bad"
        assert entry["ndcg_after"] < entry["ndcg_before"] - settings.reconcile.rollback
        told = [record for record in caplog.records if record.levelno == logging.ERROR]
        assert "after the swap slow@bad of model slow: it was taken back" in told[0].getMessage()


@pytest.mark.parametrize(("level", "fallen"), [(0.7, False), (0.66, False), (0.55, True)])
def test_only_a_fall_by_the_amount_set_counts(level, fallen):
    rng = np.random.default_rng(0)
    watch = Watch(0.05)
    watch.add(rng.normal(0.7, 0.1, 1000))
    watch.add(rng.normal(0.4, 0.1, 500))  # it falls without a swap
    assert not watch.fallen
    watch.add(rng.normal(0.7, 0.1, 3000))
    watch.swapped("s")
    watch.add(rng.normal(level, 0.1, 500))
    assert watch.fallen == fallen


def test_where_too_little_is_known_from_before_nothing_is_taken_back():
    watch = Watch(0.05)
    watch.add(np.full(20, 0.9))
    watch.swapped("s")
    watch.add(np.tile([0.1, 0.2], 500))
    assert not watch.fallen
