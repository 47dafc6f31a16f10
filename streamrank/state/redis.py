"""The store of many machines: a Redis, or a Redis Cluster, shared by all who reach it."""

import uuid
from collections.abc import Mapping, Sequence
from functools import partial
from types import TracebackType
from typing import Any, Self

import msgspec

from streamrank.config import RedisSettings, Settings
from streamrank.errors import Fenced, StateLost, StoreError, StoreFull
from streamrank.state import base, lua
from streamrank.state.base import DeadLetter, Standing
from streamrank.state.keys import Keys, letter_place
from streamrank.state.ownership import check_acquire, check_commit
from streamrank.state.redis_link import Link

FORMAT = b"1"
MAX_COMMIT_BYTES = 500_000_000  # Redis hangs up on a client that sends a value of 512 MB, or 1 GB in all

_letter = msgspec.msgpack.Decoder(DeadLetter)


class RedisStore:
    """A commit is one Lua script that checks everything before its first write, so nothing can tear it.

    It carries a token of its own: sent again after a time-out, it is applied if it was not, and only then.
    How much an abrupt end of Redis may lose is Redis's setting (appendonly): always the last commits, never a
    part of one, and they are learnt again. What Redis throws away while it runs (FLUSHALL, evictions) is
    noticed by the epoch, the offset and the number of keys. Threads may share a store.
    """

    def __init__(self, url: str, settings: RedisSettings | None = None) -> None:
        self._link = Link(url, settings or RedisSettings())
        self._keys = Keys(self._link.prefix)
        self._holders: dict[str, tuple[int, str]] = {}  # of the last epoch of each shard acquired here
        try:
            self._check_server()
        except BaseException:
            self.close()
            raise

    @classmethod
    def from_url(cls, url: str, settings: Settings) -> Self:
        """Open ``redis://``, ``rediss://``, ``redis+cluster://`` or ``rediss+cluster://``."""
        return cls(url, settings.redis)

    def acquire(self, shard: str, *, generation: int = 0, owner: str = "") -> int:
        """Increment the shard's epoch and return it."""
        self._link.ask(lambda client: client.hset(self._keys.shards, shard, FORMAT))
        # Redis may lose an acquisition when it dies, and count the same epoch for another: the holder differs
        holder = uuid.uuid4().hex
        epoch, stored = self._script(lua.ACQUIRE, shard, generation, owner, holder)
        if not epoch:
            check_acquire(shard, generation=generation, stored=stored)
        self._holders[shard] = epoch, holder
        return int(epoch)

    def reset(self, shard: str, *, keep_state: bool = False) -> None:
        """Empty a shard, and fence its owner."""
        self._script(lua.RESET, shard, int(keep_state))

    def standing(self, shard: str) -> Standing:
        """Epoch, offset, generation and owner, of one moment."""
        meta, _, _ = self._keys.of_shard(shard)
        names = ("epoch", "offset", "generation", "owner")
        epoch, offset, generation, owner = self._link.ask(lambda client: client.hmget(meta, names))
        return Standing(int(epoch or 0), int(offset or 0), int(generation or 0), (owner or b"").decode())

    def shards(self) -> list[str]:
        """The shards known, sorted."""
        return sorted(
            name.decode() for name in self._link.ask(lambda client: client.hkeys(self._keys.shards))
        )

    def offset(self, shard: str) -> int:
        """The offset of the first record not yet learnt."""
        return self.standing(shard).offset

    def load(self, shard: str) -> dict[str, bytes]:
        """All keys of the shard, of one moment."""
        return self.read(shard)[0]

    def read(self, shard: str, prefixes: Sequence[str] = ()) -> tuple[dict[str, bytes], int]:
        """All keys and the offset, of the same moment; those that begin so are sorted out here."""
        meta, state, _ = self._keys.of_shard(shard)

        def both(client: Any) -> Any:
            with client.pipeline(transaction=True) as transaction:
                transaction.hmget(meta, ("offset", "keys"))
                transaction.hgetall(state)
                return transaction.execute()

        try:
            (offset, n_keys), entries = self._link.ask(both)
        except (
            StoreFull
        ):  # then Redis begins no transaction, even to read; it runs scripts, at half the speed
            (offset, n_keys), entries = self._script(lua.READ, shard)
        if isinstance(entries, list):  # as it came; the client makes a dict of it outside of Clusters only
            entries = dict(zip(entries[::2], entries[1::2], strict=True))
        if len(entries) != int(n_keys or 0):
            raise self._lost(shard)
        starts = tuple(prefix.encode() for prefix in prefixes) or (b"",)
        kept = {key.decode(): value for key, value in entries.items() if key.startswith(starts)}
        return kept, int(offset or 0)

    def get(self, shard: str, key: str) -> bytes | None:
        """One value."""
        _, state, _ = self._keys.of_shard(shard)
        value: bytes | None = self._link.ask(lambda client: client.hget(state, key))
        return value

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
        deleted: list[str | bytes] = []
        written: list[str | bytes] = []
        n_bytes = 0
        for key, value in writes.items():
            if value is None:
                deleted.append(key)
            else:
                written += (key, value)
                n_bytes += len(value)
        if n_bytes > MAX_COMMIT_BYTES:
            raise StoreFull(
                f"{self._link.where}: shard {shard!r}: {n_bytes / 1e6:.0f} MB in one commit; Redis takes "
                f"{MAX_COMMIT_BYTES / 1e6:.0f}. Nothing was written. Share the stream out over more "
                "partitions, or lower the limits that `streamrank state memory` names."
            )
        posted: list[bytes] = []
        for letter in letters:
            place = letter_place(letter.offset, letter.part)
            posted += (place, place + msgspec.msgpack.encode(letter))
        mine, holder = self._holders.get(shard, (0, ""))
        refused = self._script(
            lua.COMMIT,
            shard,
            epoch,
            holder if mine == epoch else "",
            start,
            end,
            uuid.uuid4().hex,
            base.MAX_LETTERS,
            len(deleted),
            len(settled),
            len(letters),
            *deleted,
            *(letter_place(*place) for place in settled),
            *posted,
            *written,
        )
        if refused:
            owner, stored, other = map(int, refused)
            check_commit(shard, epoch=epoch, owner=owner, start=start, stored=stored)
            if other:
                raise Fenced(
                    f"another process has acquired shard {shard!r} under the same epoch {epoch}: Redis has "
                    "lost this one's acquisition. Nothing was written. Acquire and load again."
                )
            raise self._lost(shard)

    def letters(self, shard: str) -> list[DeadLetter]:
        """The dead letters, oldest first."""
        _, _, letters = self._keys.of_shard(shard)
        start = len(letter_place(0, 0))
        return [
            _letter.decode(one[start:])
            for one in self._link.ask(lambda client: client.zrange(letters, 0, -1))
        ]

    def bytes_used(self) -> dict[str, int]:
        """What Redis says of each key (MEMORY USAGE), every field counted."""
        used: dict[str, int] = {}
        for key in (key for shard in self.shards() for key in self._keys.of_shard(shard)):
            size = self._link.ask(partial(_memory_usage, key))
            if size is not None:
                used[key] = size
        return used

    def close(self) -> None:
        """Let the connections go."""
        self._link.close()

    def _script(self, script: str, shard: str, *arguments: object) -> Any:
        keys = self._keys.of_shard(shard)
        return self._link.ask(lambda client: client.eval(script, len(keys), *keys, *arguments))

    def _check_server(self) -> None:
        formats = set(self._link.ask(lambda client: client.hvals(self._keys.shards))) - {FORMAT}
        if formats:
            raise StoreError(
                f"{self._link.where}: state of format {min(formats).decode()}; this version reads "
                f"{FORMAT.decode()}. Open it with the streamrank that wrote it, take a snapshot, and restore "
                "that under another redis.prefix."
            )
        try:
            said = self._link.ask(lambda client: client.info("memory"))
        except StoreError:  # not every Redis for hire tells
            return
        for info in said.values() if "maxmemory" not in said else [said]:
            if info["maxmemory"] and info["maxmemory_policy"].startswith("allkeys"):
                raise StoreError(
                    f"{self._link.where}: its maxmemory-policy is {info['maxmemory_policy']}, so it would "
                    "throw the state away when it is full. Set it to noeviction."
                )

    def _lost(self, shard: str) -> StateLost:
        return StateLost(
            f"{self._link.where}: shard {shard!r}: part of its state is gone: something else deletes keys "
            f"there. Nothing was written. Begin anew: streamrank state reset --shard {shard}; then restore a "
            "snapshot, or learn from the beginning."
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def _memory_usage(key: str, client: Any) -> int | None:
    size: int | None = client.memory_usage(key, samples=0)
    return size
