import json
import os
import threading
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import safetensors
import safetensors.numpy
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from streamrank.errors import Fenced, SnapshotError
from streamrank.state import DeadLetter, Store, open_store, snapshot, tensors
from streamrank.state.digest import digest
from streamrank.state.snapshot import read_snapshot, restore_snapshot, write_snapshot
from streamrank.state.values import encode

SHORT = encode(np.zeros(2))  # extension with a length of one byte: c7 <length> 01 …
LETTER = DeadLetter(3, 1, "log.jsonl:4", "bad-type", "no »items«", b"\x00\xff{")
ENTRIES: dict[str, bytes] = {
    "w": encode(np.linspace(-1, 1, 50)),
    "scalar array": encode(np.array(-0.0)),
    "none": encode(np.zeros((0, 3), "i4")),
    "bool": encode(np.array([True, False])),
    "complex": encode(np.array([1j])),
    "words": encode(np.array(["ab", "c"])),
    "n": encode(7),
    "settings": encode({"eta": 0.1, "deep": [np.zeros(2)]}),
    "empty": b"",
    "not ours": b"\xc1 no msgpack",
    "same array, longer form": b"\xc9" + (len(SHORT) - 3).to_bytes(4, "big") + b"\x01" + SHORT[3:],
    "u/q#3/%2F": encode(np.ones(2, "f4")),
}


def fill(store: Store) -> Store:
    for shard, offset in (
        ("clicks[0]", 10),
        ("a/b%2Fc#1", 20),
        ("", 5),
        ("packed:x", 1),
        ("__metadata__", 2),
    ):
        writes = ENTRIES | {"own": encode(shard)}
        store.commit(shard, store.acquire(shard), writes, start=0, end=offset, letters=[LETTER])
    return store


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "s.safetensors"


@pytest.fixture
def memory() -> Store:
    return open_store("memory://")


def contents(store: Store) -> object:
    return {shard: (store.read(shard), store.letters(shard)) for shard in store.shards()}


def test_a_snapshot_goes_from_any_backend_to_any_other_and_keeps_the_digest(
    url: str, store: Store, opened: Callable[[str], Store], path: Path, tmp_path: Path
) -> None:
    fill(store)
    written = write_snapshot(path, store, config_json='{"a": "\\"checksum\\":\\"é"}')
    for other in ("memory://", f"sqlite:///{tmp_path}/other.db"):
        target = opened(other)
        restored = restore_snapshot(path, target)
        assert contents(target) == contents(store)
        assert restored == written == read_snapshot(path).info
        assert digest(target) == digest(store) == written.digest
    assert written.offsets == {"clicks[0]": 10, "a/b%2Fc#1": 20, "": 5, "packed:x": 1, "__metadata__": 2}
    assert written.config_json == '{"a": "\\"checksum\\":\\"é"}'
    assert (written.n_entries, written.n_letters) == (5 * (len(ENTRIES) + 1), 5)


def test_any_safetensors_reader_sees_the_arrays_under_shard_and_key(memory: Store, path: Path) -> None:
    write_snapshot(path, fill(memory), config_json='{"x": 1}')
    with safetensors.safe_open(path, framework="np") as file:
        np.testing.assert_array_equal(file.get_tensor("clicks[0]/w"), np.linspace(-1, 1, 50))
        assert file.get_tensor("a%2Fb%252Fc#1/u/q#3/%2F").dtype == np.float32
        assert file.get_tensor("clicks[0]/none").shape == (0, 3)
        said = file.metadata()
    assert said["format"] == "1"
    assert said["config"] == '{"x": 1}'
    assert said["digest"] == digest(memory)
    assert json.loads(said["offsets"])["clicks[0]"] == 10
    assert said["streamrank"]


def test_an_empty_store_has_a_snapshot_too(memory: Store, path: Path) -> None:
    assert write_snapshot(path, memory).offsets == {}
    assert restore_snapshot(path, memory).n_entries == 0


NAMES = st.text(st.characters(codec="utf-8"), max_size=5) | st.sampled_from(
    ["/", "%2F", "a/b", "__metadata__"]
)
VALUES = st.binary(max_size=4) | st.integers(0, 3).map(lambda n: encode(np.zeros(n)))


