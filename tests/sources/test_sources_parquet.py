import sys
from datetime import date, datetime
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from streamrank.errors import ConfigError, SourceError
from streamrank.events.types import Interaction, PackedRanking
from streamrank.sources.parquet import ParquetSource, read_parquet_lists
from streamrank.sources.ratings import read_interactions


def written(path: Path, row_group_size: int = 3, **columns: Any) -> Path:
    pq.write_table(pa.table(columns), path, row_group_size=row_group_size)
    return path


def interactions(path: Path) -> list[Interaction]:
    return [msgspec.msgpack.decode(r.value, type=Interaction) for r in ParquetSource([path]).records()]


@pytest.mark.parametrize("name", ["event", "value", "JSON"])
@pytest.mark.parametrize("kind", [pa.string(), pa.large_string(), pa.binary(), pa.large_binary()])
def test_a_column_of_events_is_given_as_it_is(tmp_path: Path, name: str, kind: pa.DataType) -> None:
    events = ['{"é": 1}', None, "[2]", " {}"]
    column = pa.array(events if "string" in str(kind) else [e and e.encode() for e in events], kind)
    path = written(tmp_path / "a.parquet", **{name: column, "user": ["u"] * 4, "item": ["i"] * 4})
    records = list(ParquetSource([path]).records())
    assert [r.value.decode() for r in records] == ['{"é": 1}', "[2]", " {}"]
    assert [(r.offset, r.place) for r in records] == [
        (0, "a.parquet#1"),
        (1, "a.parquet#3"),
        (2, "a.parquet#4"),
    ]


def test_a_column_called_event_that_holds_words_is_no_log(tmp_path: Path) -> None:
    path = written(
        tmp_path / "a.parquet", event=["view", "buy"], visitorid=[7, 8], itemid=[1, 2], timestamp=[5, 6]
    )
    assert [(e.user, e.item, e.type, e.timestamp) for e in interactions(path)] == [
        ("7", "1", "click", 5000),
        ("8", "2", "click", 6000),
    ]


@settings(max_examples=25, deadline=None)
@given(st.lists(st.integers(1, 3), min_size=1, max_size=30), st.integers(1, 7), st.integers(1, 7))
def test_lists_do_not_depend_on_row_groups_or_batches_and_can_be_read_from_any_offset(
    tmp_path_factory: pytest.TempPathFactory, qids: list[int], row_group: int, batch: int
) -> None:
    n = len(qids)
    path = written(
        tmp_path_factory.mktemp("parquet") / "a.parquet",
        row_group,
        b=pa.array(np.arange(n) * 0.5),
        qid=pa.array(qids, pa.int16()),
        a=pa.array([None if i % 4 == 3 else i for i in range(n)], pa.int32()),
        label=pa.array([i % 3 for i in range(n)]),
    )
    borders = [0, *(i for i in range(1, n) if qids[i] != qids[i - 1]), n]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("streamrank.sources.parquet._BATCH_ROWS", batch)
        source = ParquetSource([path])
        whole = list(source.records())
        arrays = read_parquet_lists([path])
        for start in range(len(whole) + 2):
            assert list(source.records(start)) == whole[start:]
    assert len(whole) == len(borders) - 1
    for q, record in enumerate(whole):
        first, last = borders[q], borders[q + 1]
        event = msgspec.msgpack.decode(record.value, type=PackedRanking)
        assert msgspec.msgpack.decode(event.columns) == ["b", "a"]
        values = np.frombuffer(event.values, "<f8").reshape(-1, 2)
        expected = [[i * 0.5, np.nan if i % 4 == 3 else i] for i in range(first, last)]
        np.testing.assert_array_equal(values, expected)
        assert event.labels == [i % 3 for i in range(first, last)]
        assert event.items == [str(i) for i in range(last - first)]
        assert (event.id, event.query, event.timestamp) == (f"qid:{qids[first]}#{q}", str(qids[first]), q)
        assert record.place == f"a.parquet#{first + 1}"
    assert arrays.lists.tolist() == borders
    assert arrays.qids == [str(qids[first]) for first in borders[:-1]]
    assert arrays.names == ["b", "a"]
    for row in range(n):
        stored = slice(arrays.indptr[row], arrays.indptr[row + 1])
        expected_row = {0: row * 0.5} if row % 4 == 3 else {0: row * 0.5, 1: float(row)}
        assert (
            dict(zip(arrays.indices[stored].tolist(), arrays.data[stored].tolist(), strict=True))
            == expected_row
        )


