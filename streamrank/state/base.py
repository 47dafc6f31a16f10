"""What a store promises, to every backend alike."""

from collections.abc import Mapping, Sequence
from types import TracebackType
from typing import Protocol, Self

import msgspec


class DeadLetter(msgspec.Struct, frozen=True):
    """A record (or one element of it) that could not become an event, with where it came from and why."""

    offset: int
    part: int  # which element, when the record was an array
    place: str
    kind: str
    error: str
    value: bytes


class Standing(msgspec.Struct, frozen=True):
    """Where a shard stands and whose it is; all zero for an unknown one."""

    epoch: int = 0
    offset: int = 0
    generation: int = 0
    owner: str = ""


class Store(Protocol):
    """Bytes by key, a shard at a time; all a commit holds changes in one transaction, or nothing does.

    A shard is the training state fed by one partition. Whoever acquires it gets the next epoch; a commit with
    an older epoch is refused inside the transaction, so a paused-and-resumed process can change nothing.
    Missing is `None`; `b""` is a value.
    """

    def acquire(self, shard: str, *, generation: int = 0, owner: str = "") -> int:
        """Take ownership: increment the shard's epoch and return it. Creates the shard if it is new.

        `generation` counts the assignments of a consumer group: one older than the shard has seen raises
        `Fenced`, since the group has given the shard to another since; 0 is of no group and always passes.
        `owner` is for people to read.
        """
        ...

    def reset(self, shard: str, *, keep_state: bool = False) -> None:
        """Empty a shard in one transaction: no keys, no letters, offset 0.

        Its epoch counts on, so whoever owned it is fenced; its generation is forgotten, since a group that is
        made anew counts from 1 again. With `keep_state` that is all. An unknown shard stays unknown.
        """
        ...

    def standing(self, shard: str) -> Standing:
        """Epoch, offset, generation and owner, of one moment."""
        ...

    def shards(self) -> list[str]:
        """The shards known, sorted."""
        ...

    def offset(self, shard: str) -> int:
        """The offset of the first record not yet learnt; 0 for a new or unknown shard."""
        ...

    def load(self, shard: str) -> dict[str, bytes]:
        """All keys of the shard, of one moment."""
        ...

    def read(self, shard: str, prefixes: Sequence[str] = ()) -> tuple[dict[str, bytes], int]:
        """All keys and the offset, of the same moment, for a reader that owns nothing.

        With `prefixes`: only the keys that begin with one of them.
        """
        ...

    def get(self, shard: str, key: str) -> bytes | None:
        """One value."""
        ...

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
        """Write (``None`` deletes) and move the offset from `start` to `end`, all at once.

        Raises `Fenced` when `epoch` is not the shard's, `OffsetMismatch` when the stored offset is not
        `start`; either way nothing was written. `letters` are added to the dead letters, `settled` (offset,
        part) are taken out of them. A letter already there (same offset and part) is replaced. Only the
        newest MAX_LETTERS of a shard are kept.
        """
        ...

    def letters(self, shard: str) -> list[DeadLetter]:
        """The dead letters, oldest first."""
        ...

    def bytes_used(self) -> dict[str, int]:
        """The bytes taken where the store lives, by what it can tell apart; empty if it cannot tell."""
        ...

    def close(self) -> None:
        """Release files and connections. Closing twice is harmless."""
        ...

    def __enter__(self) -> Self: ...

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None: ...


MAX_LETTERS = 10_000
