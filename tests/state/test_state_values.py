import contextlib
import struct
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from streamrank.errors import StoreError
from streamrank.state.values import decode, encode

DTYPES = [
    "?",
    "i1",
    "u1",
    "i2",
    "u4",
    "i8",
    "u8",
    "f2",
    "f4",
    "f8",
    "c8",
    "c16",
    "M8[ms]",
    "m8[s]",
    "S3",
    "U2",
]
arrays = st.sampled_from(DTYPES).flatmap(
    lambda dtype: hnp.arrays(np.dtype(dtype), hnp.array_shapes(min_dims=0, max_dims=3, min_side=0))
)
text = st.text(st.characters(codec="utf-8"), max_size=8)
plain = (
    st.none()
    | st.booleans()
    | st.integers(-(2**63), 2**64 - 1)
    | st.floats()
    | text
    | st.binary(max_size=20)
    | arrays
)
values = st.recursive(plain, lambda v: st.lists(v, max_size=4) | st.dictionaries(text, v, max_size=4))


def same(a: Any, b: Any) -> bool:
    """Equal to the bit and of the same type, all the way down."""
    if type(a) is not type(b):
        return False
    if isinstance(a, np.ndarray):
        return bool(a.dtype == b.dtype and a.shape == b.shape and a.tobytes() == b.tobytes())
    if isinstance(a, float):
        return struct.pack("<d", a) == struct.pack("<d", b)
    if isinstance(a, list):
        return len(a) == len(b) and all(map(same, a, b))
    if isinstance(a, dict):
        return a.keys() == b.keys() and all(same(a[k], b[k]) for k in a)
    return bool(a == b)


def reversed_dicts(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: reversed_dicts(value[key]) for key in reversed(value)}
    return [reversed_dicts(one) for one in value] if isinstance(value, list) else value


@settings(max_examples=300, deadline=None)
@given(values)
def test_a_value_comes_back_to_the_bit_and_has_one_form_only(value: Any) -> None:
    data = encode(value)
    assert same(decode(data), value)
    assert encode(decode(data)) == data
    assert encode(reversed_dicts(value)) == data


@pytest.mark.parametrize(
    "bits", [0x8000000000000000, 0x7FF8000000000001, 0xFFF8000000000000, 0x7FF0000000000001]
)
def test_minus_zero_and_the_bits_of_nan_survive_alone_and_in_arrays(bits: int) -> None:
    raw = struct.pack("<Q", bits)
    (number,) = struct.unpack("<d", raw)
    back: Any = decode(encode([number, np.frombuffer(raw, np.float64)]))
    assert struct.pack("<d", back[0]) == raw
    assert back[1].tobytes() == raw


def test_layout_and_byte_order_do_not_show() -> None:
    plain = np.arange(24.0).reshape(4, 6)
    wide = np.zeros((8, 12))
    wide[::2, ::2] = plain
    for other in (np.asfortranarray(plain), wide[::2, ::2], plain.astype(">f8"), plain.T.copy().T):
        assert encode(other) == encode(plain)
    assert encode(plain.astype("f4")) != encode(plain)
    assert encode(plain.reshape(6, 4)) != encode(plain)


def test_the_form_is_the_one_that_is_written_down() -> None:
    head = b"\x92\xa3<f8\x91\x02"  # msgpack of ("<f8", (2,)), 7 bytes long
    rows = struct.pack("<2d", 1.0, -2.0)
    body = struct.pack("<H", len(head)) + head + rows
    assert encode(np.array([1.0, -2.0])) == b"\xc7" + bytes([len(body), 1]) + body
    assert encode({"b": 1, "a": None}) == b"\x82\xa1a\xc0\xa1b\x01"


def test_decoded_arrays_can_be_written_to_and_own_their_memory() -> None:
    data = encode([np.zeros(3), np.zeros(())])
    back: Any = decode(data)
    for array in back:
        assert array.flags.owndata
        array[...] = 7.0
    assert data == encode([np.zeros(3), np.zeros(())])


@pytest.mark.parametrize(
    ("scalar", "number"),
    [(np.float64(0.5), 0.5), (np.float32(0.5), 0.5), (np.int64(-3), -3), (np.bool_(1), True)],
)
def test_a_numpy_scalar_is_the_number_it_equals(scalar: Any, number: Any) -> None:
    assert encode(scalar) == encode(number)


@pytest.mark.parametrize(
    ("value", "why"),
    [
        (2**64, "2\\*\\*64"),
        (-(2**63) - 1, "2\\*\\*63"),
        ([{"n": 2**70}], "2\\*\\*64"),
        (np.array([{}], dtype=object), "dtype object"),
        ([np.array(["a", None])], "dtype object"),
        (np.zeros(2, dtype=[("a", "f8")]), "no portable bytes"),
        (np.zeros(2, dtype=np.longdouble), "no portable bytes"),
        ({1: 2}, "str keys"),
        (object(), "object"),
        (1j, "complex"),
        ("\ud800", "surrogates"),
    ],
)
def test_what_cannot_be_stored_is_refused_with_the_reason(value: Any, why: str) -> None:
    with pytest.raises(StoreError, match=why):
        encode(value)


@settings(max_examples=300, deadline=None)
@given(st.data())
def test_damaged_bytes_are_a_store_error_or_another_value_but_never_a_crash(data: st.DataObject) -> None:
    whole = bytearray(encode({"w": np.arange(5.0), "t": ["a", np.zeros((2, 2), "U3")]}))
    at = data.draw(st.integers(0, len(whole) - 1))
    whole[at] ^= data.draw(st.integers(1, 255))
    cut = data.draw(st.integers(0, len(whole)))
    for damaged in (bytes(whole), bytes(whole[:cut])):
        with contextlib.suppress(StoreError):
            decode(damaged)


@pytest.mark.parametrize("extra", [b"\x00", b"\xc0"])
def test_bytes_cut_short_or_with_more_behind_are_refused(extra: bytes) -> None:
    data = encode(np.arange(3))
    for damaged in (data[:-1], data + extra, b""):
        with pytest.raises(StoreError, match="not a stored value"):
            decode(damaged)


def test_an_array_whose_head_promises_another_size_is_refused() -> None:
    data = encode(np.zeros(2, "u1"))
    for n_rows in (1, 3):
        with pytest.raises(StoreError, match="not a stored value"):
            decode(data.replace(b"\x91\x02", bytes([0x91, n_rows])))


def test_an_unknown_extension_is_refused() -> None:
    with pytest.raises(StoreError, match="extension 9 is unknown"):
        decode(b"\xd4\x09\x00")


def test_a_large_array_comes_back() -> None:
    large: npt.NDArray[np.float64] = np.random.default_rng(0).normal(size=(300, 700))
    assert same(decode(encode({"deep": [large]})), {"deep": [large]})
