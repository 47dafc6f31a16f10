"""A worker whose process is killed (kill -9) at any step of the protocol: nothing lost, nothing doubled."""

import signal

import pytest

from streamrank.state.digest import shard_digests
from tests.integration.live import environ, events, learn, replayed
from tests.integration.zygote import Zygote

STEPS = ["1", "2a", "2b", "3a:2", "3b:2", "4a:2", "4b", "4c:2", "5:2", "6a", "6b"]


@pytest.fixture(scope="module")
def zygote():
    with Zygote() as running:
        yield running


@pytest.mark.parametrize("step", STEPS)
def test_a_worker_that_is_killed_at_any_step_loses_and_doubles_nothing(
    step, new_topic, produce, settings, store, store_url, zygote
):
    name = new_topic()
    s = settings(name, dead_letter_topic=new_topic(), options={"session_timeout_ms": 800})
    produce(name, [*events(0, 30), b"poison", *events(30, 60)])
    command = ["consume", "clicks", "--topic", name, "--group", name, "--until-idle", "0.3"]
    env = environ(s, STREAMRANK_TEST_KILL_AT=step)
    assert zygote.run(*command, "--store", store_url, env=env) == -signal.SIGKILL
    learn(settings(name), store)
    assert shard_digests(store) == replayed(s)
    assert store.offset(f"{name}[0]") == 121
