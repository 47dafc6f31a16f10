import math
from itertools import pairwise

import pytest

from streamrank.config import FeatureSettings
from streamrank.events.types import Field, Item, ItemMetadata, Ranking
from streamrank.features import items as items_module
from streamrank.features.space import FeatureSpace

pytestmark = pytest.mark.usefixtures("uncentred")

NO_RATE = {"click_rate_half_life_ms": 0}


def space(**settings) -> FeatureSpace:
    return FeatureSpace(FeatureSettings(**(NO_RATE | settings)))


def ranking(*items: Item, at: int = 1000) -> Ranking:
    return Ranking(id="r", timestamp=at, items=list(items))


def item(name: str = "a", relevancy: float | None = None, **fields) -> Item:
    return Item(name, [Field(key, value) for key, value in fields.items()], relevancy=relevancy)


def metadata(name: str, at: int, **fields) -> ItemMetadata:
    return ItemMetadata(id="m", timestamp=at, item=name, fields=[Field(k, v) for k, v in fields.items()])


def named(features: FeatureSpace, event: Ranking, *, learn: bool = True) -> list[dict[str, float]]:
    rows = features.rows(event, learn=learn)
    indptr = range(0, len(rows.values) + 1, len(rows.columns)) if rows.indptr is None else rows.indptr
    columns = list(rows.columns) * (rows.n if rows.indptr is None else 1)
    names = [features.columns.name(int(column)) for column in columns]
    pairs = list(zip(names, rows.values.tolist(), strict=True))
    return [dict(pairs[a:b]) for a, b in pairwise(indptr)]


@pytest.mark.parametrize(
    ("value", "columns"),
    [
        (2.5, {"f": 2.5}),
        (-3, {"f": -3.0}),
        (10**300, {"f": 1e300}),
        (True, {"f": 1.0}),
        (False, {"f": 0.0}),
        ("red", {"f=red": 1.0}),
        ("", {"f=": 1.0}),
        ([1, 2.5, True], {"f[0]": 1.0, "f[1]": 2.5, "f[2]": 1.0}),
        (["b", "a", "b"], {"f=a": 1.0, "f=b": 1.0}),
        ([], {}),
    ],
)
def test_a_value_fills_the_columns_of_its_kind(value, columns):
    assert named(space(), ranking(item(f=value))) == [columns]


def test_a_text_sets_each_of_its_words_once_on_the_unit_circle():
    (row,) = named(space(text=["t"]), ranking(item(t="The cat, the CAT; a dog")))
    assert sorted(row) == ["t:a", "t:cat", "t:dog", "t:the"]
    assert math.hypot(*row.values()) == pytest.approx(1.0)
    assert named(space(text=["t"]), ranking(item(t=" ?! "))) == [{}]


def test_a_missing_field_counts_nothing():
    assert named(space(), ranking(item("a", p=1.0, q=2.0), item("b", q=3.0), item("c"))) == [
        {"p": 1.0, "q": 2.0},
        {"q": 3.0},
        {},
    ]


def test_of_two_fields_of_one_name_the_last_counts():
    twice = Item("a", [Field("p", 1.0), Field("p", 2.0)])
    assert named(space(), ranking(twice, twice)) == [{"p": 2.0}, {"p": 2.0}]


def test_a_name_never_learnt_counts_nothing_when_ranking():
    features = space()
    features.rows(ranking(item(p=1.0)))
    assert named(features, ranking(item(p=2.0, new=3.0, colour="red")), learn=False) == [{"p": 2.0}]
    assert features.dropped == 0


def test_names_beyond_the_limit_are_dropped_and_each_value_of_them_is_counted():
    features = space(columns=2)
    assert named(features, ranking(item("a", p=1.0, q=2.0, r=3.0, s="x"), item("b", r=4.0))) == [
        {"p": 1.0, "q": 2.0},
        {},
    ]
    assert features.dropped == 3
    features.rows(ranking(item("a", relevancy=1.0)))
    assert features.dropped == 4


def test_relevancy_is_a_column():
    assert named(space(), ranking(item("a", relevancy=2.0, p=1.0), item("b", p=3.0))) == [
        {"p": 1.0, "relevancy": 2.0},
        {"p": 3.0},
    ]


