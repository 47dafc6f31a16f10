import gzip
import re
from pathlib import Path

import msgspec
import pytest

from streamrank.errors import SourceError
from streamrank.events.types import Field, Interaction
from streamrank.sources.ratings import RatingsSource, read_interactions

ROWS = [
    ("196", "242", 3.0, 881250949000),
    ("186", "302", 1.0, 891717742000),
    ("196", "302", 4.5, 891717742000),
]
FORMS = {
    "u.data": "196\t242\t3\t881250949\n186\t302\t1\t891717742\n196\t302\t4.5\t891717742\n",
    "ratings.dat": "196::242::3::881250949\r\n186::302::1::891717742\r\n196::302::4.5::891717742",
    "ratings.csv": (
        "userId,movieId,rating,timestamp\n196,242,3,881250949\n186,302,1,891717742\n196,302,4.5,891717742\n"
    ),
    "ms.csv": (
        "item,user,time,score\n242,196,881250949000,3\n302,186,891717742000,1\n\n302,196,891717742000.0,4.5\n"
    ),
    "headless.csv": '"196",242,3,881250949\n186,"302",1,891717742\n196,302,4.5,891717742\n',
    "iso.tsv": (
        "date\tcustomer_id\tproduct_id\trating\n1997-12-04T15:55:49\t196\t242\t3\n"
        "1998-04-04T19:22:22Z\t186\t302\t1\n1998-04-04 20:22:22+01:00\t196\t302\t4.5\n"
    ),
}


def written(path: Path, text: str) -> Path:
    path.write_bytes(gzip.compress(text.encode()) if path.suffix == ".gz" else text.encode())
    return path


@pytest.mark.parametrize("packing", ["", ".gz"])
@pytest.mark.parametrize("name", FORMS)
def test_every_form_gives_the_same_interactions(tmp_path: Path, name: str, packing: str) -> None:
    path = written(tmp_path / (name + packing), FORMS[name])
    found = read_interactions([path])
    assert (found.users, found.items) == (["196", "186"], ["242", "302"])
    assert (found.user.tolist(), found.item.tolist()) == ([0, 1, 0], [0, 1, 1])
    assert (found.rating.tolist(), found.time_ms.tolist()) == ([3, 1, 4.5], [row[3] for row in ROWS])
    events = [msgspec.msgpack.decode(r.value, type=Interaction) for r in RatingsSource([path]).records()]
    assert events == [
        Interaction(
            id=f"{user}:{item}:{at}",
            timestamp=time,
            item=item,
            type="rating",
            user=user,
            fields=[Field("rating", rating)],
        )
        for at, (user, item, rating, time) in enumerate(ROWS)
    ]


def test_places_name_the_line_and_files_follow_each_other(tmp_path: Path) -> None:
    source = RatingsSource([written(tmp_path / name, FORMS[name]) for name in ("ratings.csv", "u.data")])
    whole = list(source.records())
    assert [record.place for record in whole][2:4] == ["ratings.csv:4", "u.data:1"]
    for start in range(8):
        assert list(source.records(start)) == whole[start:]


def test_ratings_below_the_least_are_left_out_and_have_no_offset(tmp_path: Path) -> None:
    source = RatingsSource([written(tmp_path / "u.data", FORMS["u.data"])], min_rating=3)
    whole = list(source.records())
    assert [(r.offset, r.place) for r in whole] == [(0, "u.data:1"), (1, "u.data:3")]
    assert list(source.records(1)) == whole[1:]


def test_without_rating_and_time_a_row_is_a_click_at_its_number(tmp_path: Path) -> None:
    path = written(tmp_path / "likes.csv", "user,item\na,b\na,c\n")
    events = [msgspec.msgpack.decode(r.value, type=Interaction) for r in RatingsSource([path], 3).records()]
    assert [(e.type, e.timestamp, e.fields) for e in events] == [("click", 0, []), ("click", 1, [])]
    found = read_interactions([path, path])
    assert (found.rating.tolist(), found.time_ms.tolist()) == ([1, 1, 1, 1], [0, 1, 2, 3])


@pytest.mark.parametrize(
    ("text", "line", "why"),
    [
        ("movieId,title,genres\n1,Toy Story,x\n", 1, "could not convert string to float: 'genres'"),
        ("1|2|3|4\n", 1, "1 fields"),
        ("1\t2\t3\t4\n\n1\t2\t3\n", 3, "3 fields, 4 before"),
        ("1\t2\tgood\t4\n", 1, "could not convert string to float: 'good'"),
        ("1\t2\tnan\t4\n", 1, "the rating is nan"),
        ("1\t2\t3\t4\n1\t2\t3\tyester-day\n", 2, "Invalid isoformat string: 'yester-day'"),
        ("user,item,rating\n1,2,\n", 2, "could not convert string to float: ''"),
    ],
)
def test_a_bad_row_is_refused_with_its_file_line_and_reason(
    tmp_path: Path, text: str, line: int, why: str
) -> None:
    path = written(tmp_path / "r.csv", text)
    with pytest.raises(SourceError, match=re.escape(f"r.csv:{line}: not a row of ratings: {why}")):
        list(RatingsSource([path]).records())
    with pytest.raises(SourceError, match=r"Expected user, item, rating, unix time"):
        read_interactions([path])
