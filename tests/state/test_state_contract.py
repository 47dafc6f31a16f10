"""What every backend must pass."""

import random
import threading
from collections.abc import Callable, Iterator

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from streamrank.errors import Fenced, OffsetMismatch, StoreError
from streamrank.state import DeadLetter, Standing, Store, base

S = "clicks[0]"


def letter(offset: int, part: int = 0, error: str = "no items") -> DeadLetter:
    return DeadLetter(offset, part, f"log.jsonl:{offset}", "bad-type", error, b"{\x00\xff")


def everything(store: Store, shard: str = S) -> object:
    return store.read(shard), store.offset(shard), store.letters(shard), store.shards()


def test_empty_bytes_are_a_value_not_an_absence(store: Store) -> None:
    store.commit(S, store.acquire(S), {"w": b""}, start=0, end=7)
    assert (store.get(S, "w"), store.get(S, "never")) == (b"", None)
    assert store.load(S) == {"w": b""}


def test_an_unknown_shard_is_empty_at_offset_0_and_reading_does_not_create_it(store: Store) -> None:
    assert store.offset("x") == 0
    assert store.read("x") == ({}, 0)
    assert store.load("x") == {}
    assert store.get("x", "w") is None
    assert store.letters("x") == []
    assert store.shards() == []


def test_acquiring_counts_epochs_for_each_shard_alone_and_creates_it(store: Store) -> None:
    assert [store.acquire("b"), store.acquire("b"), store.acquire("a"), store.acquire("b")] == [1, 2, 1, 3]
    assert store.shards() == ["a", "b"]


def test_where_a_shard_stands_and_whose_it_is(store: Store) -> None:
    assert store.standing(S) == Standing() == Standing(epoch=0, offset=0, generation=0, owner="")
    epoch = store.acquire(S, generation=3, owner="here:1")
    store.commit(S, epoch, {"w": b"1"}, start=0, end=5)
    assert store.standing(S) == Standing(1, 5, 3, "here:1")
    store.acquire(S)  # of no group: the generation stays
    assert store.standing(S) == Standing(2, 5, 3, "")


def test_an_older_generation_of_the_group_is_refused_and_changes_nothing(store: Store) -> None:
    assert [store.acquire(S, generation=n, owner=f"m{n}") for n in (2, 2, 5)] == [1, 2, 3]
    before = store.standing(S)
    for generation in (1, 4):
        with pytest.raises(Fenced, match=rf"generation 5.*this is {generation}.*reset.*--keep-state"):
            store.acquire(S, generation=generation, owner="late")
    assert store.standing(S) == before
    store.commit(S, 3, {}, start=0, end=1)
    assert store.acquire("other", generation=1) == 1


def test_a_reset_empties_a_shard_fences_its_owner_and_forgets_the_generation(store: Store) -> None:
    for shard in (S, "other"):
        epoch = store.acquire(shard, generation=7, owner="here:1")
        store.commit(shard, epoch, {"w": b"1"}, start=0, end=5, letters=[letter(1)])
    store.reset(S)
    assert everything(store) == (({}, 0), 0, [], sorted([S, "other"]))
    assert store.standing(S) == Standing(epoch=2)
    with pytest.raises(Fenced):
        store.commit(S, 1, {}, start=0, end=1)
    assert store.acquire(S, generation=1) == 3
    assert store.read("other") == ({"w": b"1"}, 5)
    store.reset("never")
    assert store.shards() == sorted([S, "other"])


def test_a_reset_that_keeps_the_state_only_fences_and_forgets_the_generation(store: Store) -> None:
    epoch = store.acquire(S, generation=7, owner="here:1")
    store.commit(S, epoch, {"w": b"1"}, start=0, end=5, letters=[letter(1)])
    before = everything(store)
    store.reset(S, keep_state=True)
    assert everything(store) == before
    assert store.standing(S) == Standing(epoch=2, offset=5)
    assert store.acquire(S, generation=1) == 3


