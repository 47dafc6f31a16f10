import json
import math

import msgspec
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from streamrank.errors import ConfigError, MalformedEvent
from streamrank.events.checks import Limits, check
from streamrank.events.codec import MAX_EVENTS, Decoder, encode_json, encode_msgpack, pack
from streamrank.events.types import (
    Event,
    Example,
    Field,
    Interaction,
    Item,
    ItemMetadata,
    PackedRanking,
    Preference,
    Ranking,
    UserMetadata,
)

DECODER = Decoder()
MS = 1_599_391_467_000
UUID = "81f46c34-a4bb-469c-8708-f8127cd67d27"


def one(value: bytes) -> Event | MalformedEvent:
    (result,) = DECODER.decode(value)
    return result


# The four events as Metarank's documentation shows them (its // comments are no JSON and are left out).
METARANK = {
    "item": (
        f"""{{ "event": "item", "id": "{UUID}", "timestamp": "1599391467000", "item": "item1",
        "fields": [ {{"name": "title", "value": "You favourite cat"}},
                    {{"name": "color", "value": ["white", "black"]}},
                    {{"name": "is_cute", "value": true}} ] }}""",
        ItemMetadata(
            id=UUID,
            timestamp=MS,
            item="item1",
            fields=[
                Field("title", "You favourite cat"),
                Field("color", ["white", "black"]),
                Field("is_cute", True),
            ],
        ),
    ),
    "user": (
        f"""{{ "event": "user", "id": "{UUID}", "timestamp": "1599391467000", "user": "user1",
        "fields": [ {{"name": "age", "value": 33}}, {{"name": "gender", "value": "m"}} ] }}""",
        UserMetadata(id=UUID, timestamp=MS, user="user1", fields=[Field("age", 33), Field("gender", "m")]),
    ),
    "ranking": (
        f"""{{ "event": "ranking", "id": "{UUID}", "timestamp": "1599391467000", "user": "user1",
        "session": "session1", "tenant": "default",
        "fields": [ {{"name": "query", "value": "cat"}}, {{"name": "source", "value": "search"}} ],
        "items": [ {{"id": "item3", "relevancy":  2.0}}, {{"id": "item1", "relevancy":  1.0}},
                   {{"id": "item2", "relevancy":  0.5}} ] }}""",
        Ranking(
            id=UUID,
            timestamp=MS,
            user="user1",
            session="session1",
            fields=[Field("query", "cat"), Field("source", "search")],
            items=[
                Item("item3", relevancy=2.0),
                Item("item1", relevancy=1.0),
                Item("item2", relevancy=0.5),
            ],
        ),
    ),
    "interaction": (
        f"""{{ "event": "interaction", "id": "0f4c0036-04fb-4409-b2c6-7163a59f6b7d", "ranking": "{UUID}",
        "timestamp": "2020-09-06T11:24:27Z", "user": "user1", "session": "session1", "type": "purchase",
        "item": "item1",
        "fields": [ {{"name": "count", "value": 1}}, {{"name": "shipping", "value": "DHL"}} ] }}""",
        Interaction(
            id="0f4c0036-04fb-4409-b2c6-7163a59f6b7d",
            timestamp=MS,
            ranking=UUID,
            user="user1",
            session="session1",
            type="purchase",
            item="item1",
            fields=[Field("count", 1), Field("shipping", "DHL")],
        ),
    ),
}


@pytest.mark.parametrize("kind", METARANK)
def test_metaranks_documented_events_are_taken_unchanged(kind):
    text, event = METARANK[kind]
    assert one(text.encode()) == event
    assert one(msgspec.msgpack.encode(json.loads(text))) == event


