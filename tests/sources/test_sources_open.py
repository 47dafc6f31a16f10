import os
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from streamrank.errors import SourceError
from streamrank.sources import open_source
from streamrank.sources.file import LogSource, write_frame
from streamrank.sources.letor import LetorSource, read_letor
from streamrank.sources.parquet import ParquetSource, read_parquet_lists
from streamrank.sources.ratings import RatingsSource, read_interactions

DATA = Path(os.environ.get("STREAMRANK_DATA", Path(__file__).parents[2] / ".." / "shared" / "data"))


def real(name: str) -> Path:
    path = DATA / name
    if not path.exists():
        pytest.skip(f"{name} is not in {DATA}: set STREAMRANK_DATA")
    return path


@pytest.mark.parametrize(
    ("name", "content", "kind"),
    [
        ("log.jsonl", b"{}", LogSource),
        ("log.msgpack", write_frame(b"{}"), LogSource),
        ("log.txt", b"{}", LogSource),
        ("log.whatever", b"1 qid:1", LogSource),
        ("set.txt", b"\n0 qid:1 1:2", LetorSource),
        ("set.svmlight", b"0 1:2", LetorSource),
        ("SET.LETOR", b"0 qid:1 1:2", LetorSource),
        ("u.data", b"1\t2\t3\t4", RatingsSource),
        ("ratings.dat", b"1::2::3::4", RatingsSource),
        ("ratings.csv", b"userId,movieId,rating,timestamp", RatingsSource),
        ("events.dat", b'{"event": "item"}', LogSource),
        ("empty.jsonl", b"", LogSource),
    ],
)
def test_the_kind_is_told_by_name_and_first_line(
    tmp_path: Path, name: str, content: bytes, kind: type
) -> None:
    path = tmp_path / name
    path.write_bytes(content)
    assert type(open_source([path])) is kind
    assert type(open_source([str(path)])) is kind


def test_parquet_and_standard_input_are_told_by_name(tmp_path: Path) -> None:
    path = tmp_path / "a.parquet"
    pq.write_table(pa.table({"user": [1], "item": [2]}), path)
    assert type(open_source([path])) is ParquetSource
    assert type(open_source(["-"])) is LogSource


def test_event_logs_mix_and_other_kinds_do_not(tmp_path: Path) -> None:
    for name, content in (
        ("a.jsonl", b"1\n"),
        ("b.mpk", write_frame(b"2")),
        ("c.json", b"[\n3]"),
        ("u.data", b"1\t2"),
    ):
        (tmp_path / name).write_bytes(content)
    logs = [tmp_path / name for name in ("b.mpk", "c.json", "a.jsonl")]
    assert [record.value for record in open_source(logs).records()] == [b"2", b"3", b"1"]
    with pytest.raises(
        SourceError, match=r"b\.mpk is an event log, .*u\.data is ratings: read one kind at a time"
    ):
        open_source([*logs, tmp_path / "u.data"])


def test_one_path_need_not_be_in_a_list(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    path.write_bytes(b"1\n")
    assert [record.value for record in open_source(str(path)).records()] == [b"1"]


def test_ranklens_has_its_lines() -> None:
    source = open_source([real("ranklens/items.jsonl.gz"), real("ranklens/events.first80.jsonl.gz")])
    places = [record.place for record in source.records(2510)]
    assert len(places) == 2 + 7840 + 36309
    assert places[:3] == ["items.jsonl.gz:2511", "items.jsonl.gz:2512", "events.first80.jsonl.gz:1"]


def test_mq2008_has_its_rows_queries_and_labels() -> None:
    paths = [real(f"letor4-mq2008/S{i}.svmlight.gz") for i in (1, 2)]
    found = read_letor(paths)
    assert (found.shape, found.n_lists) == ((2933 + 3635, 46), 157 + 157)
    assert [int((found.y == label).sum()) for label in (0, 1, 2)] == [2316 + 3080, 427 + 385, 190 + 170]
    assert sum(1 for _ in open_source(paths).records()) == 314
    assert found.docs[0].startswith("GX")


def test_lightgbm_lists_are_sparse() -> None:
    found = read_letor([real("lightgbm-lambdarank/rank.test.svmlight.gz")])
    assert (found.shape[0], found.n_lists, found.qids[0], found.qids[-1]) == (768, 50, "1001", "1050")
    assert len(found.data) < 768 * 300 / 2


def test_protein_blocks_have_their_rows_queries_and_relevant() -> None:
    path = real("kddcup04-protein/train_blocks.parquet")
    found = read_parquet_lists([path])
    assert (found.shape, found.n_lists, found.y.sum()) == ((115918, 74), 123, 1080)
    assert found.names == [f"f{i}" for i in range(1, 75)]
    assert sum(1 for _ in open_source([path]).records(120)) == 3


def test_movielens_has_its_users_and_movies() -> None:
    found = read_interactions([real("movielens-100k/u.data.gz")])
    assert (len(found.user), len(found.users), len(found.items)) == (100_000, 943, 1682)
    assert (found.rating.min(), found.rating.max()) == (1, 5)
    small = read_interactions([real("movielens-latest-small/ratings.csv.gz")])
    assert (len(small.user), len(small.users), len(small.items)) == (100_004, 671, 9066)


def test_news_behaviours_are_refused_with_their_columns() -> None:
    with pytest.raises(SourceError, match="article_ids_inview"):
        open_source([real("ebnerd-demo/train_behaviors.parquet")])
