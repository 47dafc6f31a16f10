import copy
import json
import math
import struct

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from streamrank.errors import MalformedEvent
from streamrank.events.codec import Decoder
from streamrank.events.types import Event

DECODER = Decoder(max_bytes=200_000, max_items=5, max_name_chars=30, max_text_chars=60)
RANKING = {"event": "ranking", "id": "r", "timestamp": 5, "items": [{"id": "a"}, {"id": "b"}]}
CLICK = {"event": "interaction", "id": "c", "timestamp": 5, "item": "a", "type": "click"}
EXAMPLE = {"event": "example", "x": {"a": 1}, "y": 1}
PREFERENCE = {"event": "preference", "better": {"a": 1}, "worse": {"a": 0}}
PACKED = {
    "event": "packed",
    "id": "p",
    "timestamp": 5,
    "items": ["a", "b"],
    "columns": ["x"],
    "values": struct.pack("<2d", 1, 2),
}


def refused(value: bytes) -> MalformedEvent:
    (result,) = DECODER.decode(value)
    assert isinstance(result, MalformedEvent), result
    return result


def field(value: object, name: object = "n") -> dict:
    return {
        "items": [
            {"id": "a"},
            {"id": "b", "fields": [{"name": "m", "value": 1}, {"name": name, "value": value}]},
        ]
    }


