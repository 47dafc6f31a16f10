"""One SQLite file, several processes, some of which die in the middle of a commit."""

import multiprocessing
import random
import signal
import sqlite3
from collections.abc import Callable
from multiprocessing.connection import Connection
from pathlib import Path

import pytest

from streamrank.errors import Fenced
from streamrank.state import open_store
from streamrank.state.sqlite import SqliteStore

N_KEYS = 200
N_KILLS = 10
N_FILES = 50

# processes of their own, forked from one that has done the imports: those would be most of the time
SERVER = multiprocessing.get_context("forkserver")
SERVER.set_forkserver_preload(["streamrank.state.sqlite"])


def commit_for_ever(path: str, pipe: Connection) -> None:
    """Every key holds the offset it was committed with; each commit is told after it was made.

    A 0 is told again and again inside of it: on a busy machine a process dies where it last told something.
    """
    with SqliteStore(path) as store:
        epoch, offset = store.acquire("s"), store.offset("s")
        store._connection.set_progress_handler(lambda: pipe.send(0), 500)
        while True:
            offset += 1
            writes = {f"k{i}": b"%d" % offset * 50 for i in range(N_KEYS)}
            store.commit("s", epoch, writes, start=offset - 1, end=offset)
            pipe.send(offset)


def write_row_by_row(path: str, pipe: Connection) -> None:
    """The control: the same, trusting to luck. If the kills do not tear this, they prove nothing."""
    file = sqlite3.connect(path, isolation_level=None)
    file.execute("PRAGMA journal_mode = WAL")
    file.execute("PRAGMA synchronous = OFF")
    file.execute("CREATE TABLE t (k PRIMARY KEY, v)")
    file.set_progress_handler(lambda: pipe.send(0), 500)
    offset = 0
    while True:
        offset += 1
        for i in range(N_KEYS):
            file.execute("INSERT OR REPLACE INTO t VALUES (?, ?)", (i, offset))
        pipe.send(offset)


def run_and_kill(work: Callable[[str, Connection], None], path: Path, after: int) -> int:
    """The last offset told before the worker was killed, which is when it had told `after` things."""
    mine, theirs = SERVER.Pipe(duplex=False)
    worker = SERVER.Process(target=work, args=(str(path), theirs))
    worker.start()
    theirs.close()
    with mine:
        told: list[int] = [mine.recv() for _ in range(after)]
        worker.kill()
        worker.join()
        while mine.poll():
            try:
                told.append(mine.recv())
            except (EOFError, OSError):  # the end, perhaps in the middle of a word
                break
    assert worker.exitcode == -signal.SIGKILL
    assert 0 in told
    return max(told)


def test_kill_9_in_the_middle_of_commits_never_parts_state_from_offset(tmp_path: Path) -> None:
    path, chance, before = tmp_path / "s.db", random.Random(7), 0
    for kill in range(N_KILLS):
        told = run_and_kill(commit_for_ever, path, after=chance.randint(20, 80))
        with SqliteStore(path) as store:
            values, offset = store.read("s")
            assert set(values.values()) == {b"%d" % offset * 50}
            assert len(values) == N_KEYS
            assert offset >= max(told, before + 1)  # what was acknowledged is there
            assert store.acquire("s") == 2 * (kill + 1)
        before = offset


def test_the_same_kills_tear_a_worker_that_writes_row_by_row(tmp_path: Path) -> None:
    torn, chance = 0, random.Random(7)
    for kill in range(N_KILLS):
        path = tmp_path / f"naive{kill}.db"
        run_and_kill(write_row_by_row, path, after=chance.randint(20, 80))
        file = sqlite3.connect(path)
        torn += len(set(file.execute("SELECT v FROM t"))) > 1
        file.close()
    assert torn > 0


def own_the_shard(url: str, pipe: Connection) -> None:
    """Acquire, say so, wait for the word, commit, say how that went."""
    with open_store(url) as store:
        epoch = store.acquire("s")
        pipe.send(epoch)
        pipe.recv()
        try:
            store.commit("s", epoch, {"who": b"%d" % epoch}, start=0, end=epoch)
            pipe.send("committed")
        except Fenced:
            pipe.send("fenced")


@pytest.mark.parametrize("url", ["sqlite", "redis"], indirect=True)
def test_of_two_processes_the_later_owner_commits_and_the_earlier_is_fenced(url: str) -> None:
    spawn = multiprocessing.get_context("spawn")
    pipes, processes = [], []
    for expected_epoch in (1, 2):
        mine, theirs = spawn.Pipe()
        process = spawn.Process(target=own_the_shard, args=(url, theirs))
        process.start()
        theirs.close()
        assert mine.recv() == expected_epoch
        pipes.append(mine)
        processes.append(process)
    outcomes = []
    for pipe in pipes:  # the one that was fenced wakes first, as a zombie would
        pipe.send("go")
        outcomes.append(pipe.recv())
    for process, pipe in zip(processes, pipes, strict=True):
        process.join()
        pipe.close()
    assert outcomes == ["fenced", "committed"]
    with open_store(url) as store:
        assert store.read("s") == ({"who": b"2"}, 2)


def create_and_acquire(folder: Path, pipe: Connection) -> None:
    """Say that the imports are done, wait for the word, then open file after file."""
    pipe.send("ready")
    pipe.recv()
    for n in range(N_FILES):
        with SqliteStore(folder / f"s{n}.db") as store:
            store.acquire("s")


def test_many_processes_can_create_one_file_at_once(tmp_path: Path) -> None:
    pipes, workers = [], []
    for _ in range(4):
        mine, theirs = SERVER.Pipe()
        worker = SERVER.Process(target=create_and_acquire, args=(tmp_path, theirs))
        worker.start()
        theirs.close()
        assert mine.recv() == "ready"
        pipes.append(mine)
        workers.append(worker)
    for pipe in pipes:
        pipe.send("go")
    for worker, pipe in zip(workers, pipes, strict=True):
        worker.join()
        pipe.close()
    assert [worker.exitcode for worker in workers] == [0] * 4
    for n in range(N_FILES):
        with SqliteStore(tmp_path / f"s{n}.db") as store:
            assert store.acquire("s") == 5
