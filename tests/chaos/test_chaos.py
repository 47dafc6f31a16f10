"""The short form of `make chaos`: fewer faults, the same verdict."""

import pytest

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
        run(Chaos(events=4000, faults=7, seed=n, naive=True, mix=WORKERS_DIE), ours) for n in range(3)
    )
    assert any(outcome.wrong for outcome in outcomes)
