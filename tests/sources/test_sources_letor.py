import gzip
import re
from io import BytesIO
from pathlib import Path

import msgspec
import numpy as np
import pytest
import zstandard
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.sparse import csr_matrix
from sklearn.datasets import load_svmlight_file

from streamrank.errors import SourceError
from streamrank.events.types import PackedRanking
from streamrank.sources.dataset import Dataset
from streamrank.sources.letor import LetorSource, read_letor

SAMPLE = b"""\
# a comment of its own
2 qid:10 1:0.5 3:0.25 # docid = GX1 inc = 1
0 qid:10 2:1e-3 #docid=GX2

1.5 qid:11 1:-4
1 qid:10 4:7
0 qid:10
"""


def written(path: Path, data: bytes) -> Path:
    path.write_bytes(data)
    return path


def dense(found: Dataset) -> np.ndarray:
    return csr_matrix((found.data, found.indices, found.indptr), shape=found.shape).toarray()


def unpacked(value: bytes) -> tuple[PackedRanking, list[str], np.ndarray]:
    event = msgspec.msgpack.decode(value, type=PackedRanking)
    names = msgspec.msgpack.decode(event.columns, type=list[str])
    return event, names, np.frombuffer(event.values, "<f8").reshape(len(event.items), len(names))


# numbers grow along a row, as the form demands; labels and qids are whatever comes
row = st.tuples(
    st.integers(0, 4),
    st.integers(1, 3),
    st.dictionaries(st.integers(1, 9), st.floats(-1e9, 1e9), max_size=5).map(lambda x: sorted(x.items())),
)
rows = st.lists(row, min_size=1, max_size=12)


def text(data: list[tuple[int, int, list[tuple[int, float]]]]) -> bytes:
    return "\n".join(f"{y} qid:{q} " + " ".join(f"{n}:{v!r}" for n, v in x) for y, q, x in data).encode()


def test_rows_become_arrays_grouped_by_consecutive_qid(tmp_path: Path) -> None:
    found = read_letor([written(tmp_path / "a.letor", SAMPLE)])
    assert dense(found).tolist() == [
        [0.5, 0, 0.25, 0],
        [0, 0.001, 0, 0],
        [-4, 0, 0, 0],
        [0, 0, 0, 7],
        [0, 0, 0, 0],
    ]
    assert found.y.tolist() == [2, 0, 1.5, 1, 0]
    assert found.lists.tolist() == [0, 2, 3, 5]
    assert found.qids == ["10", "11", "10"]
    assert found.docs == ["GX1", "GX2", "0", "0", "1"]
    assert found.names == ["f1", "f2", "f3", "f4"]
    assert (found.indptr.dtype, found.indices.dtype, found.data.dtype) == (np.int64, np.int32, np.float64)


def test_features_counted_from_zero_keep_their_numbers(tmp_path: Path) -> None:
    found = read_letor([written(tmp_path / "a.letor", b"1 qid:1 0:5 2:6\n")])
    assert (dense(found).tolist(), found.names) == ([[5, 0, 6]], ["f0", "f1", "f2"])


@settings(max_examples=60, deadline=None)
@given(rows)
def test_values_equal_those_of_scikit_learn_to_the_last_bit(
    tmp_path_factory: pytest.TempPathFactory, data: list[tuple[int, int, list[tuple[int, float]]]]
) -> None:
    content = text(data)
    found = read_letor([written(tmp_path_factory.mktemp("letor") / "a.letor", content)])
    X, y, qid = load_svmlight_file(BytesIO(content), n_features=9, zero_based=False, query_id=True)
    assert (dense(found) == X.toarray()[:, : found.shape[1]]).all()
    assert not X.toarray()[:, found.shape[1] :].any()
    assert (found.y == y).all()
    assert [q for q, n in zip(found.qids, np.diff(found.lists), strict=True) for _ in range(n)] == list(
        map(str, qid)
    )


