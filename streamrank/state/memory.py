"""The store of tests and trials: dictionaries, gone with the process."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from threading import Lock
from types import TracebackType
from typing import ClassVar, Self

from streamrank.config import Settings
from streamrank.errors import StoreError
from streamrank.state import base
from streamrank.state.base import DeadLetter, Standing
from streamrank.state.ownership import check_acquire, check_commit


@dataclass(slots=True)
class _Shard:
    epoch: int = 0
    offset: int = 0
    generation: int = 0
    owner: str = ""
    entries: dict[str, bytes] = field(default_factory=dict)
    letters: dict[tuple[int, int], DeadLetter] = field(default_factory=dict)


@dataclass(slots=True)
class _Data:
    lock: Lock = field(default_factory=Lock)
    shards: dict[str, _Shard] = field(default_factory=dict)


class MemoryStore:
    """A commit builds the new state aside and puts it in place under one lock, so nobody sees half of it.

    Stores of the same `name` share their data for as long as the process lives, closed or not, as two
    handles to one file would; without a name the data are this store's own.
    """

    _named: ClassVar[dict[str, _Data]] = {}

    def __init__(self, name: str = "") -> None:
        self._data: _Data | None = self._named.setdefault(name, _Data()) if name else _Data()

    @classmethod
    def from_url(cls, url: str, _settings: Settings) -> Self:
        """Open ``memory://`` or ``memory://name``."""
        return cls(url.partition("://")[2])

    def acquire(self, shard: str, *, generation: int = 0, owner: str = "") -> int:
        """Increment the shard's epoch and return it."""
        data = self._opened()
        with data.lock:
            held = data.shards.get(shard, _Shard())
            check_acquire(shard, generation=generation, stored=held.generation)
            data.shards[shard] = replace(
                held, epoch=held.epoch + 1, generation=max(generation, held.generation), owner=owner
            )
            return held.epoch + 1

    def reset(self, shard: str, *, keep_state: bool = False) -> None:
        """Empty a shard, and fence its owner."""
        data = self._opened()
        with data.lock:
            if shard in data.shards:
                held = data.shards[shard] if keep_state else _Shard()
                epoch = data.shards[shard].epoch + 1
                data.shards[shard] = replace(held, epoch=epoch, generation=0, owner="")

    def standing(self, shard: str) -> Standing:
        """Epoch, offset, generation and owner."""
        data = self._opened()
        with data.lock:
            held = data.shards.get(shard, _Shard())
            return Standing(held.epoch, held.offset, held.generation, held.owner)

    def shards(self) -> list[str]:
        """The shards known, sorted."""
        data = self._opened()
        with data.lock:
            return sorted(data.shards)

    def offset(self, shard: str) -> int:
        """The offset of the first record not yet learnt."""
        return self.read(shard)[1]

    def load(self, shard: str) -> dict[str, bytes]:
        """All keys of the shard."""
        return self.read(shard)[0]

    def read(self, shard: str, prefixes: Sequence[str] = ()) -> tuple[dict[str, bytes], int]:
        """All keys, or those that begin so, and the offset, of the same moment."""
        data = self._opened()
        with data.lock:
            held = data.shards.get(shard, _Shard())
        starts = tuple(prefixes) or ("",)
        return {key: value for key, value in held.entries.items() if key.startswith(starts)}, held.offset

    def get(self, shard: str, key: str) -> bytes | None:
        """One value."""
        data = self._opened()
        with data.lock:
            return data.shards.get(shard, _Shard()).entries.get(key)

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
        data = self._opened()
        with data.lock:
            held = data.shards.get(shard, _Shard())
            check_commit(shard, epoch=epoch, owner=held.epoch, start=start, stored=held.offset)
            # on a copy, put in place by one assignment: an interrupt half way leaves the old state
            new = replace(held, offset=end, entries=dict(held.entries), letters=dict(held.letters))
            for key, value in writes.items():
                if value is None:
                    new.entries.pop(key, None)
                else:
                    new.entries[key] = value
            # settled first: a letter that was tried again and failed again is in both, and must stay
            for place in settled:
                new.letters.pop(place, None)
            new.letters.update(((letter.offset, letter.part), letter) for letter in letters)
            if len(new.letters) > base.MAX_LETTERS:
                for place in sorted(new.letters)[: -base.MAX_LETTERS]:
                    del new.letters[place]
            data.shards[shard] = new

    def letters(self, shard: str) -> list[DeadLetter]:
        """The dead letters, oldest first."""
        data = self._opened()
        with data.lock:
            return [letter for _, letter in sorted(data.shards.get(shard, _Shard()).letters.items())]

    def bytes_used(self) -> dict[str, int]:
        """Not known: Python does not tell."""
        return {}

    def close(self) -> None:
        """Let go of the data; the named ones stay for the next who opens them."""
        self._data = None

    def _opened(self) -> _Data:
        if self._data is None:
            raise StoreError("this memory store is closed: open another with open_store")
        return self._data

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()
