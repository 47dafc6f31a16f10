"""The store of one machine: a SQLite file, shared by its processes."""

import sqlite3
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from threading import RLock
from types import TracebackType
from typing import Self

from streamrank.config import Settings
from streamrank.errors import ConfigError, StoreError, StoreFull
from streamrank.state import base
from streamrank.state.base import DeadLetter, Standing
from streamrank.state.ownership import check_acquire, check_commit

FORMAT = 2
BUSY_TIMEOUT_S = 30.0

# state and letters have a rowid, and so an index apart from the values. WITHOUT ROWID, a search that meets a
# large value reads all of it to compare its key: 100,000 small rows beside one of 377 KB: 5.9 s, not 0.24.
_SCHEMA = """
CREATE TABLE meta (name TEXT PRIMARY KEY, value) WITHOUT ROWID;
CREATE TABLE state (shard TEXT, key TEXT, value BLOB, PRIMARY KEY (shard, key));
CREATE TABLE shard (shard TEXT PRIMARY KEY, epoch INTEGER, offset INTEGER, generation INTEGER DEFAULT 0,
    owner TEXT DEFAULT '') WITHOUT ROWID;
CREATE TABLE letters (shard TEXT, offset INTEGER, part INTEGER, place TEXT, kind TEXT, error TEXT, value BLOB,
    PRIMARY KEY (shard, offset, part));
"""

# from each format to the next
_UPGRADES = {
    1: """
ALTER TABLE shard ADD COLUMN generation INTEGER DEFAULT 0;
ALTER TABLE shard ADD COLUMN owner TEXT DEFAULT '';
UPDATE meta SET value = 2 WHERE name = 'format'
"""
}

_ADVICE = {
    sqlite3.SQLITE_BUSY: f"another process held the lock for {BUSY_TIMEOUT_S:.0f} s: look for a hung one",
    sqlite3.SQLITE_CANTOPEN: "the file or its folder cannot be opened: look at the path and its permissions",
    sqlite3.SQLITE_CORRUPT: "the file is damaged: restore the last snapshot into a new one",
    sqlite3.SQLITE_FULL: "the disk is full: free some space, then start again",
    sqlite3.SQLITE_IOERR: "the disk failed: look at the system log, then start again",
    sqlite3.SQLITE_NOTADB: "the file is not a SQLite database: give another path",
    sqlite3.SQLITE_READONLY: "make the file and its folder writable for this user",
}