names = st.text(min_size=1, max_size=12)
values = st.one_of(
    st.booleans(),
    st.integers(-(2**63), 2**64 - 1),
    st.floats(allow_nan=False, allow_infinity=False),
    st.text(max_size=20),
    st.lists(st.text(max_size=5), max_size=4),
    st.lists(st.one_of(st.booleans(), st.integers(-9, 9), st.floats(-1, 1)), max_size=4),
)
fields = st.lists(st.builds(Field, name=names, value=values), max_size=4)
numbers = st.none() | st.floats(-1e9, 1e9)
stamps = st.integers(0, 10**8 - 1) | st.integers(10**11, 10**14 - 1)
items = st.lists(
    st.builds(
        Item,
        id=names,
        fields=fields,
        label=numbers,
        relevancy=numbers,
        propensity=st.none() | st.floats(1e-6, 1),
    ),
    min_size=1,
    max_size=5,
    unique_by=lambda item: item.id,
)
maybe = st.none() | names
rankings = st.builds(
    Ranking,
    id=names,
    timestamp=stamps,
    items=items,
    user=maybe,
    session=maybe,
    fields=fields,
    query=maybe,
    model=maybe,
    shuffled=st.booleans(),
    fair_pairs=st.sampled_from([None, 0, 1]),
)
events = st.one_of(
    rankings,
    st.builds(
        Interaction,
        id=names,
        timestamp=stamps,
        item=names,
        type=names,
        ranking=maybe,
        user=maybe,
        fields=fields,
    ),
    st.builds(ItemMetadata, id=names, timestamp=stamps, item=names, fields=fields),
    st.builds(UserMetadata, id=names, timestamp=stamps, user=names, fields=fields),
    st.builds(
        Preference,
        id=st.just("") | names,
        timestamp=stamps,
        better=st.dictionaries(names, values, max_size=4),
        worse=st.dictionaries(names, values, max_size=4),
        query=names,
        weight=st.floats(1e-6, 1e6),
    ),
    st.builds(
        Example,
        timestamp=stamps,
        x=st.dictionaries(names, values, max_size=4),
        y=st.floats(-1e9, 1e9),
        query=names,
        item=names,
    ),
)


@given(events)
def test_an_event_comes_back_equal_from_json_and_from_msgpack(event):
    assert one(encode_json(event)) == event
    assert one(encode_msgpack(event)) == event


@given(st.lists(events, min_size=1, max_size=4))
def test_an_array_of_events_comes_back_in_its_order(many):
    assert DECODER.decode(b" [" + b" ,\n".join(map(encode_json, many)) + b"]\n") == many
    head = bytes([0x90 + len(many)])
    assert DECODER.decode(head + b"".join(map(encode_msgpack, many))) == many


def test_integers_beyond_64_bits_are_written_to_msgpack_as_floats():
    event = Example(x={"a": 2**70, "b": [-(2**64), 1], "c": 2**64 - 1}, y=1.0)
    assert one(encode_msgpack(event)) == event
    assert type(one(encode_msgpack(event)).x["a"]) is float


def test_each_element_of_an_array_is_judged_by_itself():
    good = b'{"event":"example","x":{"a":1},"y":0}'
    bad = b'{"event":"ranking","id":"r","timestamp":5,"items":[{"id":"a"},{"id":"a"}]}'
    results = DECODER.decode(b"[" + b",".join([good, bad, b"[]", good, b'{"event":"x"}']) + b"]")
    assert [getattr(r, "where", None) for r in results] == [
        None,
        "$[1].items[1].id",
        "$[2]",
        None,
        "$[4].event",
    ]
    assert [r.kind for r in results] == ["example", "duplicate-item", "bad-shape", "example", "unknown-event"]


def test_a_record_holds_no_more_events_than_stated():
    (refused,) = DECODER.decode(b"[" + b",".join([b"0"] * (MAX_EVENTS + 1)) + b"]")
    assert (refused.kind, refused.where) == ("too-long", "$")
    assert len(DECODER.decode(b"[" + b",".join([b"0"] * MAX_EVENTS) + b"]")) == MAX_EVENTS


def test_json_may_begin_with_white_space_and_a_scalar_in_it_is_refused_as_json():
    assert isinstance(one(b' \r\n\t{"event":"example","x":{},"y":1}'), Example)
    assert isinstance(one(b' \n[{"event":"example","x":{},"y":1}]'), Example)
    assert (one(b" 17").kind, one(b" nonsense").kind) == ("bad-shape", "not-json")


def test_a_preference_and_an_example_need_neither_id_nor_time():
    assert one(b'{"event":"preference","better":{"a":1},"worse":{}}') == Preference(better={"a": 1}, worse={})
    assert one(b'{"event":"example","x":{},"y":3}').time_ms == 0


def test_encoding_writes_the_timestamp_as_an_integer_and_leaves_the_event_alone():
    event = Interaction(id="c", timestamp="2020-09-06T11:24:27Z", item="i", type="click")
    assert json.loads(encode_json(event))["timestamp"] == MS
    assert msgspec.msgpack.decode(encode_msgpack(event))["timestamp"] == MS
    assert event.timestamp == "2020-09-06T11:24:27Z"
    with pytest.raises(MalformedEvent, match="bad-timestamp"):
        encode_json(Interaction(id="c", timestamp="soon", item="i", type="click"))


def test_a_packed_ranking_has_no_json_form():
    packed = pack(Ranking(id="r", timestamp=1, items=[Item("a")]))
    with pytest.raises(MalformedEvent, match="bad-shape"):
        encode_json(packed)
    assert isinstance(one(encode_msgpack(packed)), PackedRanking)


