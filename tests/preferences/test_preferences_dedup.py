import pytest
from hypothesis import given
from hypothesis import strategies as st

from streamrank.preferences.dedup import IDS_A_BLOCK, SeenIds
from streamrank.state.values import decode, encode


def commit(mirror: dict[str, bytes], seen: SeenIds) -> None:
    for key, value in seen.dirty().items():
        if value is None:
            mirror.pop(key, None)
        else:
            mirror[key] = encode(value)


def bits(state: dict) -> dict[str, bytes]:
    return {key: encode(value) for key, value in state.items()}


def test_an_id_is_new_once():
    seen = SeenIds(window_ms=100, limit=100)
    assert [seen.add(key, 5) for key in ("a", "b", "a", "b", "c")] == [True, True, False, False, True]
    assert ("a" in seen, "d" in seen, len(seen)) == (True, False, 3)


def test_ids_are_known_for_the_window_and_forgotten_after_it():
    seen = SeenIds(window_ms=100, limit=100)
    seen.add("a", 50)
    seen.expire(150)
    assert "a" in seen
    seen.expire(151)
    assert "a" not in seen
    assert seen.add("a", 160) is True


def test_a_block_stays_as_long_as_its_newest_id():
    seen = SeenIds(window_ms=100, limit=100)
    seen.add("new", 90)
    seen.add("old", 50)
    seen.expire(190)
    assert "old" in seen
    seen.expire(191)
    assert len(seen) == 0


@pytest.mark.parametrize("limit", [1, 2, 7, 100, 1000, 5000])
def test_at_most_limit_ids_are_known_and_the_newest_are_among_them(limit):
    seen = SeenIds(window_ms=100, limit=limit)
    for k in range(3 * limit):
        seen.add(str(k), 5)
        assert len(seen) <= limit
        assert str(k) in seen
    # a whole block goes at once, and an eighth of a small limit is a block
    fewest = limit - max(1, min(IDS_A_BLOCK, limit // 8)) + 1
    assert len(seen) >= fewest
    assert all(str(k) in seen for k in range(3 * limit - fewest, 3 * limit))


def test_a_commit_writes_the_open_block_and_not_the_full_ones():
    seen = SeenIds(window_ms=100, limit=100_000)
    for k in range(3 * IDS_A_BLOCK):
        seen.add(str(k), 5)
    seen.dirty()
    seen.add("one more", 6)
    assert seen.dirty() == {"next": [4], "3": [6, ["one more"]]}


def test_the_numbers_of_blocks_go_on_after_all_were_forgotten_and_reloaded():
    straight = SeenIds(window_ms=100, limit=100)
    straight.add("a", 50)
    straight.expire(1000)
    again = SeenIds(window_ms=100, limit=100)
    again.from_state(straight.to_state())
    for seen in (straight, again):
        seen.add("b", 1000)
    assert straight.to_state() == again.to_state() == {"next": [2], "1": [1000, ["b"]]}


STEPS = st.lists(
    st.tuples(st.just("add"), st.integers(0, 30), st.integers(0, 500))
    | st.tuples(st.just("expire"), st.just(0), st.integers(0, 700)),
    max_size=60,
)


@given(st.sampled_from([1, 3, 16, 40]), STEPS)
def test_reloaded_after_every_step_it_goes_on_as_if_it_never_was(limit, steps):
    straight, reloaded, mirror = SeenIds(100, limit), SeenIds(100, limit), {}
    for what, key, time_ms in steps:
        if what == "add":
            assert straight.add(str(key), time_ms) == reloaded.add(str(key), time_ms)
        else:
            straight.expire(time_ms)
            reloaded.expire(time_ms)
        commit(mirror, reloaded)
        assert mirror == bits(straight.to_state())
        reloaded = SeenIds(100, limit)
        reloaded.from_state({key: decode(mirror[key]) for key in sorted(mirror, reverse=True)})
        assert len(straight) == len(reloaded) <= limit