@settings(max_examples=50, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.dictionaries(NAMES, st.dictionaries(NAMES, VALUES, max_size=4), max_size=4))
def test_any_names_survive(path: Path, shards: dict[str, dict[str, bytes]]) -> None:
    with open_store("memory://") as store, open_store("memory://") as target:
        for shard, entries in shards.items():
            store.commit(shard, store.acquire(shard), entries, start=0, end=1)
        write_snapshot(path, store)
        restore_snapshot(path, target)
        assert contents(target) == contents(store)


def test_beyond_the_limit_of_tensors_the_smaller_arrays_are_packed(
    memory: Store, path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tensors, "MAX_TENSORS", 1)
    rows = {f"u/{i}": encode(np.full(2, float(i))) for i in range(20)}
    memory.commit("s", memory.acquire("s"), {**rows, "w": encode(np.zeros(9))}, start=0, end=1)
    write_snapshot(path, memory)
    assert set(safetensors.numpy.load_file(path)) == {"s/w", "packed:s"}
    with open_store("memory://") as target:
        restore_snapshot(path, target)
        assert contents(target) == contents(memory)


def test_a_store_that_holds_something_is_not_overwritten_unasked(
    memory: Store, path: Path, store: Store
) -> None:
    write_snapshot(path, memory)
    store.commit("mine", store.acquire("mine"), {}, start=0, end=3)
    with pytest.raises(SnapshotError, match=r"already holds 'mine'.*overwrite"):
        restore_snapshot(path, store)
    assert store.offset("mine") == 3


def test_shards_that_were_acquired_but_hold_nothing_are_no_hindrance(
    memory: Store, path: Path, store: Store
) -> None:
    write_snapshot(path, fill(memory))
    store.acquire("clicks[0]")
    restore_snapshot(path, store)
    assert digest(store) == digest(memory)


def test_overwriting_replaces_every_shard_wholly(memory: Store, path: Path, store: Store) -> None:
    write_snapshot(path, fill(memory))
    owner = store.acquire("clicks[0]")
    stale = DeadLetter(99, 0, "", "bad-type", "", b"")
    store.commit("clicks[0]", owner, {"stale": b"1", "w": b"2"}, start=0, end=100, letters=[stale])
    store.commit("unknown", store.acquire("unknown"), {"stale": b"1"}, start=0, end=9, letters=[stale])
    restore_snapshot(path, store, overwrite=True)
    assert digest(store) == digest(memory)
    assert store.letters("clicks[0]") == [LETTER]
    assert (store.read("unknown"), store.letters("unknown")) == (({}, 0), [])
    with pytest.raises(Fenced):  # who learnt before the restore must not go on over it
        store.commit("clicks[0]", owner, {}, start=10, end=11)


def test_a_byte_changed_anywhere_is_noticed(memory: Store, path: Path) -> None:
    entries = {"w": encode(np.arange(6.0)), "n": encode(7)}
    memory.commit("s", memory.acquire("s"), entries, start=0, end=4, letters=[LETTER])
    write_snapshot(path, memory, config_json='{"x": "y"}')
    whole, damaged = path.read_bytes(), path.with_name("damaged")
    for at in range(len(whole)):
        # a space for a newline between JSON tokens, one bit, and the case of a hexadecimal digit
        for flip in (0x2A, 0x01, 0x20):
            damaged.write_bytes(whole[:at] + bytes([whole[at] ^ flip]) + whole[at + 1 :])
            with pytest.raises(SnapshotError, match=r"damaged|of format|another program"):
                read_snapshot(damaged)


def test_a_file_cut_anywhere_or_with_more_behind_is_noticed(memory: Store, path: Path) -> None:
    memory.commit("s", memory.acquire("s"), {"w": encode(np.arange(6.0))}, start=0, end=4)
    write_snapshot(path, memory)
    whole, damaged = path.read_bytes(), path.with_name("damaged")
    for content in [*(whole[:cut] for cut in range(len(whole))), whole + b"\x00", whole + whole]:
        damaged.write_bytes(content)
        with pytest.raises(SnapshotError, match="damaged"):
            read_snapshot(damaged)