VALUE = "$.items[1].fields[1].value"
BOTH = [  # a change to a valid event, sent as JSON and as msgpack; kind; where
    (RANKING, {"event": "rankin"}, "unknown-event", "$.event"),
    (RANKING, {"event": 5}, "wrong-type", "$.event"),
    (RANKING, {"event": ...}, "missing-field", "$.event"),
    (RANKING, {"id": ...}, "missing-field", "$.id"),
    (RANKING, {"id": ""}, "empty", "$.id"),
    (RANKING, {"id": 7}, "wrong-type", "$.id"),
    (RANKING, {"id": "x" * 31}, "too-long", "$.id"),
    (RANKING, {"user": "x" * 31}, "too-long", "$.user"),
    (RANKING, {"session": []}, "wrong-type", "$.session"),
    (RANKING, {"query": "x" * 31}, "too-long", "$.query"),
    (RANKING, {"model": "x" * 31}, "too-long", "$.model"),
    (RANKING, {"timestamp": ...}, "missing-field", "$.timestamp"),
    (RANKING, {"timestamp": -1}, "bad-timestamp", "$.timestamp"),
    (RANKING, {"timestamp": True}, "bad-timestamp", "$.timestamp"),
    (RANKING, {"timestamp": None}, "bad-timestamp", "$.timestamp"),
    (RANKING, {"timestamp": 1_599_391_467}, "bad-timestamp", "$.timestamp"),
    (RANKING, {"timestamp": 1_599_391_467_000_000}, "bad-timestamp", "$.timestamp"),
    (RANKING, {"timestamp": "yesterday"}, "bad-timestamp", "$.timestamp"),
    (RANKING, {"items": ...}, "missing-field", "$.items"),
    (RANKING, {"items": []}, "empty", "$.items"),
    (RANKING, {"items": {}}, "wrong-type", "$.items"),
    (RANKING, {"items": ["a"]}, "wrong-type", "$.items[0]"),
    (RANKING, {"items": [{"id": str(k)} for k in range(6)]}, "too-long", "$.items"),
    (RANKING, {"items": [{"id": "a"}, {}]}, "missing-field", "$.items[1].id"),
    (RANKING, {"items": [{"id": "a"}, {"id": ""}]}, "empty", "$.items[1].id"),
    (RANKING, {"items": [{"id": "a"}, {"id": "x" * 31}]}, "too-long", "$.items[1].id"),
    (RANKING, {"items": [{"id": "a"}, {"id": "b"}, {"id": "a"}]}, "duplicate-item", "$.items[2].id"),
    (RANKING, {"items": [{"id": "a", "propensity": 0}]}, "out-of-range", "$.items[0].propensity"),
    (RANKING, {"items": [{"id": "a", "propensity": 1.1}]}, "out-of-range", "$.items[0].propensity"),
    (RANKING, {"items": [{"id": "a", "label": "1"}]}, "wrong-type", "$.items[0].label"),
    (RANKING, {"fair_pairs": 2}, "out-of-range", "$.fair_pairs"),
    (RANKING, {"fair_pairs": -1}, "out-of-range", "$.fair_pairs"),
    (RANKING, {"fair_pairs": 0.5}, "wrong-type", "$.fair_pairs"),
    (RANKING, {"shuffled": 1}, "wrong-type", "$.shuffled"),
    (RANKING, {"fields": [{"name": "q", "value": [1, "a"]}]}, "mixed-list", "$.fields[0].value"),
    (RANKING, {"fields": None}, "wrong-type", "$.fields"),
    (RANKING, field(None), "wrong-type", VALUE),
    (RANKING, field({"a": 1}), "wrong-type", VALUE),
    (RANKING, field([1, None]), "wrong-type", VALUE + "[1]"),
    (RANKING, field([1, [2]]), "wrong-type", VALUE + "[1]"),
    (RANKING, field([1, "a"]), "mixed-list", VALUE),
    (RANKING, field([True, "a"]), "mixed-list", VALUE),
    (RANKING, field("x" * 61), "too-long", VALUE),
    (RANKING, field(["a", "x" * 61]), "too-long", VALUE + "[1]"),
    (RANKING, field(1, name="x" * 31), "too-long", "$.items[1].fields[1].name"),
    (RANKING, field(1, name=3), "wrong-type", "$.items[1].fields[1].name"),
    (CLICK, {"item": ...}, "missing-field", "$.item"),
    (CLICK, {"item": ""}, "empty", "$.item"),
    (CLICK, {"type": ""}, "empty", "$.type"),
    (CLICK, {"type": "x" * 31}, "too-long", "$.type"),
    (CLICK, {"ranking": "x" * 31}, "too-long", "$.ranking"),
    (CLICK, {"fields": [{"name": "n", "value": ["x", 1]}]}, "mixed-list", "$.fields[0].value"),
    ({**CLICK, "event": "item"}, {"item": ""}, "empty", "$.item"),
    ({**CLICK, "event": "user"}, {}, "missing-field", "$.user"),
    ({**CLICK, "event": "user"}, {"user": ""}, "empty", "$.user"),
    (EXAMPLE, {"y": ...}, "missing-field", "$.y"),
    (EXAMPLE, {"y": True}, "wrong-type", "$.y"),
    (EXAMPLE, {"x": {"a": 1, "b c": None}}, "wrong-type", '$.x["b c"]'),
    (EXAMPLE, {"x": {"a": [1, "b"]}}, "mixed-list", '$.x["a"]'),
    (EXAMPLE, {"x": {"a": 1, "x" * 31: 1}}, "too-long", f'$.x["{"x" * 31}"]'),
    (EXAMPLE, {"query": "x" * 31}, "too-long", "$.query"),
    (EXAMPLE, {"timestamp": 10**9}, "bad-timestamp", "$.timestamp"),
    (PREFERENCE, {"weight": 0}, "out-of-range", "$.weight"),
    (PREFERENCE, {"weight": -1}, "out-of-range", "$.weight"),
    (PREFERENCE, {"better": ...}, "missing-field", "$.better"),
    (PREFERENCE, {"worse": {"a": [None]}}, "wrong-type", '$.worse["a"][0]'),
]


def changed(event: dict, change: dict) -> dict:
    return {key: value for key, value in {**event, **change}.items() if value is not ...}


