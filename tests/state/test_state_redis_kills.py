"""kill -9 of Redis while two writers commit: what is there afterwards is a state that was committed."""

import random
import threading
from collections.abc import Callable
from typing import Any

import pytest
import redis

from streamrank.config import RedisSettings
from streamrank.errors import Fenced, OffsetMismatch
from streamrank.state.redis import RedisStore
from tests.servers.redis import Server

N_KEYS = 60
N_KILLS = 10
SETTINGS = RedisSettings(timeout_ms=5000, retry_ms=30_000)


class Writer(threading.Thread):
    """Commits for ever; every key holds the offset it was committed with. Begins anew after a refusal."""

    def __init__(self, url: str, shard: str, told: Callable[[], None]) -> None:
        super().__init__()
        self.url, self.shard, self.told = url, shard, told
        self.acknowledged = self.went_back = 0
        self.enough = threading.Event()
        self.failed: BaseException | None = None

    def run(self) -> None:
        try:
            with RedisStore(self.url, SETTINGS) as store:
                while not self.enough.is_set():
                    self.commit_until_refused(store)
        except BaseException as error:
            self.failed = error

    def commit_until_refused(self, store: RedisStore) -> None:
        epoch, offset = store.acquire(self.shard), store.offset(self.shard)
        self.went_back += offset < self.acknowledged
        while not self.enough.is_set():
            writes = {f"k{i}": b"%d" % (offset + 1) * 50 for i in range(N_KEYS)}
            try:
                store.commit(self.shard, epoch, writes, start=offset, end=offset + 1)
            except (OffsetMismatch, Fenced):
                return
            offset += 1
            self.acknowledged = offset
            self.told()


def whole(store: RedisStore, shard: str) -> int:
    entries, offset = store.read(shard)
    assert set(entries.values()) == ({b"%d" % offset * 50} if offset else set())
    assert len(entries) == (N_KEYS if offset else 0)
    return offset


@pytest.mark.parametrize("fsync", ["everysec", "always"])
def test_what_is_left_is_a_state_that_was_committed_and_the_writers_go_on_from_there(
    start_redis: Callable[..., Any], fsync: str
) -> None:
    server: Server = start_redis(appendonly="yes", appendfsync=fsync)
    commits, chance = threading.Semaphore(0), random.Random(7)
    writers = [Writer(server.url, f"s{n}", commits.release) for n in range(2)]
    for writer in writers:
        writer.start()
    try:
        with RedisStore(server.url, SETTINGS) as store:
            for _ in range(N_KILLS):
                for _ in range(chance.randint(10, 60)):
                    assert commits.acquire(timeout=30)
                server.kill()
                before = [writer.acknowledged for writer in writers]
                server.start()
                after = [whole(store, writer.shard) for writer in writers]
                if fsync == "always":
                    assert all(there >= told for there, told in zip(after, before, strict=True))
    finally:
        for writer in writers:
            writer.enough.set()
        for writer in writers:
            writer.join()
    assert [writer.failed for writer in writers] == [None, None]
    if fsync == "always":
        assert [writer.went_back for writer in writers] == [0, 0]
    with RedisStore(server.url, SETTINGS) as store:
        assert [whole(store, writer.shard) for writer in writers] == [w.acknowledged for w in writers]


def test_the_same_kills_tear_a_writer_that_trusts_to_luck(start_redis: Callable[..., Any]) -> None:
    torn, chance = 0, random.Random(7)
    for _ in range(N_KILLS):
        server: Server = start_redis(appendonly="yes", appendfsync="everysec")
        enough = threading.Semaphore(0)

        def write(server: Server = server, told: threading.Semaphore = enough) -> None:
            with server.client(retry=None) as client:
                offset = 0
                try:
                    while True:
                        offset += 1
                        for i in range(N_KEYS):
                            client.hset("s", f"k{i}", offset)
                            told.release()
                except redis.ConnectionError:
                    return

        thread = threading.Thread(target=write)
        thread.start()
        for _ in range(chance.randint(100, 600)):
            assert enough.acquire(timeout=30)
        server.kill()
        thread.join()
        server.start()
        torn += len(set(server.client().hvals("s"))) > 1
    assert torn > 0
