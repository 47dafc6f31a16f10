"""Redis slow, silent, full, read-only, loading, flushed or gone: named, and nothing lost or done twice."""

import os
import signal
import threading
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from streamrank.config import RedisSettings
from streamrank.errors import Fenced, OffsetMismatch, StateLost, StoreDown, StoreFull, StoreReadOnly
from streamrank.state import DeadLetter, Standing
from streamrank.state.redis import RedisStore
from tests.servers.proxy import Proxy
from tests.servers.redis import Cluster, Server

S = "clicks[0]"
LETTER = DeadLetter(3, 0, "log:3", "bad-type", "no items", b"{")
HASTY = RedisSettings(timeout_ms=150, retry_ms=0)
PATIENT = RedisSettings(timeout_ms=150, retry_ms=20_000)


@pytest.fixture
def server(start_redis: Callable[..., Any]) -> Server:
    running: Server = start_redis()
    return running


@pytest.fixture
def proxy(server: Server) -> Iterator[Proxy]:
    between = Proxy(server.port)
    yield between
    between.stop()


@pytest.fixture
def stores() -> Iterator[Callable[..., RedisStore]]:
    opened: list[RedisStore] = []

    def store(server: Server | Proxy, settings: RedisSettings = PATIENT) -> RedisStore:
        opened.append(RedisStore(f"redis://127.0.0.1:{server.port}", settings))
        return opened[-1]

    yield store
    for one in opened:
        one.close()


@pytest.mark.parametrize("what", ["question", "answer"])
@pytest.mark.parametrize("times", [1, 3])
def test_a_commit_whose_question_or_answer_is_lost_is_made_once(
    server: Server, proxy: Proxy, stores: Callable[..., RedisStore], what: Any, times: int
) -> None:
    store, witness = stores(proxy), stores(server)
    epoch = store.acquire(S)
    store.commit(S, epoch, {"w": b"1"}, start=0, end=5)
    proxy.lose(what, b"EVAL", times=times)
    store.commit(S, epoch, {"w": b"2", "v": b"3"}, start=5, end=9, letters=[LETTER])
    assert proxy.lost == times
    assert (witness.read(S), witness.letters(S)) == (({"w": b"2", "v": b"3"}, 9), [LETTER])
    store.commit(S, epoch, {"w": None}, start=9, end=10)
    assert witness.read(S) == ({"v": b"3"}, 10)


def test_a_commit_that_moves_no_offset_is_made_once_too(
    server: Server, proxy: Proxy, stores: Callable[..., RedisStore]
) -> None:
    store = stores(proxy)
    epoch = store.acquire(S)
    store.commit(S, epoch, {}, start=0, end=4, letters=[LETTER])
    proxy.lose("answer", b"EVAL")
    store.commit(S, epoch, {"w": b"1"}, start=4, end=4, settled=[(3, 0)])
    assert (store.read(S), store.letters(S), proxy.lost) == (({"w": b"1"}, 4), [], 1)


@pytest.mark.parametrize(("what", "made"), [("question", False), ("answer", True)])
def test_a_commit_that_is_given_up_says_that_it_is_in_doubt_and_the_store_tells(
    server: Server, proxy: Proxy, stores: Callable[..., RedisStore], what: Any, made: bool
) -> None:
    store, witness = stores(proxy, HASTY), stores(server)
    epoch = store.acquire(S)
    proxy.lose(what, b"EVAL")
    with pytest.raises(StoreDown, match=r"not answer in time.*not known: acquire and load again.*timeout_ms"):
        store.commit(S, epoch, {"w": b"1"}, start=0, end=5)
    assert witness.read(S) == (({"w": b"1"}, 5) if made else ({}, 0))
    assert store.acquire(S) == epoch + 1


def test_a_commit_in_doubt_stays_in_doubt_when_redis_then_says_why_it_takes_none(
    server: Server, proxy: Proxy, stores: Callable[..., RedisStore]
) -> None:
    store = stores(proxy)
    epoch = store.acquire(S)
    proxy.lose("question", b"EVAL", then=lambda: server.client().config_set("maxmemory", 1))
    with pytest.raises(StoreFull, match=r"maxmemory.*not known: acquire and load again"):
        store.commit(S, epoch, {"w": b"1"}, start=0, end=1)