def test_ids_users_and_times_of_lists_are_no_features(tmp_path: Path) -> None:
    path = written(
        tmp_path / "a.pq",
        query_id=["q", "q", "r"],
        doc_id=[1.0, 2.0, 3.0],
        user_id=[9, 9, None],
        timestamp=[datetime(2020, 1, 1), datetime(2020, 1, 2), None],
        relevance=[1, 0, 2],
        seen=[True, False, None],
        title=["x", "y", "z"],
    )
    first, second = (
        msgspec.msgpack.decode(r.value, type=PackedRanking) for r in ParquetSource([path]).records()
    )
    assert msgspec.msgpack.decode(first.columns) == ["seen"]
    assert np.frombuffer(first.values).tolist() == [1, 0]
    assert (first.items, first.user, first.timestamp) == (["1", "2"], "9", 1577836800000)
    assert (second.items, second.user, second.timestamp) == (["3"], None, 1)


@pytest.mark.parametrize(
    ("times", "expected"),
    [
        ([881250949, 881250950], [881250949000, 881250950000]),
        ([881250949000, 881250950000], [881250949000, 881250950000]),
        ([datetime(1997, 12, 4, 15, 55, 49), None], [881250949000, 1]),
        (["1997-12-04", "1997-12-05T00:00:01+01:00"], [881193600000, 881276401000]),
        ([date(1997, 12, 4), date(1997, 12, 5)], [881193600000, 881280000000]),
    ],
)
def test_rows_of_user_and_item_are_interactions(
    tmp_path: Path, times: list[Any], expected: list[int]
) -> None:
    path = written(tmp_path / "a.parquet", movie=[3, 4], user=["x", "y"], rating=[1, None], time=times)
    events = interactions(path)
    assert [(e.user, e.item, e.type, e.timestamp) for e in events] == [
        ("x", "3", "rating", expected[0]),
        ("y", "4", "click", expected[1]),
    ]
    arrays = read_interactions([path])
    assert (arrays.users, arrays.items, arrays.user.tolist()) == (["x", "y"], ["3", "4"], [0, 1])
    assert (arrays.rating.tolist(), arrays.time_ms.tolist()) == ([1, 1], expected)


def test_unknown_columns_are_listed_with_what_is_accepted(tmp_path: Path) -> None:
    path = written(tmp_path / "a.parquet", colour=["red"], size=[1])
    with pytest.raises(
        SourceError, match=r"a\.parquet: cannot tell .*: colour, size\. Accepted: .*qid.*label.*user"
    ):
        ParquetSource([path])


def test_a_file_of_another_kind_is_refused(tmp_path: Path) -> None:
    pairs = written(tmp_path / "pairs.parquet", user=[1], item=[2])
    judged = written(tmp_path / "lists.parquet", qid=[1], label=[1], f=[0.5])
    other = written(tmp_path / "other.parquet", qid=[1], label=[1], g=[0.5])
    with pytest.raises(SourceError, match="hold interactions and judged lists: read one kind at a time"):
        ParquetSource([pairs, judged])
    with pytest.raises(SourceError, match=r"pairs\.parquet: holds interactions, not judged lists"):
        read_parquet_lists([pairs])
    with pytest.raises(SourceError, match=r"other\.parquet: its features are not those of .*lists\.parquet"):
        read_parquet_lists([judged, other])
    with pytest.raises(SourceError, match=r"lists\.parquet: holds judged lists, not interactions"):
        read_interactions([judged])


def test_rows_without_what_makes_them_are_refused_by_number(tmp_path: Path) -> None:
    with pytest.raises(SourceError, match=r"a\.parquet#2: this row names no user or no item"):
        interactions(written(tmp_path / "a.parquet", user=[1, None], item=[1, 2]))
    for columns in ({"qid": [1, None], "label": [1, 2]}, {"qid": [1, 1], "label": [1, None]}):
        with pytest.raises(SourceError, match=r"b\.parquet#2: this row lacks its group or its label"):
            read_parquet_lists([written(tmp_path / "b.parquet", f=[0.1, 0.2], **columns)])


def test_a_file_that_is_not_parquet_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "a.parquet"
    path.write_bytes(b"{}\n")
    with pytest.raises(SourceError, match=r"a\.parquet: cannot be read as Parquet"):
        ParquetSource([path])


def test_without_pyarrow_the_extra_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = written(tmp_path / "a.parquet", user=[1], item=[2])
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    with pytest.raises(ConfigError, match=r"pip install 'streamrank\[parquet\]'"):
        ParquetSource([path])


def test_progress_grows_to_the_size_on_disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("streamrank.sources.parquet._BATCH_ROWS", 10)
    path = written(tmp_path / "a.parquet", user=list(range(100)), item=list(range(100)))
    size = path.stat().st_size
    source = ParquetSource([path])
    seen = [source.progress()[0] for _ in source.records()]
    assert (seen[0], source.progress()) == (0, (size, size))
    assert seen == sorted(seen)
    assert seen[50] == size * 50 // 100
