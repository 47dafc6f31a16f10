"""One short text that two stores share when, and only when, they learnt the same from the same log."""

from collections.abc import Callable, Iterable, Mapping
from hashlib import sha256

from streamrank.state.base import Store


def digest(store: Store) -> str:
    """The SHA-256 of all keys, values and offsets, whatever the backend and the order of writing.

    Epochs (who owns a shard) and dead letters are no part of it, nor is a shard that was acquired but holds
    nothing yet.
    """
    return digest_of((shard, *store.read(shard)) for shard in store.shards())


def shard_digests(store: Store) -> dict[str, tuple[str, int]]:
    """The digest that each shard would have alone, and its offset; those that hold nothing are left out."""
    digests = {}
    for shard in store.shards():
        entries, offset = store.read(shard)
        if entries or offset:
            digests[shard] = digest_of([(shard, entries, offset)]), offset
    return digests


def digest_of(shards: Iterable[tuple[str, Mapping[str, bytes], int]]) -> str:
    """The same of (shard, entries, offset), given in the order of their names."""
    total = sha256()
    for shard, entries, offset in shards:
        if not entries and not offset:
            continue
        _add(total.update, shard.encode())
        total.update(offset.to_bytes(8, "little", signed=True))
        total.update(len(entries).to_bytes(8, "little"))
        for key in sorted(entries):
            _add(total.update, key.encode())
            _add(total.update, entries[key])
    return total.hexdigest()


def _add(update: Callable[[bytes], object], data: bytes) -> None:
    # the length goes first, so that ("ab", "c") and ("a", "bc") differ
    update(len(data).to_bytes(8, "little"))
    update(data)
