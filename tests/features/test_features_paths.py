"""The quick ways to rows (same fields throughout; packed) against the plain one."""

import dataclasses
import math
import struct
from itertools import pairwise

import msgspec
import numpy as np
import pytest
from hypothesis import given
from hypothesis import settings as running
from hypothesis import strategies as st

from streamrank.config import FeatureSettings
from streamrank.events.packed import pack
from streamrank.events.types import Field, Item, ItemMetadata, PackedLists, PackedRanking, Ranking
from streamrank.features.batch import BatchBuilder, Rows
from streamrank.features.space import FeatureSpace

COMPILED = running(deadline=None)  # the first example may compile
NAMES = ["a", "b", "c", "d", "a=x", "b[0]", "relevancy", ""]
NUMBERS = st.one_of(
    st.floats(allow_nan=False, allow_infinity=False),
    st.sampled_from([0.0, -0.0, 1e308, -1e308, 5e-324]),
    st.integers(-(10**308), 10**308),
    st.booleans(),
)

pytestmark = pytest.mark.usefixtures("uncentred")
VALUES = st.one_of(
    NUMBERS,
    st.sampled_from(["x", "y", ""]),
    st.lists(st.sampled_from(["x", "y"]), max_size=3),
    st.lists(st.integers(-5, 5), max_size=3),
)
SETTINGS = st.sampled_from(
    [
        FeatureSettings(click_rate_half_life_ms=0),
        FeatureSettings(click_rate_half_life_ms=0, columns=3),
        FeatureSettings(click_rate_half_life_ms=0, mode="hashed", bits=2),
        FeatureSettings(click_rate_half_life_ms=0, mode="hashed", bits=18),
    ]
)


def items(names: st.SearchStrategy[list[str]], values: st.SearchStrategy) -> st.SearchStrategy[list[Item]]:
    """One to four items; `names` is drawn once for all, and then now and then changed for one."""

    @st.composite
    def build(draw):
        common, rows = draw(names), []
        for k in range(draw(st.integers(1, 4))):
            own = common
            if draw(st.integers(0, 5)) == 0:
                own = draw(st.one_of(st.permutations(common), names))
            relevancy = draw(st.none() | st.just(2.0)) if draw(st.integers(0, 5)) == 0 else None
            rows.append(Item(str(k), [Field(name, draw(values)) for name in own], relevancy=relevancy))
        return rows

    return build()


UNIQUE = st.lists(st.sampled_from(NAMES), unique=True, max_size=5)
REPEATED = st.lists(st.sampled_from(NAMES), max_size=5)
LISTS = st.one_of(items(UNIQUE, NUMBERS), items(UNIQUE, VALUES), items(REPEATED, VALUES))


def ranking(rows: list[Item]) -> Ranking:
    return Ranking(id="r", timestamp=1000, items=rows)


class PlainSpace(FeatureSpace):
    """One that never takes the quick way."""

    def _plain_rows(self, *_, **__):
        return None


def csr(*rows: Rows) -> list[bytes]:
    builder = BatchBuilder()
    for some in rows:
        builder.add(some, [0.0] * some.n, [0.0] * some.n)
    batch = builder.build()
    return [batch.indptr.tobytes(), batch.indices.tobytes(), batch.values.tobytes(), batch.lists.tobytes()]


DESCRIBED = st.builds(
    lambda item, fields: ItemMetadata(
        id="m", timestamp=1, item=item, fields=[Field(name, value) for name, value in fields.items()]
    ),
    st.sampled_from("0123"),
    st.dictionaries(st.sampled_from(["a", "b", "x", "y", "click_rate", "relevancy"]), VALUES, max_size=3),
)


@COMPILED
@given(SETTINGS, st.sampled_from([0, 1000]), st.lists(LISTS | DESCRIBED, max_size=7), LISTS)
def test_the_quick_way_gives_the_same_rows_and_the_same_state_as_the_plain_one(settings, rate, steps, unseen):
    settings = msgspec.structs.replace(settings, click_rate_half_life_ms=rate)
    quick, plain = FeatureSpace(settings), PlainSpace(settings)
    lists = [step for step in steps if isinstance(step, list)]
    for step in steps:
        if isinstance(step, ItemMetadata):
            quick.describe(step)
            plain.describe(step)
        else:
            assert csr(quick.rows(ranking(step))) == csr(plain.rows(ranking(step)))
        assert quick.to_state() == plain.to_state()
    for rows in [*lists, unseen]:
        event = ranking(rows)
        assert csr(quick.rows(event, learn=False)) == csr(plain.rows(event, learn=False))


