"""What only a file can do wrong."""

import os
import sqlite3
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from streamrank.errors import StoreError
from streamrank.state import Standing, sqlite
from streamrank.state.sqlite import SqliteStore


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "state.db"


def alter(path: Path, *statements: str) -> None:
    file = sqlite3.connect(path)
    for statement in statements:
        file.execute(statement)
    file.commit()
    file.close()


def test_a_missing_folder_is_named(tmp_path: Path) -> None:
    with pytest.raises(StoreError, match=r"no/state\.db: folder .*/no does not exist"):
        SqliteStore(tmp_path / "no" / "state.db")


def test_a_folder_is_not_a_file(tmp_path: Path) -> None:
    with pytest.raises(StoreError, match="cannot be opened"):
        SqliteStore(tmp_path)


def test_a_file_that_is_no_database_is_refused_and_left_alone(path: Path) -> None:
    path.write_text("a love letter, long enough to be no header of a database\n" * 50)
    before = path.read_bytes()
    with pytest.raises(StoreError, match=r"state\.db.*not a SQLite database: give another path"):
        SqliteStore(path)
    assert path.read_bytes() == before


def test_the_database_of_another_program_is_refused_and_gets_no_tables(path: Path) -> None:
    alter(path, "CREATE TABLE bookmarks (url)")
    with pytest.raises(StoreError, match="another program"):
        SqliteStore(path)
    file = sqlite3.connect(path)
    assert file.execute("SELECT name FROM sqlite_master").fetchall() == [("bookmarks",)]
    file.close()


@pytest.mark.parametrize("change", ["UPDATE meta SET value = 99", "DELETE FROM meta"])
def test_an_unknown_format_is_refused_with_what_to_do(path: Path, change: str) -> None:
    SqliteStore(path).close()
    alter(path, change)
    with pytest.raises(StoreError, match=r"state of format (99|None); this version reads 2.*take a snapshot"):
        SqliteStore(path)


def test_a_file_of_the_first_format_is_taken_up_as_it_is(path: Path) -> None:
    file = sqlite3.connect(path)
    file.executescript(
        """
        CREATE TABLE meta (name TEXT PRIMARY KEY, value) WITHOUT ROWID;
        CREATE TABLE state (shard TEXT, key TEXT, value BLOB, PRIMARY KEY (shard, key));
        CREATE TABLE shard (shard TEXT PRIMARY KEY, epoch INTEGER, offset INTEGER) WITHOUT ROWID;
        CREATE TABLE letters (shard TEXT, offset INTEGER, part INTEGER, place TEXT, kind TEXT, error TEXT,
            value BLOB, PRIMARY KEY (shard, offset, part));
        INSERT INTO meta VALUES ('format', 1);
        INSERT INTO state VALUES ('s', 'w', x'31');
        INSERT INTO shard VALUES ('s', 4, 9);
        """
    )
    file.close()
    for opened in (1, 2):
        with SqliteStore(path) as store:
            assert store.read("s") == ({"w": b"1"}, 9)
            assert store.acquire("s", generation=7, owner="a") == 4 + opened
            assert store.standing("s") == Standing(4 + opened, 9, 7, "a")


def test_commits_go_to_a_write_ahead_log_with_normal_sync(path: Path) -> None:
    with SqliteStore(path) as store:
        assert store._connection.execute("PRAGMA journal_mode").fetchone() == ("wal",)
        assert store._connection.execute("PRAGMA synchronous").fetchone() == (1,)
        assert store._connection.execute("PRAGMA busy_timeout").fetchone() == (30_000,)


def test_a_full_disk_is_a_store_error_and_nothing_was_written(path: Path) -> None:
    with SqliteStore(path) as store:
        epoch = store.acquire("s")
        store.commit("s", epoch, {"w": b"small"}, start=0, end=1)
        store._connection.execute("PRAGMA max_page_count = 20")
        with pytest.raises(StoreError, match=r"state\.db.*disk is full"):
            store.commit("s", epoch, {"a": b"1", "w": os.urandom(500_000)}, start=1, end=2)
        assert store.read("s") == ({"w": b"small"}, 1)
        store.commit("s", epoch, {"w": b"again"}, start=1, end=2)
        assert store.read("s") == ({"w": b"again"}, 2)


