import msgspec
import psutil
import pytest

from streamrank.config import Settings
from streamrank.events.types import Record
from streamrank.pipeline.checkpoint import Checkpoint
from streamrank.pipeline.flow import Flow
from streamrank.simulation import Settings as SimulationSettings
from streamrank.simulation import Simulator
from streamrank.state import open_store


def test_every_event_has_one_fate(log, settings):
    flow = Flow(settings)
    for offset, value in enumerate(log):
        flow.step(Record(offset, value))
    counts = flow.counts
    assert counts["events"] == len(log)
    assert flow.accepted + counts["rejected"] + counts["duplicates"] + counts["late"] == counts["events"]
    assert min(counts["rejected"], counts["duplicates"], counts["late"]) > 0
    assert sum(counts[kind] for kind in ("ranking", "interaction", "item", "user")) == flow.accepted


def test_the_fates_are_those_the_simulator_gave_them(log, settings):
    simulator = Simulator(
        SimulationSettings(
            events=3000, seed=11, malformed=0.02, duplicates=0.03, late=0.02, drift_at=0.5, mean_gap_ms=20_000
        )
    )
    assert list(simulator.records()) == log
    flow = Flow(settings)
    for offset, value in enumerate(log):
        flow.step(Record(offset, value))
    assert flow.counts["rejected"] == simulator.counts["malformed"] == len(flow.letters)
    assert flow.counts["duplicates"] == simulator.counts["duplicates"]
    assert flow.counts["late"] == simulator.counts["late"]


@pytest.mark.slow
def test_memory_is_flat_on_a_long_stream():
    """100,000 events, 1 % malformed, 2 % duplicated, 2 % late: nothing grows over the last four fifths."""
    simulator = Simulator(
        SimulationSettings(events=100_000, seed=5, malformed=0.01, duplicates=0.02, late=0.02)
    )
    checkpoint = Checkpoint(
        open_store("memory://"), Flow(msgspec.structs.replace(Settings(), commit_ms=10**9))
    )
    flow, process, sizes = checkpoint.flow, psutil.Process(), []
    for offset, value in enumerate(simulator.records()):
        flow.step(Record(offset, value))
        checkpoint.maybe_commit()
        if offset % 5000 == 0:
            sizes.append(process.memory_info().rss)
    counts = flow.counts
    assert flow.accepted + counts["rejected"] + counts["duplicates"] + counts["late"] == 100_000
    early, late = max(sizes[4:8]), max(sizes[-4:])
    assert late < early * 1.10, f"RSS grew from {early >> 20} to {late >> 20} MiB: {[s >> 20 for s in sizes]}"