def test_a_commit_writes_deletes_and_moves_the_offset(store: Store) -> None:
    epoch = store.acquire(S)
    store.commit(S, epoch, {"a": b"1", "b": b"2", "c": b"3"}, start=0, end=10)
    store.commit(S, epoch, {"a": None, "b": b"new", "never": None}, start=10, end=12)
    assert store.read(S) == ({"b": b"new", "c": b"3"}, 12)
    assert store.offset(S) == 12


def test_shards_do_not_see_each_other(store: Store) -> None:
    for shard, value in (("a", b"1"), ("b", b"2")):
        store.commit(shard, store.acquire(shard), {"w": value}, start=0, end=1, letters=[letter(0)])
    store.commit("a", 1, {"w": None}, start=1, end=2, settled=[(0, 0)])
    assert everything(store, "b") == (({"w": b"2"}, 1), 1, [letter(0)], ["a", "b"])
    assert store.read("a") == ({}, 2)


def test_acquiring_changes_neither_state_nor_offset(store: Store) -> None:
    store.commit(S, store.acquire(S), {"w": b"1"}, start=0, end=5, letters=[letter(1)])
    before = everything(store)
    store.acquire(S)
    assert everything(store) == before


@pytest.mark.parametrize("epoch", [0, 1, 3])
def test_a_commit_with_another_epoch_changes_nothing(store: Store, epoch: int) -> None:
    store.acquire(S)
    owner = store.acquire(S)
    store.commit(S, owner, {"w": b"1"}, start=0, end=5, letters=[letter(1)])
    before = everything(store)
    with pytest.raises(Fenced, match=r"'clicks\[0\]'.*Nothing was written"):
        store.commit(S, epoch, {"w": None, "v": b"2"}, start=5, end=9, letters=[letter(6)], settled=[(1, 0)])
    assert everything(store) == before


@pytest.mark.parametrize("epoch", [0, 1])
def test_a_shard_never_acquired_cannot_be_committed(store: Store, epoch: int) -> None:
    with pytest.raises(Fenced, match="never acquired"):
        store.commit(S, epoch, {"w": b"1"}, start=0, end=5)
    assert everything(store) == (({}, 0), 0, [], [])


@pytest.mark.parametrize("start", [0, 4, 6])
def test_a_batch_that_starts_elsewhere_changes_nothing(store: Store, start: int) -> None:
    epoch = store.acquire(S)
    store.commit(S, epoch, {"w": b"1"}, start=0, end=5, letters=[letter(1)])
    before = everything(store)
    with pytest.raises(OffsetMismatch, match="stands at 5"):
        store.commit(
            S, epoch, {"w": None, "v": b"2"}, start=start, end=9, letters=[letter(6)], settled=[(1, 0)]
        )
    assert everything(store) == before


def test_the_epoch_is_checked_before_the_offset(store: Store) -> None:
    store.acquire(S)
    store.acquire(S)
    with pytest.raises(Fenced):
        store.commit(S, 1, {}, start=99, end=100)


def test_a_write_that_fails_half_way_leaves_nothing(store: Store) -> None:
    epoch = store.acquire(S)
    store.commit(S, epoch, {"w": b"1"}, start=0, end=5)
    before = everything(store)

    class Broken(dict[str, bytes | None]):
        def items(self):  # type: ignore[no-untyped-def]
            yield "w", b"2"
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        store.commit(S, epoch, Broken(w=b"2"), start=5, end=6, letters=[letter(5)])
    assert everything(store) == before
    store.commit(S, epoch, {"w": b"3"}, start=5, end=6)  # and the store still works
    assert store.read(S) == ({"w": b"3"}, 6)


