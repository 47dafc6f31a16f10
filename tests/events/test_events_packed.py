import math

import msgspec
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from streamrank.errors import MalformedEvent
from streamrank.events import packed as module
from streamrank.events.codec import Decoder, encode_msgpack, pack
from streamrank.events.packed import ColumnNames
from streamrank.events.types import Field, Item, PackedRanking, Ranking

MS = 1_599_391_467_000


def ranking(*items: Item, **members: object) -> Ranking:
    return Ranking(id="r", timestamp=MS, items=list(items), **members)


numbers = st.booleans() | st.integers(-(2**60), 2**60) | st.floats(-1e300, 1e300)
rows = st.dictionaries(st.text(min_size=1, max_size=5), numbers, max_size=6)


@given(st.lists(st.tuples(rows, st.none() | st.floats(-1e9, 1e9)), min_size=1, max_size=6))
def test_packing_keeps_each_number_under_its_name_and_nan_elsewhere(shown):
    items = [
        Item(f"i{k}", [Field(name, value) for name, value in row.items()], relevancy=relevancy)
        for k, (row, relevancy) in enumerate(shown)
    ]
    packed = pack(ranking(*items, user="u", query="q", shuffled=True, fair_pairs=1))
    decoder = Decoder()
    assert decoder.decode(encode_msgpack(packed))[0].items == [item.id for item in items]
    names = decoder.columns(packed.columns)
    assert list(names) == sorted(names)
    values = np.frombuffer(packed.values, "<f8").reshape(len(items), len(names))
    for (row, relevancy), got in zip(shown, values, strict=True):
        expected = {name: float(value) for name, value in row.items()}
        if relevancy is not None:
            expected["relevancy"] = relevancy
        assert {n: v for n, v in zip(names, got.tolist(), strict=True) if not math.isnan(v)} == expected
    assert (packed.user, packed.query, packed.shuffled, packed.fair_pairs) == ("u", "q", True, 1)


def test_labels_and_propensities_go_along_when_all_items_have_them():
    packed = pack(ranking(Item("a", label=2.0, propensity=1.0), Item("b", label=0.0, propensity=0.5)))
    assert (packed.labels, packed.propensities) == ([2.0, 0.0], [1.0, 0.5])
    assert pack(ranking(Item("a"))).labels is None


@pytest.mark.parametrize(
    ("shown", "kind", "where"),
    [
        (ranking(Item("a", [Field("x", 1), Field("s", "red")])), "wrong-type", "$.items[0].fields[1].value"),
        (ranking(Item("a"), Item("b", [Field("v", [1.0])])), "wrong-type", "$.items[1].fields[0].value"),
        (ranking(Item("a", [Field("x", math.inf)])), "not-finite", "$.items[0].fields[0].value"),
        (ranking(Item("a", [Field("x", 10**400)])), "out-of-range", "$.items[0].fields[0].value"),
        (ranking(Item("a"), fields=[Field("query", "cat")]), "bad-shape", "$.fields"),
        (ranking(Item("a", label=1.0), Item("b")), "missing-field", "$.items[1].label"),
        (ranking(Item("a"), Item("b", propensity=1.0)), "missing-field", "$.items[0].propensity"),
    ],
)
def test_what_the_packed_form_cannot_hold_is_refused(shown, kind, where):
    with pytest.raises(MalformedEvent) as caught:
        pack(shown)
    assert (caught.value.kind, caught.value.where) == (kind, where)


def test_a_text_is_refused_with_the_words_that_the_packed_form_takes_numbers():
    with pytest.raises(MalformedEvent, match="'colour' is 'red'; the packed form takes numbers"):
        pack(ranking(Item("a", [Field("colour", "red")])))


def packed(values: bytes, columns: list[str], **members: object) -> bytes:
    event = {"event": "packed", "id": "p", "timestamp": "2020-09-06", "items": ["a", "b"], **members}
    return msgspec.msgpack.encode({**event, "columns": columns, "values": values})


@pytest.mark.parametrize("dtype", ["<f8", "<f4"])
def test_values_of_both_widths_are_left_as_the_bytes_sent(dtype):
    values = np.array([[1, math.nan], [np.finfo(dtype).max, -np.finfo(dtype).max]], dtype).tobytes()
    (event,) = Decoder().decode(packed(values, ["x", "y"], labels=[1, 0], propensities=[1, 0.5]))
    assert isinstance(event, PackedRanking)
    assert (event.values, event.timestamp, event.labels) == (values, 1_599_350_400_000, [1.0, 0.0])


def test_a_packed_ranking_may_have_no_columns():
    (event,) = Decoder().decode(packed(b"", []))
    assert Decoder().columns(event.columns) == ()


def test_an_infinite_value_is_named_by_item_and_column():
    (error,) = Decoder().decode(packed(np.array([1.0, 2, math.nan, -math.inf]).tobytes(), ["x", "price"]))
    assert error.reason == "items[1] has an infinite 'price'"


def test_names_are_decoded_once_for_equal_bytes_also_when_layouts_alternate():
    names = ColumnNames(max_name_chars=9)
    layouts = [msgspec.Raw(msgspec.msgpack.encode(columns)) for columns in (["a", "b"], ["c"], [])]
    first = [names(layout) for layout in layouts]
    assert first == [("a", "b"), ("c",), ()]
    again = [names(msgspec.Raw(bytes(layout))) for layout in layouts]
    assert all(one is other for one, other in zip(first, again, strict=True))


def test_what_is_remembered_of_the_names_is_bounded(monkeypatch):
    monkeypatch.setattr(module, "_CACHE_BYTES", 100)
    names = ColumnNames(max_name_chars=9)
    for k in range(500):
        assert names(msgspec.Raw(msgspec.msgpack.encode([f"c{k}", "x"]))) == (f"c{k}", "x")
        assert sum(map(len, names._known)) <= 100


def test_bad_names_are_refused_each_time_they_are_met():
    names = ColumnNames(max_name_chars=9)
    for raw in (b"", b"\x92\xa1a", b"\x91\xa1\xff", b"\x91\x01", b"\x91" * 5000, b"\x92\xa1a\xa1a"):
        for _ in range(2):
            with pytest.raises(MalformedEvent, match="columns"):
                names(msgspec.Raw(raw))
