"""Whatever happens on the way, the state at the end is that of an undisturbed run, bit for bit."""

import random

import msgspec
import pytest

from streamrank.events.types import Record
from streamrank.pipeline import flow as flow_module
from streamrank.pipeline.checkpoint import Checkpoint
from streamrank.pipeline.flow import Flow
from streamrank.pipeline.memory import all_entries
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
