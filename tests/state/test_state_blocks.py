from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from streamrank.errors import StoreError
from streamrank.state import blocks
from streamrank.state.blocks import BLOCK, join, split

Array = npt.NDArray[Any]


def apply(entries: dict[str, Array], writes: dict[str, Array | None]) -> None:
    """What a store does with a commit."""
    for key, value in writes.items():
        entries.pop(key, None)
        if value is not None:
            entries[key] = value.copy()


def sizes(writes: dict[str, Array | None]) -> dict[str, int | None]:
    return {key: None if rows is None else len(rows) for key, rows in writes.items()}


def test_a_block_is_4096_rows() -> None:
    assert BLOCK == 4096
    assert sizes(split("w", np.zeros(4096))) == {"w": 4096}
    assert sizes(split("w", np.zeros((4097, 2)))) == {"w": None, "w#0": 4096, "w#1": 1}
    assert sizes(split("w", np.zeros(0))) == {"w": 0}


def test_only_dirty_blocks_are_written_when_the_length_is_known_to_be_the_same() -> None:
    array = np.zeros(5 * BLOCK)
    assert list(split("w", array, {3, 1}, stored=len(array))) == ["w#1", "w#3"]
    assert split("w", array, (), stored=len(array)) == {}
    assert split("w", array[:10], [], stored=10) == {}
    assert sizes(split("w", array[:10], [0], stored=10)) == {"w": 10}


def test_without_the_stored_length_the_first_and_last_block_go_along() -> None:
    writes = split("w", np.zeros(5 * BLOCK), {2})
    assert sizes(writes) == {"w": None, "w#0": BLOCK, "w#2": BLOCK, "w#4": BLOCK}


def test_a_growth_past_the_border_deletes_the_plain_entry_and_writes_every_block() -> None:
    writes = split("w", np.zeros(2 * BLOCK + 5), {2}, stored=BLOCK)
    assert sizes(writes) == {"w": None, "w#0": BLOCK, "w#1": BLOCK, "w#2": 5}


def test_a_growth_inside_the_last_block_writes_that_block_only() -> None:
    assert sizes(split("w", np.zeros(2 * BLOCK + 5), (), stored=2 * BLOCK + 4)) == {"w#2": 5}
    assert sizes(split("w", np.zeros(3 * BLOCK + 1), (), stored=3 * BLOCK)) == {"w#3": 1}


def test_a_shrunk_array_leaves_no_block_behind() -> None:
    assert sizes(split("w", np.zeros(BLOCK + 1), (), stored=3 * BLOCK)) == {"w#2": None, "w#1": 1}
    assert sizes(split("w", np.zeros(7), (), stored=2 * BLOCK)) == {"w#0": None, "w#1": None, "w": 7}


def test_blocks_are_joined_by_number_not_by_text() -> None:
    array = np.arange(12 * BLOCK)
    entries = {key: rows for key, rows in split("w", array).items() if rows is not None}
    np.testing.assert_array_equal(
        join(dict(sorted(entries.items())))["w"], array
    )  # w#0, w#1, w#10, w#11, w#2, …
    np.testing.assert_array_equal(join(dict(reversed(entries.items())))["w"], array)


NAMES = st.sampled_from(["w", "", "#", "u/c#", "u/c#3", "u/c#3#", "u/c", "w#0", "w##0", "a\n#1", "w#٣", "#0"])


@settings(max_examples=200, deadline=None)
@given(
    st.dictionaries(NAMES, st.lists(st.tuples(st.integers(0, 23), st.sets(st.integers(0, 23))), min_size=1)),
    st.booleans(),
)
def test_whatever_grows_shrinks_and_changes_what_is_joined_is_what_was_split(
    histories: dict[str, list[tuple[int, set[int]]]], wide: bool
) -> None:
    entries: dict[str, Array] = {}
    expected: dict[str, Array] = {}
    stamp = 0
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(blocks, "BLOCK", 4)
        for name, steps in histories.items():
            array: Array = np.zeros((0, 2) if wide else 0)
            for step, (n_rows, touched) in enumerate(steps):
                stored = len(array)
                kept = array[: min(stored, n_rows)]
                array = np.concatenate([kept, np.full((n_rows - len(kept), *array.shape[1:]), -1.0)])
                touched = {row for row in touched if row < n_rows}
                for row in touched:
                    array[row] = stamp = stamp + 1
                dirty = {row // 4 for row in touched} if step else None
                apply(entries, split(name, array, dirty, stored=stored if step else None))
            expected[name] = array
        joined = join(entries)
    assert joined.keys() == expected.keys()
    for name, array in expected.items():
        np.testing.assert_array_equal(joined[name], array)


@given(st.integers(0, 30), st.integers(0, 30))
def test_a_growth_whose_new_rows_are_dirty_needs_no_stored_length(before: int, more: int) -> None:
    entries: dict[str, Array] = {}
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(blocks, "BLOCK", 4)
        array = np.arange(before + more)
        apply(entries, split("w", array[:before]))
        apply(entries, split("w", array, {row // 4 for row in range(before, before + more)}))
        np.testing.assert_array_equal(join(entries)["w"], array)


def test_a_scalar_array_is_one_entry() -> None:
    entries = split("n", np.array(3.0))
    assert entries == {"n": np.array(3.0)}
    assert join({"n": np.array(3.0)})["n"].shape == ()


@pytest.mark.parametrize(
    "entries",
    [
        {"w": np.zeros(3), "w#0": np.zeros(BLOCK), "w#1": np.zeros(1)},
        {"w#0": np.zeros(BLOCK)},
        {"w#1": np.zeros(1)},
        {"w#0": np.zeros(BLOCK), "w#2": np.zeros(1)},
        {"w#0": np.zeros(BLOCK - 1), "w#1": np.zeros(1)},
        {"w#0": np.zeros(BLOCK), "w#1": np.zeros(BLOCK + 1)},
        {"w#0": np.zeros(BLOCK), "w#1": np.zeros(0)},
        {"w#0": np.zeros(BLOCK), "w#1": np.zeros(1, "f4")},
        {"w#0": np.zeros((BLOCK, 2)), "w#1": np.zeros((1, 3))},
    ],
)
def test_blocks_that_do_not_make_a_whole_are_refused(entries: dict[str, Array]) -> None:
    with pytest.raises(StoreError, match=r"'w'.*restore a snapshot"):
        join(entries)