@pytest.mark.parametrize(("event", "change", "kind", "where"), BOTH)
def test_a_broken_event_is_refused_with_its_kind_and_place(event, change, kind, where):
    broken = changed(event, change)
    for value in (json.dumps(broken).encode(), msgspec.msgpack.encode(broken)):
        error = refused(value)
        assert (error.kind, error.where) == (kind, where)
        assert error.reason
        assert error.fix
        (error, good) = DECODER.decode(array := packed_or_json_array(value))
        assert (error.kind, error.where) == (kind, "$[0]" + where[1:]), array
        assert not isinstance(good, MalformedEvent)


def packed_or_json_array(value: bytes) -> bytes:
    if value.startswith(b"{"):
        return b"[" + value + b"," + json.dumps(CLICK).encode() + b"]"
    return b"\x92" + value + msgspec.msgpack.encode(CLICK)


NAN, INF = math.nan, math.inf
MSGPACK = [
    (RANKING, {"timestamp": NAN}, "bad-timestamp", "$.timestamp"),
    (RANKING, field(NAN), "not-finite", VALUE),
    (RANKING, field(-INF), "not-finite", VALUE),
    (RANKING, field([1.0, INF]), "not-finite", VALUE + "[1]"),
    (RANKING, {"items": [{"id": "a", "label": NAN}]}, "not-finite", "$.items[0].label"),
    (RANKING, {"items": [{"id": "a", "relevancy": INF}]}, "not-finite", "$.items[0].relevancy"),
    (RANKING, {"items": [{"id": "a", "propensity": NAN}]}, "not-finite", "$.items[0].propensity"),
    (EXAMPLE, {"y": NAN}, "not-finite", "$.y"),
    (EXAMPLE, {"x": {"a": NAN}}, "not-finite", '$.x["a"]'),
    (EXAMPLE, {"x": {1: 2}}, "wrong-type", "$.x"),
    (EXAMPLE, {"x": {"a": b"bytes"}}, "wrong-type", '$.x["a"]'),
    (PREFERENCE, {"weight": INF}, "not-finite", "$.weight"),
    (PACKED, {"id": ""}, "empty", "$.id"),
    (PACKED, {"timestamp": 10**9}, "bad-timestamp", "$.timestamp"),
    (PACKED, {"items": []}, "empty", "$.items"),
    (PACKED, {"items": ["a", ""]}, "empty", "$.items[1]"),
    (PACKED, {"items": ["a", "a"]}, "duplicate-item", "$.items[1]"),
    (PACKED, {"items": ["a", "x" * 31]}, "too-long", "$.items[1]"),
    (PACKED, {"items": list("abcdef")}, "too-long", "$.items"),
    (PACKED, {"items": ["a", 5]}, "wrong-type", "$.items[1]"),
    (PACKED, {"columns": {"x": 1}}, "wrong-type", "$.columns"),
    (PACKED, {"columns": [1]}, "wrong-type", "$.columns"),
    (PACKED, {"columns": [""]}, "empty", "$.columns[0]"),
    (PACKED, {"columns": ["x", "x"]}, "duplicate-column", "$.columns[1]"),
    (PACKED, {"columns": ["x" * 31]}, "too-long", "$.columns[0]"),
    (PACKED, {"columns": ["x", "y", "z"]}, "bad-shape", "$.values"),
    (PACKED, {"columns": []}, "bad-shape", "$.values"),
    (PACKED, {"values": b"1234567"}, "bad-shape", "$.values"),
    (PACKED, {"values": "1234567890123456"}, "wrong-type", "$.values"),
    (PACKED, {"values": struct.pack("<2d", 1, INF)}, "not-finite", "$.values"),
    (PACKED, {"values": struct.pack("<2d", NAN, -INF)}, "not-finite", "$.values"),
    (PACKED, {"values": struct.pack("<2f", 1, INF)}, "not-finite", "$.values"),
    (PACKED, {"labels": [1]}, "bad-shape", "$.labels"),
    (PACKED, {"labels": [1, NAN]}, "not-finite", "$.labels[1]"),
    (PACKED, {"propensities": [1, 0.5, 0.2]}, "bad-shape", "$.propensities"),
    (PACKED, {"propensities": [1, 0]}, "out-of-range", "$.propensities[1]"),
    (PACKED, {"propensities": [1.5, 1]}, "out-of-range", "$.propensities[0]"),
    (PACKED, {"propensities": [NAN, 1]}, "not-finite", "$.propensities[0]"),
    (PACKED, {"fair_pairs": 7}, "out-of-range", "$.fair_pairs"),
]


