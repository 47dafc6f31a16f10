"""Whatever happens on the way, the state at the end is that of an undisturbed run, bit for bit."""

import os
import random
import signal
import threading

import msgspec
import numpy as np
import pytest

from streamrank.config import Settings
from streamrank.errors import StoreError
from streamrank.events.types import Record
from streamrank.pipeline import flow as flow_module
from streamrank.pipeline.checkpoint import Checkpoint
from streamrank.pipeline.flow import Flow
from streamrank.pipeline.memory import all_entries
from streamrank.pipeline.replay import replay
from streamrank.state import open_store
from streamrank.state.digest import digest
from streamrank.state.snapshot import restore_snapshot, write_snapshot


def run(log, settings, store, every=1000, stop_at=None):
    """Learn from the log from where the store stands; `stop_at` dies without a commit."""
    checkpoint = Checkpoint(store, Flow(msgspec.structs.replace(settings, commit_every=every)))
    flow = checkpoint.flow
    for offset in range(flow.offset, len(log)):
        if offset == stop_at:
            return flow
        flow.step(Record(offset, log[offset]))
        checkpoint.maybe_commit()
    checkpoint.commit()
    return flow


@pytest.fixture(scope="module")
def undisturbed(log):
    cache = {}

    def digest_under(settings):
        key = msgspec.json.encode(settings.learning())
        if key not in cache:
            store = open_store("memory://")
            run(log, settings, store)
            cache[key] = digest(store)
        return cache[key]

    return digest_under


@pytest.mark.parametrize("every", [1, 7, 250, 10**9])
def test_the_commit_interval_does_not_matter(log, settings, undisturbed, every):
    store = open_store("memory://")
    run(log, settings, store, every)
    assert digest(store) == undisturbed(settings)


@pytest.mark.parametrize("micro", [1, 3, 1000])
def test_the_micro_batch_does_not_matter(log, settings, undisturbed, micro, monkeypatch):
    monkeypatch.setattr(flow_module, "MICRO_BATCH", micro)
    store = open_store("memory://")
    run(log, settings, store)
    assert digest(store) == undisturbed(settings)


def test_dying_at_random_moments_does_not_matter(log, settings, undisturbed):
    rng = random.Random(5)
    store = open_store("memory://")
    every = 23
    while store.offset("0") < len(log):
        run(log, settings, store, every, stop_at=store.offset("0") + rng.randrange(1, 400))
        if store.offset("0") > len(log) - every:
            break
    run(log, settings, store, every)
    assert digest(store) == undisturbed(settings)


@pytest.mark.parametrize("settle_ms", [0, 15_000])
@pytest.mark.parametrize("mode", ["vocabulary", "hashed"])
def test_a_snapshot_anywhere_and_the_rest_is_a_straight_run(
    log, settings, undisturbed, tmp_path, settle_ms, mode
):
    settings = msgspec.structs.replace(
        settings,
        join=msgspec.structs.replace(settings.join, settle_ms=settle_ms),
        features=msgspec.structs.replace(settings.features, mode=mode, columns=40, bits=6),
    )
    for k, stop in enumerate((1, 611, 1777, 2999)):
        first = open_store("memory://")
        run(log[:stop], settings, first, every=100)
        write_snapshot(tmp_path / f"{k}.safetensors", first)
        second = open_store("memory://")
        restore_snapshot(tmp_path / f"{k}.safetensors", second)
        run(log, settings, second, every=64)
        assert digest(second) == undisturbed(settings)


def test_what_the_commits_wrote_is_the_whole_state(log, settings):
    """Only changes are written; together they are everything."""
    store = open_store("memory://")
    flow = run(log, settings, store, every=13)
    assert store.load("0") == all_entries(flow)


def test_tables_with_small_limits_evict_alike_after_a_restart(log, settings, undisturbed):
    settings = msgspec.structs.replace(
        settings,
        join=msgspec.structs.replace(settings.join, max_open=20, max_ids=300),
        features=msgspec.structs.replace(settings.features, max_items=30),
    )
    store = open_store("memory://")
    for stop in (*range(200, 3000, 200), None):
        run(log, settings, store, every=10, stop_at=stop)
    assert digest(store) == undisturbed(settings)


