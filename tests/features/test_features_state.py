"""Whatever happens, and wherever it is cut: the state is a function of the events alone."""

import copy

from hypothesis import given
from hypothesis import settings as running
from hypothesis import strategies as st

from streamrank.config import FeatureSettings
from streamrank.events.packed import pack
from streamrank.events.types import Field, Interaction, Item, ItemMetadata, Ranking
from streamrank.features.space import FeatureSpace
from streamrank.state.values import decode, encode

COMPILED = running(deadline=None)  # the first example may compile
ITEMS = st.sampled_from("abcde")
TIMES = st.integers(0, 5000)
NUMBERS = st.dictionaries(st.sampled_from("pqrs"), st.floats(-1e3, 1e3), max_size=3)
FIELDS = st.dictionaries(
    st.sampled_from(["p", "q", "r", "colour", "title", "v"]),
    st.floats(-1e3, 1e3) | st.sampled_from(["red", "blue", "two words", ["x", "y"], [1.5, 2]]),
    max_size=4,
)


def fields(values: dict) -> list[Field]:
    return [Field(name, value) for name, value in values.items()]


@st.composite
def rankings(draw, values=FIELDS):
    names = draw(st.lists(ITEMS, min_size=1, max_size=4, unique=True))
    shown = [Item(name, fields(draw(values))) for name in names]
    return Ranking(id="r", timestamp=draw(TIMES), items=shown)


EVENTS = st.one_of(
    rankings(),
    rankings(NUMBERS).map(pack),
    st.builds(
        lambda item, at, values: ItemMetadata(id="m", timestamp=at, item=item, fields=fields(values)),
        ITEMS,
        TIMES,
        FIELDS,
    ),
    st.builds(lambda item, at: Interaction(id="c", timestamp=at, item=item, type="click"), ITEMS, TIMES),
)
SETTINGS = st.sampled_from(
    [
        FeatureSettings(max_items=2, columns=6, click_rate_half_life_ms=700),
        FeatureSettings(max_items=3, columns=100, click_rate_half_life_ms=700),
        FeatureSettings(max_items=3, mode="hashed", bits=3),
        FeatureSettings(click_rate_half_life_ms=0),
    ]
)


def bits(state: dict) -> dict[str, bytes]:
    return {key: encode(value) for key, value in state.items()}


def take(space: FeatureSpace, event) -> bytes | None:
    """What the event gives, to the bit."""
    if isinstance(event, ItemMetadata):
        return space.describe(event)
    if isinstance(event, Interaction):
        return space.clicked([event.item], event.time_ms)
    rows = space.rows(event)
    return encode([rows.n, rows.columns, rows.values, rows.indptr])


def commit(mirror: dict[str, bytes], changed: dict) -> None:
    for key, value in changed.items():
        if value is None:
            mirror.pop(key, None)
        else:
            mirror[key] = encode(value)


def reload(settings: FeatureSettings, mirror: dict[str, bytes]) -> FeatureSpace:
    space = FeatureSpace(settings)
    # a store hands out its entries sorted by key, or in any other order
    space.from_state({key: decode(mirror[key]) for key in sorted(mirror, reverse=True)})
    return space


@COMPILED
@given(SETTINGS, st.lists(EVENTS, max_size=25))
def test_what_is_written_as_it_changes_is_the_whole_state_after_every_event(settings, events):
    space, mirror = FeatureSpace(settings), {}
    for event in events:
        take(space, event)
        commit(mirror, space.dirty())
        assert mirror == bits(space.to_state())
        assert len(space.items) <= settings.max_items
        assert len(space._known) == len(space.items)


@COMPILED
@given(SETTINGS, st.lists(EVENTS, max_size=25))
def test_a_space_reloaded_after_every_event_goes_on_as_one_that_never_was(settings, events):
    straight, reloaded, mirror = FeatureSpace(settings), FeatureSpace(settings), {}
    for event in events:
        assert take(straight, copy.deepcopy(event)) == take(reloaded, event)
        commit(mirror, reloaded.dirty())
        reloaded = reload(settings, mirror)
        assert reloaded.dirty() == {"dropped": straight.dropped}
        assert bits(straight.to_state()) == bits(reloaded.to_state())


@COMPILED
@given(
    SETTINGS, st.lists(EVENTS, max_size=12), st.lists(rankings() | rankings(NUMBERS).map(pack), max_size=4)
)
def test_to_make_rows_for_ranking_changes_nothing_then_or_later(settings, events, asked):
    straight, probed = FeatureSpace(settings), FeatureSpace(settings)
    for event in events:
        assert take(straight, event) == take(probed, event)
        changed = bits({key: value for key, value in straight.dirty().items() if value is not None})
        for ranking in asked:
            probed.rows(ranking, learn=False)
        assert bits(probed.to_state()) == bits(straight.to_state())
        assert bits({key: value for key, value in probed.dirty().items() if value is not None}) == changed


def test_the_order_of_metadata_fields_in_the_store_does_not_change_the_order_of_the_sums():
    settings = FeatureSettings(mode="hashed", bits=1, click_rate_half_life_ms=0)
    space = FeatureSpace(settings)
    values = {name: 10.0 ** (3 * k) / 7 for k, name in enumerate("zyxwvutsrq")}
    space.describe(ItemMetadata(id="m", timestamp=1, item="a", fields=fields(values)))
    again = reload(settings, bits(space.to_state()))
    shown = Ranking(id="r", timestamp=2, items=[Item("a", [Field("q", 1.0), Field("new", 0.1)]), Item("b")])
    assert take(space, shown) == take(again, shown)


def test_a_limit_that_was_lowered_is_reached_and_what_goes_is_taken_out_of_the_store():
    before = FeatureSpace(FeatureSettings(max_items=50, click_rate_half_life_ms=700))
    items = [f"i{n}" for n in range(50)]
    for item in items:
        before.describe(ItemMetadata(id="m", timestamp=1, item=item, fields=[Field("p", 1.0)]))
    before.rows(Ranking(id="r", timestamp=2, items=[Item(item, []) for item in items]))
    stored = bits(before.to_state())
    after = FeatureSpace(FeatureSettings(max_items=3, click_rate_half_life_ms=700))
    after.from_state({key: decode(value) for key, value in stored.items()})
    after.describe(ItemMetadata(id="m", timestamp=3, item="new", fields=[Field("p", 1.0)]))
    after.rows(Ranking(id="r", timestamp=4, items=[Item("new", [])]))
    assert (list(after.items), len(after.items)) == (["i48", "i49", "new"], 3)
    for key, value in after.dirty().items():
        stored.pop(key, None)
        if value is not None:
            stored[key] = encode(value)
    assert stored == bits(after.to_state())
    assert len(stored) < 15