def test_letters_come_back_whole_oldest_first(store: Store) -> None:
    epoch = store.acquire(S)
    store.commit(S, epoch, {}, start=0, end=20, letters=[letter(12), letter(10, 1)])
    store.commit(S, epoch, {}, start=20, end=30, letters=[letter(9), letter(10, 0)])
    assert store.letters(S) == [letter(9), letter(10, 0), letter(10, 1), letter(12)]


def test_a_letter_of_the_same_offset_and_part_is_replaced(store: Store) -> None:
    epoch = store.acquire(S)
    store.commit(S, epoch, {}, start=0, end=2, letters=[letter(1, 0, "old"), letter(1, 1, "old")])
    store.commit(S, epoch, {}, start=2, end=2, letters=[letter(1, 1, "new")])
    assert store.letters(S) == [letter(1, 0, "old"), letter(1, 1, "new")]


def test_settled_letters_are_taken_out(store: Store) -> None:
    epoch = store.acquire(S)
    store.commit(S, epoch, {}, start=0, end=4, letters=[letter(1, 0), letter(1, 1), letter(3)])
    store.commit(S, epoch, {}, start=4, end=4, settled=[(1, 1), (3, 0), (77, 0)])
    assert store.letters(S) == [letter(1, 0)]


def test_a_letter_settled_and_sent_again_in_one_commit_stays(store: Store) -> None:
    epoch = store.acquire(S)
    store.commit(S, epoch, {}, start=0, end=4, letters=[letter(1, 0, "old")])
    store.commit(S, epoch, {}, start=4, end=4, letters=[letter(1, 0, "again")], settled=[(1, 0)])
    assert store.letters(S) == [letter(1, 0, "again")]


