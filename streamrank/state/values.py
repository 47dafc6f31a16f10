"""A value of a learner's state <-> bytes, in one canonical form: the same value is always the same bytes.

The form is msgpack with sorted dict keys. An array is extension 1: the length of its head (two bytes,
little-endian), the head (msgpack of dtype and shape), then its elements, little-endian, in C order.
"""

from typing import Any, TypeAlias

import msgspec
import numpy as np
import numpy.typing as npt
from msgspec.msgpack import Ext

from streamrank.errors import StoreError

Array = npt.NDArray[Any]
StateValue: TypeAlias = (
    "Array | int | float | str | bytes | bool | list[StateValue] | dict[str, StateValue] | None"
)

_ARRAY = 1


def encode(value: StateValue) -> bytes:
    """The bytes of `value`.

    A numpy scalar becomes the plain number it equals; a tuple becomes a list.

    >>> encode({"b": 1, "a": 2.0}) == encode({"a": 2.0, "b": 1})
    True
    >>> decode(encode([np.arange(3), None]))
    [array([0, 1, 2]), None]
    """
    try:
        return _encoder.encode(value)
    except (OverflowError, TypeError, ValueError, RecursionError) as error:
        raise StoreError(f"a value of type {type(value).__name__} cannot be stored: {error}") from error


def decode(data: bytes) -> StateValue:
    """The value that `encode` was given. Its arrays own their memory and can be written to."""
    try:
        value: StateValue = _decoder.decode(data)
    except (msgspec.MsgspecError, TypeError, ValueError, RecursionError) as error:
        raise StoreError(
            f"{len(data)} bytes are not a stored value: {error}. The store is damaged, or was written by "
            "something else: restore a snapshot."
        ) from error
    return value


def _checked(dtype: np.dtype[Any]) -> np.dtype[Any]:
    # Objects would need pickle; a long double is another type elsewhere, and some of its bytes mean nothing
    if dtype.kind not in "biufcmMSU" or dtype.char in "gG":
        raise TypeError(f"arrays of dtype {dtype} have no portable bytes; use numbers, text or datetimes")
    return dtype.newbyteorder("<")


def _encode_array(value: object) -> object:
    if isinstance(value, np.ndarray):
        little = _checked(value.dtype)
        head = _encoder.encode((little.str, value.shape))
        rows = value.astype(little, copy=False).reshape(-1).view(np.uint8).data
        return Ext(_ARRAY, b"".join((len(head).to_bytes(2, "little"), head, rows)))
    if isinstance(value, np.bool_ | np.integer | np.floating) and value.dtype.char != "g":
        return value.item()
    raise TypeError(f"{type(value).__name__} is neither an array nor a plain value")


def _decode_array(code: int, data: memoryview) -> Array:
    if code != _ARRAY:
        raise ValueError(f"extension {code} is unknown")
    start = 2 + int.from_bytes(data[:2], "little")
    name, shape = _head_decoder.decode(data[2:start])
    array: Array = np.ndarray(shape, _checked(np.dtype(name)), buffer=data, offset=start)
    if array.nbytes != len(data) - start:
        raise ValueError(f"an array of {array.nbytes} bytes was stored in {len(data) - start}")
    return array.copy()


_encoder = msgspec.msgpack.Encoder(order="deterministic", enc_hook=_encode_array)
_decoder = msgspec.msgpack.Decoder(ext_hook=_decode_array)
_head_decoder = msgspec.msgpack.Decoder(tuple[str, tuple[int, ...]])