def test_metadata_stands_beside_the_fields_of_the_item_which_take_its_place():
    features = space()
    features.describe(metadata("a", 10, price=5.0, colour=["red", "blue"], relevancy=9.0))
    assert named(features, ranking(item("a", fresh=1.0), item("b", fresh=2.0))) == [
        {"price": 5.0, "colour=blue": 1.0, "colour=red": 1.0, "fresh": 1.0, "relevancy": 9.0},
        {"fresh": 2.0},
    ]
    assert named(features, ranking(item("a", price=7.0, colour="green", relevancy=1.0))) == [
        {"price": 7.0, "colour=green": 1.0, "relevancy": 1.0}
    ]


def test_names_that_share_a_hashed_column_add_up_wherever_they_come_from():
    whole = space(mode="hashed", bits=1)
    apart = space(mode="hashed", bits=1)
    fields = {f"f{k}": float(1 << k) for k in range(20)}
    apart.describe(metadata("a", 10, **dict(list(fields.items())[:10])))
    (together,) = named(whole, ranking(item("a", **fields)))
    assert sum(together.values()) == (1 << 20) - 1
    (both,) = named(apart, ranking(item("a", **dict(list(fields.items())[10:]))))
    assert sorted(both.values()) == sorted(together.values())


def test_the_later_metadata_stays_field_by_field_whatever_the_order_of_arrival():
    events = [metadata("a", 10, p=1.0), metadata("a", 30, q=1.0), metadata("a", 20, p=2.0, q=2.0)]
    for order in ([0, 1, 2], [2, 1, 0], [1, 2, 0]):
        features = space()
        for k in order:
            features.describe(events[k])
        assert named(features, ranking(item("a"))) == [{"p": 2.0, "q": 1.0}]


def test_of_metadata_of_one_moment_the_last_to_arrive_stays():
    features = space()
    for value in (1.0, 2.0):
        features.describe(metadata("a", 10, p=value))
    assert named(features, ranking(item("a"))) == [{"p": 2.0}]


def test_the_item_least_recently_described_is_forgotten_first_also_after_a_reload():
    features = space(max_items=2)
    for name in ("a", "b", "a"):
        features.describe(metadata(name, 10, p=1.0))
    again = space(max_items=2)
    again.from_state(dict(sorted(features.to_state().items(), reverse=True)))
    for both in (features, again):
        both.describe(metadata("c", 10, p=1.0))
        assert named(both, ranking(item("a"), item("b"), item("c"))) == [{"p": 1.0}, {}, {"p": 1.0}]
    assert features.to_state() == again.to_state()


def test_an_item_keeps_a_bounded_number_of_fields(monkeypatch):
    monkeypatch.setattr(items_module, "MAX_FIELDS", 2)
    features = space()
    for at, name in ((3, "p"), (1, "q"), (2, "r")):
        features.describe(metadata("a", at, **{name: 1.0}))
    assert named(features, ranking(item("a"))) == [{"p": 1.0, "r": 1.0}]


def test_the_click_rate_is_a_column_that_no_vocabulary_is_too_full_for():
    features = space(columns=2, click_rate_half_life_ms=1000)
    features.describe(metadata("a", 10, title="a good many words"))
    assert named(features, ranking(item("b")))[0] == {"click_rate": 0.1}
    features.clicked(["b"], 1000)
    assert named(features, ranking(item("b")))[0] == {"click_rate": pytest.approx(2 / 11)}


def test_without_a_half_life_there_is_no_click_rate_and_no_memory_of_one():
    features = space()
    features.rows(ranking(item("a", p=1.0)))
    features.clicked(["a"], 1000)
    assert features.rates.to_state() == {}
    assert features.columns.find("click_rate") == -1


def test_the_features_of_an_example_do_not_depend_on_the_order_they_came_in():
    one, other = space(), space()
    rows = one.example_rows({"b": 1.0, "a": "x"}), other.example_rows({"a": "x", "b": 1.0})
    assert one.to_state() == other.to_state()
    assert [row.columns.tolist() for row in rows] == [[0, 1], [0, 1]]
    assert rows[0].values.tolist() == rows[1].values.tolist() == [1.0, 1.0]
