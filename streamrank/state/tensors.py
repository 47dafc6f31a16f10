"""What a snapshot holds <-> the tensors of a safetensors file.

An array is a tensor named ``<shard>/<key>``; `%` and `/` in the shard's name are written %25 and %2F, the key
is as it is. All else of a shard, dead letters included, is msgpack in one uint8 tensor, ``packed:<shard>``.
"""

from urllib.parse import unquote

import msgspec
import numpy as np

from streamrank.errors import StoreError
from streamrank.state.base import DeadLetter
from streamrank.state.values import Array, decode, encode

Entries = dict[str, dict[str, bytes]]  # shard -> key -> value
Letters = dict[str, list[DeadLetter]]

# safetensors reads a header of at most 100 MB: beyond this many arrays the smaller ones are packed
MAX_TENSORS = 10_000

_NATIVE = {"|b1", "|i1", "|u1", "<i2", "<u2", "<i4", "<u4", "<i8", "<u8", "<f2", "<f4", "<f8"}


class _Packed(msgspec.Struct):
    entries: dict[str, bytes]
    letters: list[DeadLetter]


def to_tensors(entries: Entries, letters: Letters) -> dict[str, Array]:
    """The tensors; `entries` and `letters` name the same shards."""
    arrays = [
        (shard, key, array)
        for shard, values in entries.items()
        for key, data in values.items()
        if (array := _native_array(data)) is not None
    ]
    arrays.sort(key=lambda one: one[2].nbytes, reverse=True)
    del arrays[MAX_TENSORS:]
    tensors = {f"{_escape(shard)}/{key}": array for shard, key, array in arrays}
    native = {(shard, key) for shard, key, _ in arrays}
    for shard, values in entries.items():
        rest = {key: data for key, data in values.items() if (shard, key) not in native}
        packed = msgspec.msgpack.encode(_Packed(rest, letters[shard]))
        tensors[f"packed:{_escape(shard)}"] = np.frombuffer(packed, np.uint8)
    return tensors


def from_tensors(tensors: dict[str, Array]) -> tuple[Entries, Letters]:
    """The entries and letters that `to_tensors` was given."""
    entries: Entries = {}
    letters: Letters = {}
    for name, array in tensors.items():
        shard, slash, key = name.partition("/")
        if slash:
            entries.setdefault(unquote(shard), {})[key] = encode(array)
        else:
            shard = unquote(shard.removeprefix("packed:"))
            packed = msgspec.msgpack.decode(array.data, type=_Packed)
            entries.setdefault(shard, {}).update(packed.entries)
            letters[shard] = packed.letters
    return entries, letters


def _native_array(data: bytes) -> Array | None:
    """The array, if safetensors can hold it and it comes back as the same bytes."""
    try:
        value = decode(data)
    except StoreError:
        return None
    if isinstance(value, np.ndarray) and value.dtype.str in _NATIVE and encode(value) == data:
        return value
    return None


def _escape(shard: str) -> str:
    return shard.replace("%", "%25").replace("/", "%2F")