def test_a_commit_that_fails_is_not_tried_again_from_void_memory(log, settings, undisturbed, monkeypatch):
    store = open_store("memory://")
    settings = msgspec.structs.replace(settings, commit_every=100)
    records = [Record(offset, value) for offset, value in enumerate(log)]
    real, calls = store.commit, iter(range(100))

    def sometimes(*args, **kwargs):
        if next(calls) == 7:
            raise StoreError("the disk is full")
        real(*args, **kwargs)

    monkeypatch.setattr(store, "commit", sometimes)
    with pytest.raises(StoreError):
        replay(records, Checkpoint(store, Flow(settings)))
    assert store.offset("0") == 700
    checkpoint = Checkpoint(store, Flow(settings))
    replay(records[checkpoint.flow.offset :], checkpoint)
    assert digest(store) == undisturbed(settings)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_stops_between_two_records(log, settings, undisturbed, number):
    """Sent from another thread, it arrives anywhere: in a step, in a commit, in a kernel."""
    store, rng, stops = open_store("memory://"), random.Random(7), 0
    settings = msgspec.structs.replace(settings, commit_every=50)
    run(log[:1], settings, store)  # compiles, so that what follows is quick
    while len(log) - store.offset("0") > 1000:  # enough left to do that the signal finds it running
        checkpoint = Checkpoint(store, Flow(settings))
        rest = [Record(k, log[k]) for k in range(checkpoint.flow.offset, len(log))]
        timer = threading.Timer(rng.uniform(0.0, 0.01), os.kill, (os.getpid(), number))
        with pytest.raises(KeyboardInterrupt):
            replay(
                rest, checkpoint, watch=lambda timer=timer: timer.is_alive() or timer.ident or timer.start()
            )
        assert store.offset("0") == checkpoint.flow.offset
        stops += 1
    run(log, settings, store)
    assert digest(store) == undisturbed(settings)
    assert stops > 3


def test_a_value_that_gets_a_column_later_has_it_after_a_restart_and_without_one(settings):
    """The vocabulary is three quarters full when the item is described, full when it is shown again."""
    settings = msgspec.structs.replace(
        settings, features=msgspec.structs.replace(settings.features, columns=4, text=[])
    )
    fields = [{"name": name, "value": 1.0} for name in "pqr"]
    records = [
        {"event": "ranking", "id": "r0", "timestamp": 1, "items": [{"id": "B", "fields": fields}]},
        {
            "event": "item",
            "id": "m",
            "timestamp": 2,
            "item": "A",
            "fields": [{"name": "emb", "value": [5.0]}],
        },
        {"event": "preference", "better": {"emb[0]": 1.0}, "worse": {"emb[0]": 0.0}},
        {"event": "ranking", "id": "r1", "timestamp": 3, "items": [{"id": "A"}, {"id": "B"}]},
        {"event": "interaction", "id": "c", "timestamp": 4, "ranking": "r1", "item": "A", "type": "click"},
    ]
    log = [msgspec.json.encode(record) for record in records]
    straight = open_store("memory://")
    run(log, settings, straight)
    for stop in range(1, 5):
        store = open_store("memory://")
        run(log[:stop], settings, store)
        run(log, settings, store)
        assert digest(store) == digest(straight)


def test_a_dead_letter_holds_its_own_part_of_an_array_and_no_more_than_a_bounded_piece():
    flow = Flow(Settings())
    flow.step(Record(0, b'[{"event":"scroll"},{"event":"example","x":{},"y":1},{"event":"jump"}]'))
    assert [letter.value for letter in flow.letters] == [b'{"event":"scroll"}', b'{"event":"jump"}']
    flow.step(Record(1, b"x" * (1 << 20)))
    assert len(flow.letters[-1].value) == 1 << 16
    assert "1048576 bytes" in flow.letters[-1].error


def test_what_is_kept_by_item_has_been_forgotten_and_came_back_on_the_way(log, settings):
    # else the tests above would say nothing of it
    flow = run(log, settings, open_store("memory://"))
    learner = flow.models[2].learner
    kept = [entry for name, entry in learner.to_state().items() if name.startswith("u/")]
    assert len(kept) == learner.max_queries
    assert max(len(items) for _, _, items, _ in kept) == learner.max_items
    assert max(used for used, *_ in kept) > 50 * learner.max_queries
    assert all(np.isfinite(numbers).all() for _, numbers, _, _ in kept)