@pytest.mark.parametrize("name", ["max_bytes", "max_items", "max_name_chars", "max_text_chars"])
@pytest.mark.parametrize("value", [0, -1, 1.5, True, "9"])
def test_a_limit_that_is_no_positive_integer_is_refused_at_construction(name, value):
    with pytest.raises(ConfigError, match=name):
        Decoder(**{name: value})


def odd_ranking(seed: int) -> bytes:
    """A JSON ranking with one to three things near or beyond a limit, in one of several spellings."""
    rng = np.random.default_rng(seed)
    strange = [
        "x" * 12, "x" * 13, "x" * 20, "x" * 21, 'a"' * 5, 'a"' * 8, 'a"' * 12,
        "", "[", "\\", "é" * 12, "é" * 13, "\u2028" * 20, 10**29, int("9" * 308), int("9" * 310), -1e308,
        True, [], [1, 2.5, True], ["a", "b"], [1, "a"], [True, "a"], [[]],
    ]  # fmt: skip

    def some() -> object:
        return strange[rng.integers(len(strange))]

    def text() -> object:
        value = some()
        return value if isinstance(value, str) else "t"

    event = {
        "event": "ranking",
        "id": "r",
        "timestamp": 7,
        "items": [
            {"id": f"i{k}", "fields": [{"name": "n", "value": 0.5}]} for k in range(int(rng.integers(1, 5)))
        ],
    }
    item = event["items"][-1]
    for change in rng.integers(0, 11, size=rng.integers(1, 4)):
        match int(change):
            case 0:
                item["fields"][0]["value"] = some()
            case 1:
                item["fields"].append({"name": text(), "value": 1})
            case 2:
                item["id"] = text()
            case 3:
                event["id"] = text()
            case 4:
                event["user"] = text()
            case 5:
                event["fields"] = [{"name": text(), "value": some()}]
            case 6:
                item["propensity"] = float(rng.choice([0.0, 0.5, 1.0, 1.5]))
            case 7:
                event["fair_pairs"] = int(rng.integers(-1, 3))
            case 8:
                event["items"].append({"id": "i0", "fields": []})
            case 9:
                event["tenant"] = some()
            case 10:
                event["items"] = event["items"] * int(rng.integers(0, 2))
    spelling = [{}, {"ensure_ascii": False}, {"indent": 1}, {"separators": (",", ":")}][rng.integers(4)]
    return json.dumps(event, **spelling).encode()


@given(st.integers(0, 2**32))
def test_the_look_at_the_bytes_of_a_ranking_agrees_with_the_careful_reading(seed):
    value = odd_ranking(seed)
    decoder = Decoder(max_items=4, max_name_chars=12, max_text_chars=20)
    (result,) = decoder.decode(value)
    try:
        plain = msgspec.json.decode(value, type=Ranking)
        check(plain, Limits(4, 12, 20))
    except (MalformedEvent, msgspec.ValidationError):
        assert isinstance(result, MalformedEvent)
    else:
        assert result == plain


def test_an_integer_without_a_float64_is_refused_also_where_longer_names_are_taken():
    ranking = Ranking(id="r", timestamp=MS, items=[Item("a", [Field("n", 10**309)])])
    (refused,) = Decoder(max_name_chars=1000).decode(encode_json(ranking))
    assert (refused.kind, refused.where) == ("out-of-range", "$.items[0].fields[0].value")


def test_a_usual_ranking_is_passed_by_the_look_at_its_bytes_alone(monkeypatch):
    ranking = Ranking(
        id="r", timestamp=MS, items=[Item(f"i{k}", [Field("a", 0.5), Field("b", True)]) for k in range(9)]
    )
    monkeypatch.setattr("streamrank.events.codec.check", lambda *_: pytest.fail("read twice"))
    assert one(encode_json(ranking)) == ranking


def test_a_refusal_keeps_no_frame_and_so_no_record_alive():
    refused = one(b'{"event":"ranking","id":"r","timestamp":5,"items":[{"id":"a","propensity":2}]}')
    assert (refused.where, refused.__traceback__, refused.__context__) == (
        "$.items[0].propensity",
        None,
        None,
    )


def test_nan_written_by_hand_into_a_ranking_is_refused_when_read_back():
    event = Ranking(id="r", timestamp=1, items=[Item("a", [Field("x", math.nan)])])
    assert one(encode_msgpack(event)).where == "$.items[0].fields[0].value"
    assert one(encode_json(event)).where == "$.items[0].fields[0].value"