@pytest.mark.parametrize(("event", "change", "kind", "where"), MSGPACK)
def test_what_only_msgpack_can_get_wrong_is_refused_as_well(event, change, kind, where):
    error = refused(msgspec.msgpack.encode(changed(event, change)))
    assert (error.kind, error.where) == (kind, where)


DEEP = 200_000 // 2 - 100
RAW = [
    (b"", "empty", "$"),
    (b" \n", "empty", "$"),
    (b"[]", "empty", "$"),
    (b"\x90", "empty", "$"),
    (b"{", "not-json", "$"),
    (b'{"event":"example","x":{},"y":1} {}', "not-json", "$"),
    (b'{"event":"example","x":{},"y":1}]', "not-json", "$"),
    (b'[{"event":"example","x":{},"y":1},]', "not-json", "$"),
    (b'{"event":"example","x":{"a":"\\ud800"},"y":1}', "not-json", "$"),
    (b'{"event":"example","x":{"a":NaN},"y":1}', "not-finite", "$"),
    (b'{"event":"example","x":{"a":[1, -Infinity]},"y":1}', "not-finite", "$"),
    (b'[{"event":"example","x":{"a":nan},"y":1}]', "not-finite", "$"),
    (b'{"event":"example","x":{"a":1e999},"y":1}', "out-of-range", "$.x"),
    (b'{"event":"example","x":{},"y":1e999}', "out-of-range", "$.y"),
    (b'{"event":"example","x":{"a":1' + b"0" * 309 + b'},"y":1}', "out-of-range", '$.x["a"]'),
    (b'{"event":"example","x":{"a":1' + b"0" * 9000 + b'},"y":1}', "out-of-range", "$.x"),
    (b'{"event":"example","x":{"a":"\xff"},"y":1}', "not-utf8", "$"),
    (b'{"event":"example","x":{"a":null,"a":1},"y":1}', "wrong-type", "$.x"),
    (b'{"event":"ranking","id":"r","timestamp":1e999,"items":[]}', "bad-timestamp", "$.timestamp"),
    (
        b'{"event":"packed","id":"p","timestamp":5,"items":[],"columns":[],"values":""}',
        "unknown-event",
        "$.event",
    ),
    (b'{"event":"example","x":{},"y":1,"z":' + b"[" * DEEP + b"]" * DEEP + b"}", "too-deep", "$"),
    (b'[{"event":"example","x":{},"y":1,"z":' + b"[" * DEEP + b"]" * DEEP + b"}]", "too-deep", "$"),
    (b"[" * DEEP, "too-deep", "$"),
    (b"\x91" * DEEP, "too-deep", "$"),
    (b"\x81" * DEEP, "bad-shape", "$"),
    (b"[1, 2", "not-json", "$"),
    (b"hello", "not-json", "$"),
    (b"17", "not-json", "$"),
    (b"\xff", "not-msgpack", "$"),
    (b"\xef\xbb\xbf{}", "not-json", "$"),
    (b"\xc1", "not-msgpack", "$"),
    (b"\x81", "not-msgpack", "$"),
    (b"\xdd\xff\xff\xff\xff", "not-msgpack", "$"),
    (b"\xdf\xff\xff\xff\xff", "not-msgpack", "$"),
    (msgspec.msgpack.encode(EXAMPLE) + b"\x00", "not-msgpack", "$"),
    (msgspec.msgpack.encode({**EXAMPLE, "x": {"a": "zz"}}).replace(b"zz", b"\xff\xff"), "not-utf8", "$"),
    (json.dumps({**EXAMPLE, "tenant": "x" * 200_000}).encode(), "too-long", "$"),
]


