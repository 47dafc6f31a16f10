from collections.abc import Callable
from hashlib import sha256
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from streamrank.state import DeadLetter, Store, open_store
from streamrank.state.digest import digest

State = dict[str, tuple[dict[str, bytes], int]]
STATE: State = {"a": ({"k": b"1", "l": b"23", "": b""}, 5), "b": ({"k": b"1"}, 7)}


def fill(store: Store, state: State, *, backwards: bool = False) -> Store:
    for shard in sorted(state, reverse=backwards):
        entries, offset = state[shard]
        epoch, at = store.acquire(shard), 0
        for key in sorted(entries, reverse=backwards):  # a commit a key, so that the order of writing shows
            store.commit(shard, epoch, {key: entries[key]}, start=at, end=offset)
            at = offset
        store.commit(shard, epoch, {}, start=at, end=offset)
    return store


def digest_of_memory(state: State) -> str:
    with open_store("memory://") as store:
        return digest(fill(store, state))


def test_the_digest_depends_on_neither_backend_nor_order(tmp_path: Path, store: Store) -> None:
    expected = digest_of_memory(STATE)
    assert digest(fill(store, STATE, backwards=True)) == expected


def test_the_digest_is_the_one_that_is_written_down() -> None:
    def number(n: int) -> bytes:
        return n.to_bytes(8, "little")

    plain = number(1) + b"a" + number(5) + number(1) + number(1) + b"k" + number(2) + b"vv"
    assert digest_of_memory({"a": ({"k": b"vv"}, 5)}) == sha256(plain).hexdigest()


@pytest.mark.parametrize(
    "other",
    [
        {"a": STATE["a"]},
        {"a": STATE["a"], "c": STATE["b"]},
        {"a": STATE["b"], "b": STATE["a"]},
        {**STATE, "c": ({}, 1)},
        {**STATE, "b": ({"k": b"1"}, 8)},
        {**STATE, "b": ({"k": b"2"}, 7)},
        {**STATE, "b": ({"K": b"1"}, 7)},
        {**STATE, "b": ({"k": b""}, 7)},
        {**STATE, "b": ({}, 7)},
        {**STATE, "b": ({"k": b"1", "m": b""}, 7)},
        {**STATE, "b": ({"k1": b""}, 7)},
        {**STATE, "b": ({"": b"k1"}, 7)},
    ],
)
def test_the_digest_differs_when_any_one_thing_differs(other: State) -> None:
    assert digest_of_memory(other) != digest_of_memory(STATE)


texts = st.text("ab", max_size=2)
states = st.dictionaries(
    texts,
    st.tuples(
        st.dictionaries(texts, st.text("ab", max_size=2).map(str.encode), max_size=2), st.integers(1, 2)
    ),
    max_size=2,
)


@given(states, states)
def test_two_states_share_a_digest_only_if_they_are_equal(one: State, two: State) -> None:
    assert (digest_of_memory(one) == digest_of_memory(two)) == (one == two)


def test_owners_letters_and_shards_that_hold_nothing_do_not_show(
    url: str, store: Store, opened: Callable[[str], Store]
) -> None:
    before = digest(fill(store, STATE))
    epoch = opened(url).acquire("b")
    store.acquire("empty")
    letter = DeadLetter(1, 0, "", "bad-type", "", b"")
    store.commit("b", epoch, {}, start=7, end=7, letters=[letter])
    assert digest(store) == before
