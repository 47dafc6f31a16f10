"""The store in trouble while a worker learns: waited for, opened again, and every event learnt once."""

import os
from contextlib import ExitStack

import pytest
from kafka import TopicPartition

from streamrank.errors import StateLost, StoreError
from streamrank.state import open_store
from streamrank.state.digest import shard_digests
from tests.integration.live import events, learn, replayed, second
from tests.servers import free_port
from tests.servers.proxy import Proxy

HASTY = {"redis": {"timeout_ms": 100, "retry_ms": 0}}


def test_who_is_fenced_opens_the_shard_again_and_goes_on(new_topic, produce, settings, store):
    name = new_topic()
    s = settings(name)
    produce(name, events(0, 60))
    worker = learn(s, store, at=second("3b", lambda: store.acquire(f"{name}[0]")))
    assert worker.counts["reopened"] == 1
    assert shard_digests(store) == replayed(s)


def test_another_group_of_an_older_generation_is_told_whose_the_shard_is(new_topic, produce, settings, store):
    name = new_topic()
    produce(name, events(0, 10))
    store.acquire(f"{name}[0]", generation=50, owner="mornings@host:1")
    with pytest.raises(
        StoreError, match=r"learns it for the group 'mornings'.*Give --group mornings.*keep-state"
    ):
        learn(settings(name), store)
    store.reset(f"{name}[0]", keep_state=True)
    learn(settings(name), store)
    assert shard_digests(store) == replayed(settings(name))


@pytest.mark.parametrize(("what", "applied"), [("question", False), ("answer", True)])
def test_a_commit_whose_outcome_is_not_known_is_made_once(
    what, applied, new_topic, produce, settings, start_redis
):
    name, server = new_topic(), start_redis()
    s = settings(name, sections=HASTY)
    produce(name, events(0, 60))
    stood = []
    with ExitStack() as stack:
        proxy = Proxy(server.port)
        stack.callback(proxy.stop)
        store = stack.enter_context(open_store(f"redis://127.0.0.1:{proxy.port}", s))
        witness = stack.enter_context(open_store(server.url, s))

        def lose():
            stood.append(witness.offset(f"{name}[0]"))
            proxy.lose(what, b"EVAL")

        losing = second("3b", lose)

        def at(here):
            losing(here)
            if here == "3a" and proxy.lost and len(stood) == 1:
                stood.append(witness.offset(f"{name}[0]"))

        worker = learn(s, store, at=at)
        assert proxy.lost == worker.counts["reopened"] == 1
        assert (stood[1] > stood[0]) is applied
        assert shard_digests(store) == replayed(s)


def _loading(server):
    with server.client() as client:
        for n in range(300):
            client.set(f"other{n}", os.urandom(1000))
        client.save()
    server.kill()
    # as a larger file would take: two milliseconds a key
    server.start("--key-load-delay", "2000", "--loading-process-events-interval-bytes", "1024", wait=False)
    server.wait_until(lambda client: client.info("persistence")["loading"] == 1)


FAULTS = {  # how it begins, how it ends
    "full": (
        lambda server: server.client().config_set("maxmemory", 1),
        lambda server: server.client().config_set("maxmemory", 0),
    ),
    "read-only": (
        lambda server: server.client().execute_command("REPLICAOF", "127.0.0.1", free_port()),
        lambda server: server.client().execute_command("REPLICAOF", "NO", "ONE"),
    ),
    "loading": (_loading, lambda _: None),
    "killed": (lambda server: server.kill(), lambda server: server.start()),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_a_redis_that_takes_nothing_is_waited_for_and_all_is_learnt_once(
    fault, new_topic, produce, settings, start_redis
):
    name, server = new_topic(), start_redis(appendonly="yes" if fault == "killed" else "no")
    s = settings(name, sections=HASTY)
    produce(name, events(0, 60))
    begin, end = FAULTS[fault]
    polls = []
    beginning = second("3b", lambda: polls.append(begin(server)))

    def at(here):
        beginning(here)
        if here == "3a" and polls:
            polls.append(here)
            if len(polls) == 5:  # it was tried to open the shard meanwhile, and more than once
                end(server)

    with open_store(server.url, s) as store:
        worker = learn(s, store, at=at)
        assert worker.counts["reopened"] >= 1
        assert shard_digests(store) == replayed(s)


def test_a_store_that_takes_nothing_for_too_long_ends_the_worker(new_topic, produce, settings, start_redis):
    name, server = new_topic(), start_redis()
    s = settings(name, sections=HASTY, give_up_ms=1)
    produce(name, events(0, 60))
    with open_store(server.url, s) as store, pytest.raises(StoreError, match="cannot be reached"):
        learn(s, store, at=second("3b", server.kill))


def test_a_flushed_store_is_learnt_again_or_refused_as_set(new_topic, produce, settings, start_redis):
    name, server = new_topic(), start_redis()
    s = settings(name)
    produce(name, events(0, 60))
    with open_store(server.url, s) as store:
        learn(s, store, at=second("4c", server.client().flushall))
        assert shard_digests(store) == replayed(s)
        server.client().flushall()
        with pytest.raises(StateLost, match=r"the store knows nothing of it.*Restore a snapshot"):
            learn(settings(name, on_lost="stop"), store)
        assert store.offset(f"{name}[0]") == 0


def test_a_flushed_store_is_rebuilt_from_a_snapshot_and_the_rest_of_the_topic(
    new_topic, produce, settings, start_redis, admin, tmp_path
):
    name, server = new_topic(), start_redis()
    s = settings(name, sections={"snapshots": {"every_events": 30, "folder": str(tmp_path)}})
    produce(name, events(0, 60))
    with open_store(server.url, s) as store:
        learn(s, store)
        taken = sorted(tmp_path.iterdir())
        produce(name, events(60, 80))
        undisturbed = replayed(s)
        admin.delete_records({TopicPartition(name, 0): 60})  # the beginning is in the snapshots alone
        taken[-1].write_bytes(taken[-1].read_bytes()[:-1])  # and the newest of those is damaged
        server.client().flushall()
        learn(s, store)
        assert shard_digests(store) == undisturbed
        server.client().flushall()
        for path in tmp_path.iterdir():
            path.unlink()
        with pytest.raises(StateLost, match=r"up to offset 160.*begins at offset 60"):
            learn(s, store)