def test_only_the_newest_letters_of_a_shard_are_kept(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(base, "MAX_LETTERS", 3)
    epoch = store.acquire(S)
    store.commit("other", store.acquire("other"), {}, start=0, end=1, letters=[letter(0)])
    store.commit(S, epoch, {}, start=0, end=3, letters=[letter(0), letter(1, 0), letter(1, 1)])
    assert store.letters(S) == [letter(0), letter(1, 0), letter(1, 1)]
    store.commit(S, epoch, {}, start=3, end=9, letters=[letter(4), letter(8)])
    assert store.letters(S) == [letter(1, 1), letter(4), letter(8)]
    assert store.letters("other") == [letter(0)]


def test_what_is_committed_is_there_for_the_next_who_opens(url: str, opened: Callable[[str], Store]) -> None:
    with opened(url) as first:
        first.commit(S, first.acquire(S), {"w": b"1"}, start=0, end=3, letters=[letter(2)])
    second = opened(url)
    assert everything(second) == (({"w": b"1"}, 3), 3, [letter(2)], [S])
    assert second.acquire(S) == 2


def test_a_second_handle_fences_the_first(url: str, store: Store, opened: Callable[[str], Store]) -> None:
    mine, other = store.acquire(S), opened(url)
    theirs = other.acquire(S)
    with pytest.raises(Fenced):
        store.commit(S, mine, {"w": b"1"}, start=0, end=1)
    other.commit(S, theirs, {"w": b"2"}, start=0, end=1)
    assert store.read(S) == ({"w": b"2"}, 1)


def test_the_bytes_taken_grow_with_what_is_stored_where_the_store_can_tell(store: Store) -> None:
    epoch = store.acquire(S)
    before = store.bytes_used()
    large = bytes(range(256)) * 4000
    store.commit(S, epoch, {"w": large, **{f"k{n}": b"x" for n in range(1000)}}, start=0, end=1)
    after = store.bytes_used()
    assert sum(after.values()) - sum(before.values()) > len(large) or not after


def test_closing_twice_is_harmless_and_a_closed_store_says_so(store: Store) -> None:
    store.close()
    store.close()
    for call in (store.shards, lambda: store.acquire(S), lambda: store.load(S)):
        with pytest.raises(StoreError, match="closed"):
            call()


def test_what_is_loaded_is_the_callers_to_change(store: Store) -> None:
    store.commit(S, store.acquire(S), {"w": b"1"}, start=0, end=1)
    store.load(S)["w"] = b"changed"
    assert store.get(S, "w") == b"1"


def test_a_read_is_of_one_moment_while_another_commits(
    url: str, store: Store, opened: Callable[[str], Store]
) -> None:
    keys = [f"k{i}" for i in range(50)]
    writer, enough = opened(url), threading.Event()

    def write() -> None:
        epoch, n = writer.acquire(S), 0
        while not enough.is_set():
            writer.commit(S, epoch, dict.fromkeys(keys, b"%d" % (n + 1)), start=n, end=n + 1)
            n += 1

    thread = threading.Thread(target=write)
    thread.start()
    seen = set()
    try:
        for _ in range(100_000):
            values, offset = store.read(S)
            assert set(values.values()) == ({b"%d" % offset} if offset else set())
            seen.add(offset)
            if len(seen) == 20:
                break
    finally:
        enough.set()
        thread.join()
    assert len(seen) == 20  # else too little was written meanwhile, and nothing was proved


@pytest.mark.parametrize("shared", [True, False])
def test_many_threads_commit_at_once_with_one_handle_or_each_its_own(
    url: str, opened: Callable[[str], Store], shared: bool
) -> None:
    failed: list[BaseException] = []
    handles = [opened(url)] * 4 if shared else [opened(url) for _ in range(4)]

    def work(shard: str, store: Store) -> None:
        try:
            epoch = store.acquire(shard)
            for n in range(50):
                store.commit(shard, epoch, {"n": b"%d" % n}, start=n, end=n + 1)
                assert store.read(shard) == ({"n": b"%d" % n}, n + 1)
        except BaseException as error:
            failed.append(error)

    threads = [threading.Thread(target=work, args=(f"s{i}", store)) for i, store in enumerate(handles)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failed == []
    assert [handles[0].offset(f"s{i}") for i in range(4)] == [50] * 4


def test_owners_who_take_the_shard_from_each_other_lose_and_double_nothing(
    url: str, opened: Callable[[str], Store]
) -> None:
    refused = 0

    def own(store: Store) -> Iterator[None]:
        nonlocal refused
        while True:
            epoch = store.acquire(S)
            yield
            entries, offset = store.read(S)
            try:
                for n in range(offset, offset + 3):
                    yield
                    count = int(entries.get("n", b"0")) + 1
                    store.commit(S, epoch, {"n": b"%d" % count}, start=n, end=n + 1)
                    entries["n"] = b"%d" % count
            except (Fenced, OffsetMismatch):
                refused += 1

    owners, chance = [own(opened(url)) for _ in range(3)], random.Random(7)
    for _ in range(300):
        next(chance.choice(owners))
    entries, offset = opened(url).read(S)
    assert entries == {"n": b"%d" % offset}
    assert offset > 30
    assert refused > 30


NAMES = st.text(st.characters(codec="utf-8"), max_size=6)


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(st.tuples(NAMES, st.dictionaries(NAMES, st.none() | st.binary(max_size=5))), max_size=6))
def test_any_names_and_any_bytes_behave_as_in_a_dict(
    store: Store, commits: list[tuple[str, dict[str, bytes | None]]]
) -> None:
    for shard in store.shards():  # the fixture outlives an example
        old, offset = store.read(shard)
        store.commit(shard, store.acquire(shard), dict.fromkeys(old), start=offset, end=0)
    expected: dict[str, dict[str, bytes]] = {}
    for shard, writes in commits:
        held = expected.setdefault(shard, {})
        for key, value in writes.items():
            held.pop(key, None)
            if value is not None:
                held[key] = value
        at = store.offset(shard)
        store.commit(shard, store.acquire(shard), writes, start=at, end=at + 1)
    assert {shard: store.load(shard) for shard in expected} == expected
    assert set(expected) <= set(store.shards())
    assert store.shards() == sorted(store.shards())
