"""One SQLite file, several processes, some of which die in the middle of a commit."""

import multiprocessing
import random
import signal
import sqlite3
import subprocess
import sys
from contextlib import ExitStack
from multiprocessing.connection import Connection
from pathlib import Path

from streamrank.errors import Fenced
from streamrank.state import open_store

N_KEYS = 200
N_KILLS = 10
N_FILES = 50

# Commits for ever: every key holds the offset it was committed with. A line is printed after each commit, and
# a dot again and again inside of it, since a busy machine kills a process where it last wrote to its parent.
WORKER = f"""
import sys
from streamrank.state import open_store
with open_store(sys.argv[1]) as store:
    epoch, offset = store.acquire("s"), store.offset("s")
    store._connection.set_progress_handler(lambda: print(".", flush=True), 500)
    while True:
        offset += 1
        value = b"%d" % offset
        writes = {{f"k{{i}}": value * 50 for i in range({N_KEYS})}}
        store.commit("s", epoch, writes, start=offset - 1, end=offset)
        print(offset, flush=True)
"""

# The control: the same, by a worker that trusts to luck. If the kills do not tear this, they prove nothing.
NAIVE = f"""
import sqlite3, sys
file = sqlite3.connect(sys.argv[1], isolation_level=None)
file.execute("PRAGMA journal_mode = WAL")
file.execute("PRAGMA synchronous = OFF")
file.execute("CREATE TABLE IF NOT EXISTS t (k PRIMARY KEY, v)")
file.set_progress_handler(lambda: print(".", flush=True), 500)
offset = 0
while True:
    offset += 1
    for i in range({N_KEYS}):
        file.execute("INSERT OR REPLACE INTO t VALUES (?, ?)", (i, offset))
    print(offset, flush=True)
"""


def run_and_kill(script: str, argument: str, after: int) -> int:
    """The last offset that the worker told before it was killed, `after` lines from its start."""
    worker = subprocess.Popen([sys.executable, "-c", script, argument], stdout=subprocess.PIPE, text=True)
    assert worker.stdout is not None
    with worker.stdout:
        lines = [worker.stdout.readline() for _ in range(after)]
        worker.kill()
        lines += worker.stdout.readlines()
    assert worker.wait() == -signal.SIGKILL
    assert ".\n" in lines
    return max((int(line) for line in lines if line.strip().isdigit()), default=0)


def test_kill_9_in_the_middle_of_commits_never_parts_state_from_offset(tmp_path: Path) -> None:
    url, chance, before = f"sqlite:///{tmp_path / 's.db'}", random.Random(7), 0
    for kill in range(N_KILLS):
        said = run_and_kill(WORKER, url, after=chance.randint(20, 80))
        with open_store(url) as store:
            values, offset = store.read("s")
            assert set(values.values()) == {b"%d" % offset * 50}
            assert len(values) == N_KEYS
            assert offset >= max(said, before + 1)  # what was acknowledged is there
            assert store.acquire("s") == 2 * (kill + 1)
        before = offset


def test_the_same_kills_tear_a_worker_that_writes_row_by_row(tmp_path: Path) -> None:
    torn, chance = 0, random.Random(7)
    for kill in range(N_KILLS):
        path = str(tmp_path / f"naive{kill}.db")
        run_and_kill(NAIVE, path, after=chance.randint(20, 80))
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


def test_of_two_processes_the_later_owner_commits_and_the_earlier_is_fenced(tmp_path: Path) -> None:
    url, spawn = f"sqlite:///{tmp_path / 's.db'}", multiprocessing.get_context("spawn")
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


def test_many_processes_can_create_one_file_at_once(tmp_path: Path) -> None:
    script = (
        "import sys; from streamrank.state import open_store\n"
        "print('ready', flush=True); sys.stdin.readline()\n"
        f"for n in range({N_FILES}):\n"
        "    with open_store(f'{sys.argv[1]}{n}') as store: store.acquire('s')"
    )
    command = [sys.executable, "-c", script, f"sqlite:///{tmp_path}/s"]
    with ExitStack() as stack:
        workers = [
            stack.enter_context(
                subprocess.Popen(command, text=True, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
            )
            for _ in range(4)
        ]
        for worker in workers:
            assert worker.stdout is not None
            assert worker.stdout.readline() == "ready\n"
        for worker in workers:
            assert worker.stdin is not None
            worker.stdin.write("go\n")
            worker.stdin.flush()
    assert [worker.returncode for worker in workers] == [0] * 4
    for n in range(N_FILES):
        with open_store(f"sqlite:///{tmp_path}/s{n}") as store:
            assert store.acquire("s") == 5