def test_a_commit_in_doubt_is_refused_if_another_has_taken_over_meanwhile(
    server: Server, proxy: Proxy, stores: Callable[..., RedisStore]
) -> None:
    store, other = stores(proxy), stores(server)
    epoch = store.acquire(S)

    def take_over() -> None:
        other.commit(S, other.acquire(S), {"w": b"theirs"}, start=5, end=6)

    proxy.lose("answer", b"EVAL", then=take_over)
    with pytest.raises(Fenced, match=r"epoch 2, this one has 1.*nothing is lost"):
        store.commit(S, epoch, {"w": b"mine"}, start=0, end=5)
    assert other.read(S) == ({"w": b"theirs"}, 6)


def test_a_redis_that_hangs_finds_the_same_commit_twice_when_it_wakes_and_makes_it_once(
    server: Server, stores: Callable[..., RedisStore]
) -> None:
    store = stores(server, RedisSettings(timeout_ms=50, retry_ms=20_000))
    epoch = store.acquire(S)
    server.signal(signal.SIGSTOP)
    waker = threading.Timer(0.6, server.signal, [signal.SIGCONT])
    waker.start()
    for n in range(20):
        store.commit(S, epoch, {"w": b"%d" % n}, start=n, end=n + 1)
    waker.join()
    assert store.read(S) == ({"w": b"19"}, 20)
    scripts = server.client().info("commandstats")["cmdstat_eval"]["calls"]
    assert scripts > 1 + 20  # else none came twice, and nothing was proved


def test_acquiring_again_after_a_lost_answer_leaves_one_owner(
    proxy: Proxy, stores: Callable[..., RedisStore]
) -> None:
    store = stores(proxy)
    proxy.lose("answer", b"EVAL")
    epoch = store.acquire(S, generation=4, owner="here")
    assert store.standing(S) == Standing(epoch, 0, 4, "here")
    store.commit(S, epoch, {"w": b"1"}, start=0, end=1)


def test_a_store_stays_usable_after_an_interrupt_in_the_middle_of_an_answer(
    proxy: Proxy, stores: Callable[..., RedisStore]
) -> None:
    store = stores(proxy, RedisSettings())
    epoch = store.acquire(S)
    proxy.lose("answer", b"EVAL", then=lambda: os.kill(os.getpid(), signal.SIGINT))
    with pytest.raises(KeyboardInterrupt):
        store.commit(S, epoch, {"w": b"1"}, start=0, end=1)
    assert store.read(S) == ({"w": b"1"}, 1)  # it was made, and its answer is not taken for another's
    assert store.standing(S) == Standing(1, 1)


def test_a_full_redis_refuses_the_whole_commit_and_takes_it_when_there_is_room(
    server: Server, stores: Callable[..., RedisStore]
) -> None:
    store = stores(server)
    epoch = store.acquire(S)
    store.commit(S, epoch, {"a": b"1", "b": b"2"}, start=0, end=5, letters=[LETTER])
    server.client().config_set("maxmemory", 1)
    writes: dict[str, bytes | None] = {"a": None, "b": b"3", **{f"k{n}": bytes(100) for n in range(3000)}}
    for settled in ([], [(3, 0)]):
        with pytest.raises(StoreFull, match=r"127\.0\.0\.1.*maxmemory.*Nothing was written.*state memory"):
            store.commit(S, epoch, writes, start=5, end=6, settled=settled)
        assert (store.read(S), store.letters(S)) == (({"a": b"1", "b": b"2"}, 5), [LETTER])
    server.client().config_set("maxmemory", 0)
    store.commit(S, epoch, writes, start=5, end=6)
    entries, offset = store.read(S)
    assert (len(entries), entries["b"], offset) == (3001, b"3", 6)


@pytest.mark.parametrize("keep_state", [False, True])
def test_a_full_redis_can_still_be_reset(
    server: Server, stores: Callable[..., RedisStore], keep_state: bool
) -> None:
    store = stores(server)
    store.commit(S, store.acquire(S, generation=3), {"a": b"1"}, start=0, end=5)
    server.client().config_set("maxmemory", 1)
    store.reset(S, keep_state=keep_state)
    assert store.read(S) == (({"a": b"1"}, 5) if keep_state else ({}, 0))
    assert store.standing(S).epoch == 2


