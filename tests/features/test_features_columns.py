import os
import subprocess
import sys
from string import ascii_lowercase

import pytest

from streamrank.errors import ConfigError
from streamrank.features.columns import NAMES_A_BLOCK, Hashed, Vocabulary

PROGRAM = """
from streamrank.config import FeatureSettings
from streamrank.events.types import Field, Item, ItemMetadata, Ranking
from streamrank.features.space import FeatureSpace
from streamrank.state.values import encode

for mode in ("vocabulary", "hashed"):
    space = FeatureSpace(FeatureSettings(mode=mode))
    tags, title = ["red", "blue", "green", "red"], "the quick brown fox jumps over the lazy dog"
    fields = [Field("tags", tags), Field("title", title), Field("price", 2.5), Field("sizes", [1, 2])]
    space.describe(ItemMetadata(id="m", timestamp=1, item="a", fields=fields))
    rows = space.rows(Ranking(id="r", timestamp=2, items=[Item("a"), Item("b", fields)]))
    print(encode(space.to_state()).hex(), rows.columns.tolist(), rows.values.tobytes().hex())
"""


def test_the_first_names_get_a_column_each_and_later_ones_none():
    columns = Vocabulary(limit=3)
    assert [columns.add(name) for name in "abacadb"] == [0, 1, 0, 2, 0, -1, 1]
    assert [columns.find(name) for name in "cde"] == [2, -1, -1]
    assert [columns.name(k) for k in (0, 2, 3)] == ["a", "c", "column 3"]


def test_to_find_a_name_gives_it_no_column():
    columns = Vocabulary(limit=3)
    assert columns.find("a") == -1
    assert (columns.to_state(), columns.dirty(), columns.add("b")) == ({}, {}, 0)


def test_a_vocabulary_without_room_is_refused():
    with pytest.raises(ConfigError, match="at least one column"):
        Vocabulary(limit=0)


@pytest.mark.parametrize("n", [1, NAMES_A_BLOCK - 1, NAMES_A_BLOCK, NAMES_A_BLOCK + 1, 3 * NAMES_A_BLOCK])
def test_names_are_written_in_blocks_once_and_come_back_with_their_columns(n):
    columns, mirror = Vocabulary(limit=10_000), {}
    for k in range(n):
        columns.add(f"name {k}")
        if k % 700 == 0:
            mirror |= columns.dirty()
    mirror |= columns.dirty()
    assert mirror == columns.to_state()
    assert columns.dirty() == {}
    again = Vocabulary(limit=10_000)
    again.from_state({key: mirror[key] for key in sorted(mirror, reverse=True)})
    assert [again.find(f"name {k}") for k in range(n)] == list(range(n))
    assert again.add("next") == n
    assert list(again.dirty()) == [f"names#{n // NAMES_A_BLOCK}"]


def test_a_hashed_name_falls_within_2_to_the_bits_and_names_spread():
    columns = Hashed(bits=10)
    hit = [columns.add(f"{a}{b}") for a in ascii_lowercase for b in ascii_lowercase]
    assert 0 <= min(hit) <= max(hit) < 1024
    # 676 balls into 1024 bins hit 1024 (1 - exp(-676/1024)) = 495 of them, give or take 11
    assert 440 < len(set(hit)) < 550


def test_hashed_columns_are_fixed_for_all_time():
    # other numbers here mean that every stored model has lost its columns
    assert [Hashed(bits=18).find(name) for name in ("price", "colour=red", "é")] == [181622, 42189, 48231]


def test_the_memory_of_hashed_names_is_bounded():
    columns = Hashed(bits=4)
    for k in range(100_001):
        columns.add(str(k))
    assert len(columns._known) <= 100_000
    assert columns.to_state() == columns.dirty() == {}


@pytest.mark.parametrize("bits", [0, 27])
def test_a_number_of_bits_out_of_range_is_refused(bits):
    with pytest.raises(ConfigError, match="choose 1 to 26"):
        Hashed(bits=bits)


def test_columns_are_the_same_in_a_process_that_hashes_strings_otherwise():
    said = {
        subprocess.run(
            [sys.executable, "-c", PROGRAM],
            env=os.environ | {"PYTHONHASHSEED": seed},
            capture_output=True,
            check=True,
            text=True,
        ).stdout
        for seed in ("1", "2")
    }
    assert len(said) == 1
    assert len(said.pop().splitlines()) == 2
