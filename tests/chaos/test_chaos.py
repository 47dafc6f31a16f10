"""The short form of `make chaos`: fewer faults, the same verdict."""

import pytest

from .faults import MIX
from .run import Chaos, run


@pytest.fixture
def ours(broker):
    if not hasattr(broker, "restart"):
        pytest.skip("the broker in STREAMRANK_TEST_KAFKA is not ours to kill")
    return broker


@pytest.mark.slow
def test_a_worker_that_writes_state_and_offset_one_after_the_other_is_caught(ours):
    chaos = Chaos(events=1500, faults=1, seed=1, naive=True, naive_dies_at=9, mix={"kill": 1})
    outcome = run(chaos, ours)
    assert len(outcome.live) == 4
    assert outcome.wrong


@pytest.mark.slow
def test_whatever_dies_every_shard_ends_as_if_nothing_had_happened(ours):
    outcome = run(Chaos(events=3000, faults=5, seed=7), ours)
    assert outcome.faults.keys() == MIX.keys()
    assert (outcome.wrong, outcome.deaths) == ([], [])
    assert len(outcome.live) == 4