@pytest.mark.parametrize("rate", [0, 1000])
@pytest.mark.parametrize("described", [False, True])
def test_the_quick_way_is_taken_with_metadata_and_click_rates_and_gives_the_same_rows(rate, described):
    settings = FeatureSettings(click_rate_half_life_ms=rate)
    quick, plain = FeatureSpace(settings), PlainSpace(settings)
    event = ranking([Item(k, [Field("p", 1.5), Field("q", True)]) for k in "012"])
    for space in (quick, plain):
        if described:
            fields = [Field("colour", "red"), Field("price", 2.0)]
            space.describe(ItemMetadata(id="m", timestamp=1, item="1", fields=fields))
        space.rows(event)
    taken = quick._plain_rows(event, [0.1] * 3 if rate else None, learn=False)
    assert taken is not None
    assert csr(quick.rows(event)) == csr(plain.rows(event))


def test_lists_of_the_same_numbers_do_take_the_quick_way_and_others_do_not():
    space = FeatureSpace(FeatureSettings(click_rate_half_life_ms=0))
    plain = [Item(k, [Field("p", 1), Field("q", True)]) for k in "ab"]
    permuted = [plain[0], Item("b", plain[1].fields[::-1])]
    worded = [plain[0], Item("b", [Field("p", 1), Field("q", "x")])]
    for rows, quick in ((plain, True), (permuted, False), (plain, True), (worded, False)):
        assert (space.rows(ranking(rows)).indptr is None) == quick
    assert (space.rows(ranking(plain), learn=False).indptr is None) is True


def by_name(space: FeatureSpace, rows: Rows) -> list[dict[str, bytes]]:
    """Each row as name -> bits of the value: a packed list names its columns in another order."""
    columns, indptr = rows.columns.tolist(), rows.indptr
    if indptr is None:
        indptr, columns = np.arange(rows.n + 1) * len(columns), columns * rows.n
    named = [
        (space.columns.name(j), struct.pack("<d", v))
        for j, v in zip(columns, rows.values.tolist(), strict=True)
    ]
    return [dict(named[a:b]) for a, b in pairwise(indptr)]


@COMPILED
@given(st.lists(items(UNIQUE, NUMBERS), max_size=5))
def test_a_packed_ranking_gives_the_rows_of_the_same_ranking_sent_with_named_fields(lists):
    settings = FeatureSettings(click_rate_half_life_ms=0)
    packed, plain = FeatureSpace(settings), FeatureSpace(settings)
    for rows in lists:
        for learn in (True, False):
            ours = by_name(packed, packed.rows(pack(ranking(rows)), learn=learn))
            assert ours == by_name(plain, plain.rows(ranking(rows), learn=learn))
    assert (packed.dropped, plain.dropped) == (0, 0)


@COMPILED
@given(SETTINGS, st.lists(st.sampled_from("abcdef"), unique=True, min_size=1), st.data())
def test_packed_and_named_agree_to_the_bit_on_names_dropped_and_names_that_share_a_column(
    settings, names, data
):
    packed, plain = FeatureSpace(settings), FeatureSpace(settings)
    for k in range(3):
        rows = [
            Item(str(i), [Field(name, data.draw(NUMBERS)) for name in sorted(names)]) for i in range(k + 1)
        ]
        ours, theirs = packed.rows(pack(ranking(rows))), plain.rows(ranking(rows))
        assert csr(ours) == csr(theirs)
        assert packed.to_state() == plain.to_state()


def packed_ranking(names: list[str], values: np.ndarray) -> PackedRanking:
    return PackedRanking(
        id="r",
        timestamp=1,
        items=[str(k) for k in range(len(values))],
        columns=msgspec.Raw(msgspec.msgpack.encode(names)),
        values=values.tobytes(),
    )