class SqliteStore:
    """A commit is one BEGIN IMMEDIATE transaction in WAL mode, so a crash of the process cannot tear it.

    Several processes, and several threads of each, can use one file; open it after a fork, not before.
    A power cut may lose the last commits (synchronous=NORMAL), never a part of one: they are learnt again.
    """

    def __init__(self, path: str | Path) -> None:
        self._path = Path(path).absolute()  # so messages name it in full, and `:memory:` is a file too
        if not self._path.parent.is_dir():
            raise StoreError(f"{self._path}: folder {self._path.parent} does not exist: create it first")
        self._lock = RLock()
        with self._named_errors():
            self._connection = sqlite3.connect(
                self._path, timeout=BUSY_TIMEOUT_S, isolation_level=None, check_same_thread=False
            )
        try:
            self._prepare()
        except BaseException:
            self.close()
            raise

    @classmethod
    def from_url(cls, url: str, _settings: Settings) -> Self:
        """Open ``sqlite:///relative.db`` or ``sqlite:////absolute.db``."""
        host, _, path = url.partition("://")[2].partition("/")
        if host or not path:
            raise ConfigError(
                f"store URL {url!r}: no file is named. Accepted: sqlite:///relative/file.db, and with one "
                "more slash sqlite:////absolute/file.db"
            )
        return cls(path)

    def acquire(self, shard: str, *, generation: int = 0, owner: str = "") -> int:
        """Increment the shard's epoch and return it."""
        with self._transaction("IMMEDIATE") as cursor:
            held = self._standing(cursor, shard)
            check_acquire(shard, generation=generation, stored=held.generation)
            cursor.execute(
                "INSERT OR REPLACE INTO shard VALUES (?, ?, ?, ?, ?)",
                (shard, held.epoch + 1, held.offset, max(generation, held.generation), owner),
            )
            return held.epoch + 1

    def reset(self, shard: str, *, keep_state: bool = False) -> None:
        """Empty a shard, and fence its owner."""
        with self._transaction("IMMEDIATE") as cursor:
            cursor.execute(
                "UPDATE shard SET epoch = epoch + 1, generation = 0, owner = '' WHERE shard = ?", (shard,)
            )
            if not keep_state:
                cursor.execute("UPDATE shard SET offset = 0 WHERE shard = ?", (shard,))
                cursor.execute("DELETE FROM state WHERE shard = ?", (shard,))
                cursor.execute("DELETE FROM letters WHERE shard = ?", (shard,))

    def standing(self, shard: str) -> Standing:
        """Epoch, offset, generation and owner, of one moment."""
        with self._transaction() as cursor:
            return self._standing(cursor, shard)

    def shards(self) -> list[str]:
        """The shards known, sorted."""
        with self._transaction() as cursor:
            return [shard for (shard,) in cursor.execute("SELECT shard FROM shard ORDER BY shard")]

    def offset(self, shard: str) -> int:
        """The offset of the first record not yet learnt."""
        with self._transaction() as cursor:
            return self._standing(cursor, shard).offset

    def load(self, shard: str) -> dict[str, bytes]:
        """All keys of the shard, of one moment."""
        return self.read(shard)[0]

    def read(self, shard: str, prefixes: Sequence[str] = ()) -> tuple[dict[str, bytes], int]:
        """All keys, or those that begin so, and the offset, of the same moment."""
        with self._transaction() as cursor:
            offset = self._standing(cursor, shard).offset
            entries: dict[str, bytes] = {}
            for prefix in prefixes or [""]:  # U+10FFFF is after all that can follow the prefix
                entries |= cursor.execute(
                    "SELECT key, value FROM state WHERE shard = ? AND key >= ? AND key < ?",
                    (shard, prefix, prefix + "\U0010ffff"),
                )
            return entries, offset

    def get(self, shard: str, key: str) -> bytes | None:
        """One value."""
        with self._transaction() as cursor:
            found: tuple[bytes] | None = cursor.execute(
                "SELECT value FROM state WHERE shard = ? AND key = ?", (shard, key)
            ).fetchone()
            return None if found is None else found[0]

    def commit(
        self,
        shard: str,
        epoch: int,
        writes: Mapping[str, bytes | None],
        *,
        start: int,
        end: int,
        letters: Sequence[DeadLetter] = (),
        settled: Sequence[tuple[int, int]] = (),
    ) -> None:
        """Write and move the offset, all at once."""
        with self._transaction("IMMEDIATE") as cursor:
            held = self._standing(cursor, shard)
            check_commit(shard, epoch=epoch, owner=held.epoch, start=start, stored=held.offset)
            # sorted: the pages are then visited one after another (10,000 rows of 100,000: 48 ms, not 72)
            cursor.executemany(
                "INSERT INTO state VALUES (?, ?, ?) ON CONFLICT DO UPDATE SET value = excluded.value",
                [(shard, key, writes[key]) for key in sorted(writes) if writes[key] is not None],
            )
            cursor.executemany(
                "DELETE FROM state WHERE shard = ? AND key = ?",
                [(shard, key) for key, value in writes.items() if value is None],
            )
            cursor.execute("UPDATE shard SET offset = ? WHERE shard = ?", (end, shard))
            # settled first: a letter that was tried again and failed again is in both, and must stay
            cursor.executemany(
                "DELETE FROM letters WHERE shard = ? AND offset = ? AND part = ?",
                [(shard, offset, part) for offset, part in settled],
            )
            if letters:
                self._add_letters(cursor, shard, letters)

    def letters(self, shard: str) -> list[DeadLetter]:
        """The dead letters, oldest first."""
        with self._transaction() as cursor:
            rows = cursor.execute(
                "SELECT offset, part, place, kind, error, value FROM letters WHERE shard = ?"
                " ORDER BY offset, part",
                (shard,),
            )
            return [DeadLetter(*row) for row in rows]

    def bytes_used(self) -> dict[str, int]:
        """The file, and the log of what is not yet in it."""
        files = [self._path, self._path.with_name(self._path.name + "-wal")]
        return {str(file): file.stat().st_size for file in files if file.exists()}

    def close(self) -> None:
        """Release the file."""
        with self._lock, self._named_errors():
            self._connection.close()

    def _prepare(self) -> None:
        with self._named_errors():
            self._enter_wal()
            self._connection.execute("PRAGMA synchronous = NORMAL")
        with self._transaction("IMMEDIATE") as cursor:  # two processes may create one file at the same time
            tables = {name for (name,) in cursor.execute("SELECT name FROM sqlite_master")}
            if not tables:
                for statement in _SCHEMA.split(";"):
                    cursor.execute(statement)
                cursor.execute("INSERT INTO meta VALUES ('format', ?)", (FORMAT,))
            elif not {"meta", "state", "shard", "letters"} <= tables:
                raise StoreError(f"{self._path}: a database of another program: give another path")
            (found,) = cursor.execute("SELECT max(value) FROM meta WHERE name = 'format'").fetchone()
            while found in _UPGRADES:
                for statement in _UPGRADES[found].split(";"):
                    cursor.execute(statement)
                found += 1
            if found != FORMAT:
                raise StoreError(
                    f"{self._path}: state of format {found}; this version reads {FORMAT}. Open it with the "
                    "streamrank that wrote it, take a snapshot, and restore that here."
                )

    def _enter_wal(self) -> None:
        # When processes create one file at the same moment, SQLite refuses this one statement at once instead
        # of waiting for the busy timeout: each holds the lock that the other needs, so one has to step back.
        deadline = time.monotonic() + BUSY_TIMEOUT_S
        while True:
            try:
                self._connection.execute("PRAGMA journal_mode = WAL")
                return
            except sqlite3.OperationalError as error:
                if error.sqlite_errorcode & 0xFF != sqlite3.SQLITE_BUSY or time.monotonic() > deadline:
                    raise
                time.sleep(0.01)

    @staticmethod
    def _standing(cursor: sqlite3.Cursor, shard: str) -> Standing:
        found = cursor.execute(
            "SELECT epoch, offset, generation, owner FROM shard WHERE shard = ?", (shard,)
        ).fetchone()
        return Standing(*found or ())

    @staticmethod
    def _add_letters(cursor: sqlite3.Cursor, shard: str, letters: Sequence[DeadLetter]) -> None:
        cursor.executemany(
            "INSERT OR REPLACE INTO letters VALUES (?, ?, ?, ?, ?, ?, ?)",
            [(shard, one.offset, one.part, one.place, one.kind, one.error, one.value) for one in letters],
        )
        oldest_kept = cursor.execute(
            "SELECT offset, part FROM letters WHERE shard = ? ORDER BY offset DESC, part DESC"
            " LIMIT 1 OFFSET ?",
            (shard, base.MAX_LETTERS - 1),
        ).fetchone()
        if oldest_kept is not None:
            cursor.execute(
                "DELETE FROM letters WHERE shard = ? AND (offset, part) < (?, ?)", (shard, *oldest_kept)
            )

    @contextmanager
    def _transaction(self, mode: str = "DEFERRED") -> Iterator[sqlite3.Cursor]:
        """All or nothing, one thread at a time; reads inside see one moment."""
        with self._lock, self._named_errors():
            cursor = self._connection.execute(f"BEGIN {mode}")
            try:
                yield cursor
                self._connection.execute("COMMIT")
            finally:
                if self._connection.in_transaction:  # a full disk may already have rolled it back
                    self._connection.execute("ROLLBACK")

    @contextmanager
    def _named_errors(self) -> Iterator[None]:
        try:
            yield
        except (sqlite3.Error, OverflowError, UnicodeEncodeError) as error:
            # the low byte of the code is the kind, the rest its detail
            code = getattr(error, "sqlite_errorcode", 0) & 0xFF
            kind = StoreFull if code == sqlite3.SQLITE_FULL else StoreError
            raise kind(f"{self._path}: {error}: {_ADVICE.get(code, 'nothing was written')}") from error

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()