def test_a_replica_can_be_read_and_refuses_writes(
    server: Server, start_redis: Callable[..., Any], stores: Callable[..., RedisStore]
) -> None:
    replica = start_redis()
    store = stores(server)
    epoch = store.acquire(S)
    store.commit(S, epoch, {"w": b"1"}, start=0, end=5)
    replica.client().execute_command("REPLICAOF", "127.0.0.1", server.port)
    replica.wait_until(lambda client: client.info("replication")["master_link_status"] == "up")
    follower = stores(replica, HASTY)
    assert follower.read(S) == ({"w": b"1"}, 5)
    for write in (
        lambda: follower.acquire(S),
        lambda: follower.commit(S, epoch, {"w": b"2"}, start=5, end=6),
        lambda: follower.reset(S),
    ):
        with pytest.raises(StoreReadOnly, match=r"replica.*Nothing was written.*primary"):
            write()
    assert store.read(S) == ({"w": b"1"}, 5)


def test_a_commit_waits_for_a_replica_that_is_being_promoted(
    server: Server, start_redis: Callable[..., Any], stores: Callable[..., RedisStore]
) -> None:
    store, primary = stores(server), start_redis()
    epoch = store.acquire(S)
    with primary.client() as client:
        client.execute_command("REPLICAOF", "127.0.0.1", server.port)
        primary.wait_until(lambda client: client.info("replication")["master_link_status"] == "up")
        client.execute_command("REPLICAOF", "NO", "ONE")
    server.client().execute_command("REPLICAOF", "127.0.0.1", primary.port)
    promoted = threading.Timer(0.2, lambda: server.client().execute_command("REPLICAOF", "NO", "ONE"))
    promoted.start()
    server.wait_until(lambda client: client.info("replication")["role"] == "slave")
    store.commit(S, epoch, {"w": b"1"}, start=0, end=1)
    promoted.join()
    assert store.read(S) == ({"w": b"1"}, 1)


def test_a_redis_that_loads_its_data_says_so_and_is_waited_for(
    start_redis: Callable[..., Any], stores: Callable[..., RedisStore]
) -> None:
    server = start_redis()
    store = stores(server)
    epoch = store.acquire(S)
    store.commit(S, epoch, {"w": b"1"}, start=0, end=5)
    with server.client() as client:
        for n in range(300):
            client.set(f"other{n}", os.urandom(1000))
        client.save()
    server.kill()
    # as a larger file would take: two milliseconds a key
    server.start("--key-load-delay", "2000", "--loading-process-events-interval-bytes", "1024", wait=False)
    server.wait_until(lambda client: client.info("persistence")["loading"] == 1)
    with pytest.raises(StoreDown, match=r"loading its data.*Nothing was written"):
        stores(server, HASTY)
    store.commit(S, epoch, {"w": b"2"}, start=5, end=6)
    assert store.read(S) == ({"w": b"2"}, 6)


def test_a_redis_that_is_gone_is_named_and_waited_for(
    server: Server, stores: Callable[..., RedisStore]
) -> None:
    store, hasty = stores(server), stores(server, HASTY)
    epoch = store.acquire(S)
    server.kill()
    with pytest.raises(
        StoreDown,
        match=rf"127\.0\.0\.1:{server.port}.*refused.*cannot be reached\. Nothing was written\. Look",
    ):
        hasty.read(S)
    back = threading.Timer(0.2, server.start)
    back.start()
    with pytest.raises(Fenced, match="never acquired, or the store was emptied"):
        store.commit(S, epoch, {"w": b"1"}, start=0, end=1)  # it came back with nothing: appendonly is off
    back.join()


def test_a_node_of_a_cluster_that_is_gone_is_waited_for_and_the_others_go_on(
    start_redis: Callable[..., Any],
) -> None:
    cluster: Cluster = start_redis(of=Cluster, appendonly="yes", appendfsync="always")
    shards = [f"s{n}" for n in range(12)]
    with RedisStore(cluster.url, PATIENT) as store:
        epochs = {shard: store.acquire(shard) for shard in shards}
        gone = next(node for node in cluster.nodes if not node.client().keys("streamrank:shards"))
        lost = [shard for shard in shards if gone.client().keys(f"streamrank:{{{shard}}}:meta")]
        assert 0 < len(lost) < len(shards)
        gone.kill()
        for shard in set(shards) - set(lost):
            store.commit(shard, epochs[shard], {"w": b"1"}, start=0, end=1)
        with RedisStore(cluster.url, HASTY) as hasty, pytest.raises(StoreDown):
            hasty.commit(lost[0], epochs[lost[0]], {"w": b"1"}, start=0, end=1)
        back = threading.Timer(0.2, gone.start)
        back.start()
        for shard in lost:
            store.commit(shard, epochs[shard], {"w": b"1"}, start=0, end=1)
        back.join()
        assert {shard: store.read(shard) for shard in shards} == dict.fromkeys(shards, ({"w": b"1"}, 1))