def test_float32_values_are_taken_as_the_float64_they_equal_and_nan_is_missing():
    values = np.array([[0.1, math.nan], [math.nan, math.nan], [3.0, -0.0]])
    for dtype in (np.dtype("<f4"), np.dtype("<f8")):
        space, cast = FeatureSpace(FeatureSettings()), values.astype(dtype)
        rows = by_name(space, space.rows(packed_ranking(["p", "q"], cast)))
        bits = lambda x: struct.pack("<d", float(x))  # noqa: E731
        assert rows == [{"p": bits(cast[0, 0])}, {}, {"p": bits(3.0), "q": bits(-0.0)}]


def test_a_dropped_column_counts_once_for_each_value_given():
    space = FeatureSpace(FeatureSettings(columns=1, click_rate_half_life_ms=0))
    event = packed_ranking(["p", "q", "r"], np.array([[1.0, 2.0, math.nan], [3.0, 4.0, 5.0]]))
    assert by_name(space, space.rows(event)) == by_name(space, space.rows(event, learn=False))
    assert space.dropped == 3
    assert space.rows(event).values.tolist() == [1.0, 3.0]


def test_huge_values_of_both_signs_are_not_taken_for_missing_ones():
    space = FeatureSpace(FeatureSettings())
    values = np.array([[1.7e308, 1.7e308], [-1.7e308, -1.7e308]])
    assert space.rows(packed_ranking(["p", "q"], values)).values.tolist() == values.ravel().tolist()


def test_a_packed_ranking_without_columns_is_a_list_of_empty_rows():
    space = FeatureSpace(FeatureSettings())
    assert csr(space.rows(packed_ranking([], np.empty((3, 0)))))[0] == np.zeros(4, dtype=np.int64).tobytes()


def test_the_memory_of_packed_layouts_is_bounded_and_says_the_same_again():
    space = FeatureSpace(FeatureSettings(columns=5000))
    before = dataclasses.astuple(space.rows(packed_ranking(["p0"], np.ones((1, 1)))))
    for k in range(2500):
        space.rows(packed_ranking([f"p{k}"], np.ones((1, 1))))
    assert len(space._packed) <= 1000
    assert dataclasses.astuple(space.rows(packed_ranking(["p0"], np.ones((1, 1))))) == before


def test_to_rank_a_packed_list_of_unseen_names_does_not_keep_them_from_being_learnt():
    space, event = FeatureSpace(FeatureSettings()), packed_ranking(["p", "q"], np.ones((2, 2)))
    assert len(space.rows(event, learn=False).values) == 0
    assert by_name(space, space.rows(event))[0].keys() == {"p", "q"}


@COMPILED
@given(
    SETTINGS, st.lists(st.integers(1, 3), min_size=1, max_size=4), st.sampled_from(["<f4", "<f8"]), st.data()
)
def test_a_block_of_lists_gives_the_rows_of_its_lists_packed_one_by_one(settings, sizes, dtype, data):
    cells = st.just(math.nan) | st.integers(-9, 9).map(lambda n: n / 8)
    n = sum(sizes)
    values = np.array(data.draw(st.lists(cells, min_size=3 * n, max_size=3 * n)), dtype=dtype).reshape(n, 3)
    labels = np.arange(n, dtype=dtype)
    names = ["p", "q", "r"]
    block = PackedLists(
        id="l",
        timestamp=1,
        columns=msgspec.Raw(msgspec.msgpack.encode(names)),
        values=values.tobytes(),
        sizes=np.array(sizes, dtype="<i4").tobytes(),
        labels=labels.tobytes(),
    )
    whole, single = FeatureSpace(settings), FeatureSpace(settings)
    rows, got_sizes, got_labels = whole.block(block)
    parts = np.split(values, np.cumsum(sizes)[:-1])
    assert csr(rows)[:3] == csr(*(single.rows(packed_ranking(names, part)) for part in parts))[:3]
    assert (got_sizes.tolist(), got_labels.tolist()) == (sizes, list(range(n)))
    assert whole.to_state() == single.to_state()


def test_a_number_of_the_item_takes_the_place_of_a_word_of_the_same_name_on_the_quick_way_too():
    space = FeatureSpace(FeatureSettings(click_rate_half_life_ms=0))
    space.describe(ItemMetadata(id="m", timestamp=1, item="a", fields=[Field("size", "large")]))
    rows = space.rows(ranking([Item("a", [Field("size", 3.0)]), Item("b", [Field("size", 4.0)])]))
    assert [row.keys() for row in by_name(space, rows)] == [{"size"}, {"size"}]