def test_a_read_only_file_is_a_store_error(path: Path) -> None:
    with SqliteStore(path) as store:
        store._connection.execute("PRAGMA query_only = ON")
        with pytest.raises(StoreError, match=r"state\.db.*writable"):
            store.acquire("s")


def test_a_lock_held_too_long_is_a_store_error(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sqlite, "BUSY_TIMEOUT_S", 0.0)
    with SqliteStore(path) as store:
        store.acquire("s")
        other = sqlite3.connect(path, isolation_level=None)
        other.execute("BEGIN IMMEDIATE")
        with pytest.raises(StoreError, match=r"state\.db.*locked.*hung"):
            store.commit("s", 1, {}, start=0, end=1)
        assert store.read("s") == ({}, 0)  # readers do not wait for a writer
        other.execute("ROLLBACK")
        other.close()
        store.commit("s", 1, {}, start=0, end=1)


def test_nobody_can_acquire_between_the_check_and_the_write(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sqlite, "BUSY_TIMEOUT_S", 0.0)
    with SqliteStore(path) as store, SqliteStore(path) as other:
        epoch = store.acquire("s")

        class Interrupted(dict[str, bytes | None]):
            def __iter__(self) -> Iterator[str]:  # walked after the check
                with pytest.raises(StoreError, match="locked"):
                    other.acquire("s")
                return super().__iter__()

        store.commit("s", epoch, Interrupted(w=b"1"), start=0, end=1)
        assert other.read("s") == ({"w": b"1"}, 1)
        assert other.acquire("s") == epoch + 1


def test_small_rows_are_as_quick_beside_a_large_one(tmp_path: Path) -> None:
    seconds = {}
    for large in (b"", bytes(8_000_000)):
        with SqliteStore(tmp_path / f"{len(large)}.db") as store:
            epoch = store.acquire("s")
            store.commit("s", epoch, {"w": large}, start=0, end=1)
            began = time.process_time()
            store.commit("s", epoch, {f"u{i}": b"x" for i in range(500)}, start=1, end=2)
            seconds[bool(large)] = time.process_time() - began
    assert (
        seconds[True] < 20 * seconds[False]
    )  # twice, when this was written; several hundred times WITHOUT ROWID


def test_a_page_of_rubbish_is_a_store_error(path: Path) -> None:
    with SqliteStore(path) as store:
        rows: dict[str, bytes | None] = {f"k{i}": b"x" * 50 for i in range(2000)}
        store.commit("s", store.acquire("s"), rows, start=0, end=1)
    content = bytearray(path.read_bytes())
    content[8192:] = b"\xa5" * (len(content) - 8192)
    path.write_bytes(content)
    with pytest.raises(StoreError, match=r"state\.db.*restore the last snapshot"), SqliteStore(path) as store:
        store.load("s")


def test_a_relative_path_is_named_in_full(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    with SqliteStore("state.db") as store:
        store.close()
        with pytest.raises(StoreError, match=f"{tmp_path}/state.db"):
            store.acquire("s")


def test_the_name_memory_is_a_file_like_any_other(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    with SqliteStore(":memory:") as one, SqliteStore(":memory:") as two:
        one.acquire("s")
        assert two.shards() == ["s"]


def test_an_error_of_any_detail_gets_the_advice_for_its_kind(path: Path) -> None:
    error = sqlite3.OperationalError("disk I/O error")
    error.sqlite_errorcode = sqlite3.SQLITE_IOERR_WRITE
    with (
        SqliteStore(path) as store,
        pytest.raises(StoreError, match=r"state\.db: disk I/O error: the disk failed"),
        store._named_errors(),
    ):
        raise error