def test_an_address_with_nothing_behind_it_is_named(server: Server) -> None:
    server.kill()
    with pytest.raises(StoreDown, match=r"redis://me:\*\*\*@127\.0\.0\.1.*cannot be reached"):
        RedisStore(f"redis://me:secret@{server.address}", HASTY)


def test_a_flushed_redis_is_noticed_by_the_owner_and_a_new_owner_begins_anew(
    server: Server, stores: Callable[..., RedisStore]
) -> None:
    store = stores(server)
    store.acquire(S)
    epoch = store.acquire(S)
    store.commit(S, epoch, {"w": b"1"}, start=0, end=5)
    server.client().flushall()
    with pytest.raises(Fenced, match=r"emptied since\. Nothing was written"):
        store.commit(S, epoch, {"v": b"2"}, start=5, end=6)
    assert store.read(S) == ({}, 0)
    assert store.acquire(S) == 1
    with pytest.raises(Fenced, match=r"epoch 1, this process has 2: the store has gone back"):
        store.commit(S, epoch, {"v": b"2"}, start=0, end=6)
    store.commit(S, 1, {"w": b"3"}, start=0, end=1)


def test_commits_that_redis_lost_show_by_the_offset(
    start_redis: Callable[..., Any], stores: Callable[..., RedisStore]
) -> None:
    server = start_redis()
    store = stores(server)
    epoch = store.acquire(S)
    store.commit(S, epoch, {"w": b"1"}, start=0, end=5)
    server.client().save()
    store.commit(S, epoch, {"w": b"2"}, start=5, end=9)
    server.restart()
    with pytest.raises(OffsetMismatch, match=r"starts at offset 9.*stands at 5.*gone back to an older state"):
        store.commit(S, epoch, {"w": b"3"}, start=9, end=12)
    assert store.read(S) == ({"w": b"1"}, 5)


def test_an_acquisition_that_redis_lost_gives_nobody_the_same_epoch_twice(
    server: Server, stores: Callable[..., RedisStore]
) -> None:
    store, other = stores(server), stores(server)
    server.client().save()
    mine = store.acquire(S)
    server.restart()
    assert other.acquire(S) == mine
    with pytest.raises(Fenced, match=r"the same epoch 1: Redis has lost"):
        store.commit(S, mine, {"w": b"mine"}, start=0, end=1)
    other.commit(S, mine, {"w": b"theirs"}, start=0, end=1)


def test_a_state_that_something_else_deletes_is_noticed_by_writers_and_readers(
    server: Server, stores: Callable[..., RedisStore]
) -> None:
    store = stores(server)
    epoch = store.acquire(S)
    store.commit(S, epoch, {"a": b"1", "b": b"2"}, start=0, end=5)
    server.client().hdel("streamrank:{clicks[0]}:state", "a")
    with pytest.raises(StateLost, match=r"state reset --shard clicks\[0\]"):
        store.read(S)
    server.client().delete("streamrank:{clicks[0]}:state")
    with pytest.raises(StateLost, match="Nothing was written"):
        store.commit(S, epoch, {"a": b"2"}, start=5, end=6)
    assert store.offset(S) == 5
    store.reset(S)
    store.commit(S, store.acquire(S), {"a": b"3"}, start=0, end=1)
    assert store.read(S) == ({"a": b"3"}, 1)


def test_a_commit_larger_than_redis_takes_is_refused_before_it_is_sent(
    server: Server, stores: Callable[..., RedisStore]
) -> None:
    store = stores(server)
    epoch, block = store.acquire(S), bytes(1_000_000)
    with pytest.raises(StoreFull, match=r"501 MB in one commit; Redis takes 500\. Nothing was written"):
        store.commit(S, epoch, dict.fromkeys((f"k{n}" for n in range(501)), block), start=0, end=1)
    assert store.read(S) == ({}, 0)
