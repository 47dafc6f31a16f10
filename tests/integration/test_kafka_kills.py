"""A worker whose process is killed (kill -9) at any step of the protocol: nothing lost, nothing doubled."""

import json
import signal

import pytest

from streamrank.state.digest import shard_digests
from tests.integration.live import environ, events, learn, replayed, run

STEPS = ["1", "2a", "2b", "3a:2", "3b:2", "4a:2", "4b", "4c:2", "5:2", "6a", "6b"]


@pytest.mark.parametrize("step", STEPS)
def test_a_worker_that_is_killed_at_any_step_loses_and_doubles_nothing(
    step, new_topic, produce, settings, store, store_url
):
    name = new_topic()
    s = settings(name, dead_letter_topic=new_topic(), options={"session_timeout_ms": 800})
    produce(name, [*events(0, 30), b"poison", *events(30, 60)])
    command = ["consumers.clicks", "--topic", name, "--group", name, "--until-idle", "0.3"]
    killed = run(*command, "--store", store_url, env=environ(s, STREAMRANK_TEST_KILL_AT=step))
    assert killed.returncode == -signal.SIGKILL, killed.stderr
    learn(settings(name), store)
    assert shard_digests(store) == replayed(s)
    assert store.offset(f"{name}[0]") == 121


def test_workers_that_are_killed_are_started_again_and_end_as_the_replay_does(
    new_topic, produce, settings, store_url
):
    name = new_topic(partitions=2)
    s = settings(name, options={"session_timeout_ms": 800})
    for partition in (0, 1):
        produce(name, events(0, 60), partition)
    command = ["streamrank", "consume", "examples", "--topic", name, "--until-idle", "1", "--workers", "2"]
    # there are 12 commits to make, or a few more
    done = run(*command, "--store", store_url, "--json", env=environ(s, STREAMRANK_TEST_KILL_AT="4c:5"))
    assert done.returncode == 0, done.stderr
    assert "started again" in done.stderr
    told = json.loads(done.stdout)
    assert {n: (one["digest"], one["offset"]) for n, one in told["shards"].items()} == replayed(s)