def test_a_whole_file_whose_state_is_not_the_one_it_was_taken_of_is_refused(
    memory: Store, path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(snapshot, "digest_of", lambda _: "0" * 64)
    write_snapshot(path, fill(memory))
    monkeypatch.undo()
    with pytest.raises(SnapshotError, match="damaged"):
        read_snapshot(path)


def test_a_damaged_snapshot_changes_nothing_in_the_store(memory: Store, path: Path, store: Store) -> None:
    write_snapshot(path, fill(memory))
    path.write_bytes(path.read_bytes()[:-1])
    store.commit("s", store.acquire("s"), {"w": b"1"}, start=0, end=4)
    with pytest.raises(SnapshotError):
        restore_snapshot(path, store, overwrite=True)
    assert contents(store) == {"s": (({"w": b"1"}, 4), [])}


@pytest.mark.parametrize("metadata", [None, {"format": "pt"}])
def test_the_safetensors_of_another_program_are_refused(path: Path, metadata: dict[str, str] | None) -> None:
    safetensors.numpy.save_file({"w": np.zeros(3)}, path, metadata)
    with pytest.raises(SnapshotError, match="another program"):
        read_snapshot(path)


@pytest.mark.parametrize("content", [b"", b"short", b"\xff" * 100, b"{}" * 50])
def test_a_file_of_another_kind_is_refused(path: Path, content: bytes) -> None:
    path.write_bytes(content)
    with pytest.raises(SnapshotError, match="no snapshot at all"):
        read_snapshot(path)


def test_a_format_from_the_future_is_refused_by_its_number(
    memory: Store, path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(snapshot, "FORMAT", "2")
    write_snapshot(path, memory)
    monkeypatch.undo()
    with pytest.raises(SnapshotError, match=r"of format '2'.*reads '1'"):
        read_snapshot(path)


def test_a_file_that_is_not_there_is_a_snapshot_error(path: Path) -> None:
    with pytest.raises(SnapshotError, match=r"s\.safetensors: No such file"):
        read_snapshot(path)


def test_a_failed_write_leaves_the_old_snapshot_and_no_rubbish(
    memory: Store, path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_snapshot(path, memory)
    before = path.read_bytes()

    def full_disk(_: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full_disk)
    with pytest.raises(SnapshotError, match="No space left on device"):
        write_snapshot(path, fill(memory))
    assert path.read_bytes() == before
    assert [file.name for file in path.parent.iterdir()] == [path.name]


def test_a_snapshot_into_a_missing_folder_says_so(memory: Store, path: Path) -> None:
    with pytest.raises(SnapshotError, match="not written: No such file or directory"):
        write_snapshot(path.parent / "none" / "s", memory)


def test_the_file_and_its_folder_are_synced_before_the_write_is_reported(
    memory: Store, path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    synced: list[tuple[Path, bool]] = []

    def fsync(descriptor: int) -> None:
        synced.append((Path(f"/proc/self/fd/{descriptor}").readlink(), path.exists()))

    monkeypatch.setattr(os, "fsync", fsync)
    write_snapshot(path, memory)
    (first, renamed_early), (second, renamed) = synced
    assert first.parent == path.parent
    assert not renamed_early
    assert (second, renamed) == (path.parent, True)


def test_a_snapshot_taken_while_others_commit_fits_its_offsets_and_goes_on_as_if_undisturbed(
    url: str, path: Path, opened: Callable[[str], Store]
) -> None:
    shards, enough = ("a", "b"), threading.Event()

    def value(shard: str, offset: int) -> bytes:
        return encode(f"{shard} {offset}")

    def write(shard: str) -> None:
        with open_store(url) as store:
            epoch, n = store.acquire(shard), 0
            while not enough.is_set():
                writes = dict.fromkeys((f"k{i}" for i in range(40)), value(shard, n + 1))
                letter = DeadLetter(n, 0, "", "bad-type", "", b"")
                store.commit(shard, epoch, writes, start=n, end=n + 1, letters=[letter])
                n += 1

    writers = [threading.Thread(target=write, args=(shard,)) for shard in shards]
    for writer in writers:
        writer.start()
    seen = set()
    try:
        store = opened(url)
        while len(seen) < 8:
            write_snapshot(path, store)
            taken = read_snapshot(path)
            for shard, offset in taken.info.offsets.items():
                found = set(taken.entries[shard].values())
                assert found == ({value(shard, offset)} if offset else set())
                # a letter may be of a record that a replay from here meets again, but none is missing
                assert {letter.offset for letter in taken.letters[shard]} >= set(range(offset))
            seen.add(tuple(taken.info.offsets.values()))
    finally:
        enough.set()
        for writer in writers:
            writer.join()
    with open_store("memory://") as other:
        restore_snapshot(path, other)
        assert digest(other) == taken.info.digest
