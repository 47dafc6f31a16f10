"""A worker whose process is killed (kill -9) at any step of the protocol: nothing lost, nothing doubled."""

import signal

import msgspec
import pytest

from streamrank.config import RecommenderSettings
from streamrank.kernels.factors import CLICKS
from streamrank.pipeline.flow import Flow
from streamrank.pipeline.memory import restore
from streamrank.state.digest import shard_digests
from tests.integration.live import click, environ, events, learn, replayed
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


@pytest.mark.parametrize("step", ["7", "7:2", "4c:4"])
def test_a_worker_that_is_killed_while_its_shards_pool_counts_every_click_once(
    step, new_topic, produce, settings, store, store_url, zygote
):
    name, latent = new_topic(partitions=2), RecommenderSettings(name="latent", params={"d": 4})
    s = settings(name, sections={"recommenders": [msgspec.to_builtins(latent)], "pool": {"every_seconds": 1}})
    for partition in range(2):
        produce(
            name, [{**click(n, n % 4 + 2 * partition), "user": f"u{partition}"} for n in range(60)], partition
        )
    command = ["consume", "clicks", "--topic", name, "--group", name, "--until-idle", "2.5"]
    env = environ(
        s, STREAMRANK_TEST_KILL_AT=step, STREAMRANK_POOL_EVERY_SECONDS="1",
        STREAMRANK_RECOMMENDERS=msgspec.json.encode(s.recommenders).decode(),
    )  # fmt: skip
    assert zygote.run(*command, "--store", store_url, env=env) == -signal.SIGKILL
    learn(s, store, idle=2.5)
    for partition in range(2):
        flow = Flow(s)
        restore(flow, *store.read(f"{name}[{partition}]"))
        tables = flow.recommenders[0].learner._tables
        assert flow.counts["clicks"] == tables.arrays.item_marks[:, CLICKS].clip(0).sum() == flow.offset == 60
        assert set(tables.items.ids) == {f"i{k}" for k in range(6)}
