import pytest
from hypothesis import given
from hypothesis import strategies as st
from redis.crc import key_slot

from streamrank.errors import ConfigError, StoreError
from streamrank.state.keys import Keys, letter_place

names = st.text(st.characters(codec="utf-8"), max_size=8) | st.text("{}%:a", max_size=5)


@given(names)
def test_the_keys_of_any_shard_are_in_one_slot(shard: str) -> None:
    assert len({key_slot(key.encode()) for key in Keys("p").of_shard(shard)}) == 1


@given(names, names)
def test_no_two_shards_share_a_key(one: str, two: str) -> None:
    keys = Keys("p")
    everything = {*keys.of_shard(one), *keys.of_shard(two), keys.shards}
    assert len(everything) == (4 if one == two else 7)


def test_shards_are_spread_over_the_slots() -> None:
    slots = {key_slot(Keys("p").of_shard(f"clicks[{n}]")[0].encode()) for n in range(100)}
    assert len(slots) > 90


@pytest.mark.parametrize("prefix", ["", "{a}", "a}", "a{"])
def test_a_prefix_that_would_undo_the_hash_tags_is_refused(prefix: str) -> None:
    with pytest.raises(ConfigError, match=r"redis\.prefix"):
        Keys(prefix)


def test_a_name_that_cannot_be_written_is_a_store_error() -> None:
    with pytest.raises(StoreError, match="surrogates"):
        Keys("p").of_shard("\ud800")


@given(st.lists(st.tuples(st.integers(0, 2**63 - 1), st.integers(0, 10**10 - 1)), max_size=5))
def test_letters_are_sorted_as_bytes_as_they_are_as_numbers(places: list[tuple[int, int]]) -> None:
    assert sorted(letter_place(*place) for place in places) == [
        letter_place(*place) for place in sorted(places)
    ]
