"""The short form of `make chaos`: fewer faults, the same verdict."""

import pytest

from .faults import MIX
from .run import Chaos, run

WORKERS_DIE = {"kill": 5, "stop": 2}


@pytest.fixture
def ours(broker):
    if not hasattr(broker, "restart"):
        pytest.skip("the broker in STREAMRANK_TEST_KAFKA is not ours to kill")
    return broker


@pytest.mark.slow
def test_a_worker_that_writes_state_and_offset_one_after_the_other_is_caught(ours):
    outcomes = (
        run(Chaos(events=4000, faults=7, seed=n + 1, naive=True, mix=WORKERS_DIE), ours) for n in range(3)
    )
    assert any(outcome.wrong for outcome in outcomes)


@pytest.mark.slow
def test_whatever_dies_every_shard_ends_as_if_nothing_had_happened(ours):
    outcome = run(Chaos(events=5000, faults=8, seed=7), ours)
    assert outcome.faults.keys() == MIX.keys()
    assert (outcome.wrong, outcome.deaths) == ([], [])
    assert len(outcome.live) == 4