@settings(max_examples=40, deadline=None)
@given(st.lists(rows, min_size=1, max_size=3), st.sampled_from(["", ".gz", ".zst"]))
def test_rankings_equal_the_arrays_and_can_be_read_from_any_offset(
    tmp_path_factory: pytest.TempPathFactory,
    files: list[list[tuple[int, int, list[tuple[int, float]]]]],
    packing: str,
) -> None:
    folder = tmp_path_factory.mktemp("letor")
    pack = {"": bytes, ".gz": gzip.compress, ".zst": zstandard.compress}[packing]
    paths = [written(folder / f"{i}.svmlight{packing}", pack(text(data))) for i, data in enumerate(files)]
    arrays, source = read_letor(paths), LetorSource(paths)
    whole = list(source.records())
    assert len(whole) == arrays.n_lists
    for q, record in enumerate(whole):
        event, names, values = unpacked(record.value)
        rows_of_list = slice(arrays.lists[q], arrays.lists[q + 1])
        expected = dense(arrays)[rows_of_list]
        assert (event.id, event.query, event.time_ms) == (f"qid:{arrays.qids[q]}#{q}", arrays.qids[q], q)
        assert (event.labels, event.items) == (arrays.y[rows_of_list].tolist(), arrays.docs[rows_of_list])
        assert names == sorted(names, key=lambda name: int(name[1:]))
        assert (values == expected[:, [arrays.names.index(name) for name in names]]).all()
        assert np.count_nonzero(values) == np.count_nonzero(expected)
    for start in range(len(whole) + 2):
        assert list(source.records(start)) == whole[start:]


def test_a_ranking_is_placed_at_its_first_line_and_knows_its_documents(tmp_path: Path) -> None:
    records = list(LetorSource([written(tmp_path / "a.letor", SAMPLE)]).records())
    assert [record.place for record in records] == ["a.letor:2", "a.letor:5", "a.letor:6"]
    event, names, values = unpacked(records[0].value)
    assert (event.items, names) == (["GX1", "GX2"], ["f1", "f2", "f3"])
    assert values.tolist() == [[0.5, 0, 0.25], [0, 0.001, 0]]


def test_rows_without_a_qid_are_one_list_a_file(tmp_path: Path) -> None:
    paths = [written(tmp_path / f"{name}.svmlight", b"1 1:2\n0 1:3\n") for name in "ab"]
    found = read_letor(paths)
    assert (found.lists.tolist(), found.qids) == ([0, 2, 4], ["a.svmlight", "b.svmlight"])


@pytest.mark.parametrize(
    ("content", "line"),
    [(b"1 1:2\n0 1:3\n", 1), (b"# rows\n\n1\n", 3), (b"1 qid:1 1:2\n0 qid:1 1:3\n0 1:3\n0 qid:1 1:1\n", 3)],
)
def test_a_source_refuses_the_first_row_without_a_qid_by_file_and_line(
    tmp_path: Path, content: bytes, line: int
) -> None:
    source = LetorSource([written(tmp_path / "a.svmlight", content)])
    says = rf"a\.svmlight: line {line} has no qid: a ranker learns from lists; add qid:N to every row"
    for read in (source.fingerprint, lambda: list(source.records()), lambda: list(source.records(9))):
        with pytest.raises(SourceError, match=says):
            read()


def test_a_large_file_without_qids_is_refused_before_it_is_read(tmp_path: Path) -> None:
    source = LetorSource([written(tmp_path / "a.svmlight", b"1 1:2\n" * 500_000)])
    with pytest.raises(SourceError, match="line 1 has no qid"):
        next(source.records())
    read, total = source.progress()
    assert read < total / 4  # one buffer


def test_an_empty_file_is_an_empty_data_set(tmp_path: Path) -> None:
    path = written(tmp_path / "a.letor", b"# nothing\n")
    found = read_letor([path])
    assert (found.shape, found.n_lists, found.lists.tolist()) == ((0, 0), 0, [0])
    assert (list(LetorSource([path]).records()), LetorSource([path]).fingerprint()) == ([], "")


@pytest.mark.parametrize(
    ("line", "why"),
    [
        (b"x qid:1 1:2", "could not convert string to float: 'x'"),
        (b"nan qid:1 1:2", "the label is nan"),
        (b"1 qid:1 a:2", "invalid literal"),
        (b"1 qid:1 1:2:3 4:5", "could not convert string to float: '2:3'"),
        (b"1 qid:1 1", "could not convert string to float: ''"),
        (b"1 qid:1 2:1 1:1", "feature numbers must grow"),
        (b"1 qid:1 2:1 2:1", "feature numbers must grow"),
        (b"1 qid:1 -1:1", "feature numbers must grow"),
        (b"1 qid:1 9999999:1", "feature numbers must grow along the row, up to 4194304"),
    ],
)
def test_a_bad_row_is_refused_with_its_file_line_and_reason(tmp_path: Path, line: bytes, why: str) -> None:
    path = written(tmp_path / "a.letor", b"1 qid:1 1:2\n\n" + line)
    expected = re.escape(f"a.letor:3: not a row of LETOR data: {why}")
    with pytest.raises(SourceError, match=expected):
        read_letor([path])
    with pytest.raises(SourceError, match=expected):
        list(LetorSource([path]).records())