@pytest.mark.parametrize(("value", "kind", "where"), RAW, ids=lambda part: str(part)[:40])
def test_bytes_that_are_no_event_give_one_refusal(value, kind, where):
    error = refused(value)
    assert (error.kind, error.where) == (kind, where)
    assert error.fix
    assert len(str(error)) < 400


def test_a_reason_shows_the_offending_value_shortened_and_what_to_send():
    error = refused(json.dumps(changed(RANKING, field(["x" * 50, 1]))).encode())
    assert error.reason.startswith("['xxxxx")
    assert error.reason.endswith("mixes numbers and strings")
    assert error.fix == "Send all numbers or all strings"
    assert "1599391467 looks like seconds. Multiply by 1000" in str(
        refused(json.dumps({**CLICK, "timestamp": 1599391467}).encode())
    )
    assert "ranking, interaction, item, user" in refused(b'{"event":"scroll"}').fix
    assert "got `str`: 'one'" in refused(json.dumps({**EXAMPLE, "y": "one"}).encode()).reason


@given(st.binary(max_size=200))
def test_no_bytes_make_the_decoder_raise(value):
    assert DECODER.decode(value)


@given(st.sampled_from([RANKING, CLICK, EXAMPLE, PREFERENCE, PACKED]), st.data())
def test_no_change_to_a_byte_of_msgpack_makes_the_decoder_raise(event, data):
    value = bytearray(msgspec.msgpack.encode(event))
    for _ in range(data.draw(st.integers(1, 4))):
        value[data.draw(st.integers(0, len(value) - 1))] = data.draw(st.integers(0, 255))
    assert DECODER.decode(bytes(value))


anything = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=70),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=6), inner, max_size=4),
    max_leaves=8,
)
members = st.sampled_from(
    [
        "event",
        "id",
        "timestamp",
        "items",
        "fields",
        "item",
        "type",
        "x",
        "y",
        "better",
        "worse",
        "weight",
        "values",
    ]
)
kinds = st.sampled_from(["ranking", "interaction", "item", "user", "example", "preference", "packed"])


@given(
    anything
    | st.builds(lambda kind, event: {**event, "event": kind}, kinds, st.dictionaries(members, anything))
)
def test_no_json_and_no_msgpack_makes_the_decoder_raise(value):
    assert DECODER.decode(json.dumps(value).encode())
    try:
        assert DECODER.decode(msgspec.msgpack.encode(value))
    except OverflowError:  # of msgpack.encode: an integer of more than 64 bits
        assert any(char.isdigit() for char in repr(value))


def places(value: object, path: tuple = ()) -> list[tuple]:
    inner = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    return [path, *(place for key, part in inner for place in places(part, (*path, key)))]


FULL = [
    changed(RANKING, field(["a"])),
    {**CLICK, "fields": [{"name": "n", "value": 0.5}]},
    EXAMPLE,
    PREFERENCE,
]


@given(st.sampled_from(FULL), anything, st.data())
def test_an_event_changed_at_one_place_is_valid_of_its_type_or_refused(event, part, data):
    event = copy.deepcopy(event)
    place = data.draw(st.sampled_from(places(event)[1:]))
    inside = event
    for key in place[:-1]:
        inside = inside[key]
    inside[place[-1]] = part
    (result,) = DECODER.decode(json.dumps(event).encode())
    if isinstance(result, MalformedEvent):
        assert result.where.startswith("$")
        assert result.kind in str(result)
    else:
        assert result.__struct_config__.tag == event["event"]
        typed = msgspec.convert(msgspec.to_builtins(result), Event)  # the types hold, and so do the rules
        assert typed == result
        assert DECODER.decode(msgspec.json.encode(result)) == [result]
