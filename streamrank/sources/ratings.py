"""Who liked what, when: MovieLens' three forms of text, and Parquet.

`u.data` (tab separated: user, item, rating, time), `ratings.dat` (the same, `::` between), and comma or tab
separated text whose header names the columns, in any order. Rating and time may be missing. Times are unix
seconds or milliseconds, or ISO-8601.
"""

import csv
import math
from array import array
from collections.abc import Generator, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

import numpy as np
import numpy.typing as npt

from streamrank.errors import SourceError
from streamrank.events.types import Record
from streamrank.features.batch import Floats, Ints
from streamrank.sources.base import FileSource, readable
from streamrank.sources.interactions import Row, encode
from streamrank.sources.parquet import PARQUET_ENDINGS, parquet_interactions
from streamrank.sources.spelling import ITEM, RATING, TIME, USER, column, to_ms
from streamrank.sources.stream import bare_name, lines, reading

Codes = npt.NDArray[np.int32]


@dataclass(frozen=True, slots=True)
class Interactions:
    """In file order: row r is `users[user[r]]` on `items[item[r]]`; codes count from 0 as they first appear.

    `rating` is 1 where the file has none; `time_ms` is the row's number where the file has no time.
    """

    user: Codes
    item: Codes
    users: list[str]
    items: list[str]
    rating: Floats
    time_ms: Ints


class RatingsSource(FileSource):
    """One interaction a row of text; rows rated below `min_rating` are left out and have no offset."""

    def __init__(self, paths: Sequence[str | Path], min_rating: float | None = None) -> None:
        super().__init__(paths)
        self.min_rating = min_rating

    def _read(self, path: Path, offset: int, start: int) -> Generator[Record, None, int]:
        with self._opened(path) as stream:
            for row in _rows(stream, path):
                if self.min_rating is not None and row.rating is not None and row.rating < self.min_rating:
                    continue
                if offset >= start:
                    yield Record(offset, encode(row, offset), f"{path.name}:{row.number}")
                offset += 1
        return offset


def read_interactions(paths: Sequence[str | Path]) -> Interactions:
    """All rows of all files (text or Parquet) as arrays."""
    users: dict[str, int] = {}
    items: dict[str, int] = {}
    user, item, rating, time_ms = array("i"), array("i"), array("d"), array("q")
    for path in readable(paths):
        for row in _all_rows(path):
            user.append(users.setdefault(row.user, len(users)))
            item.append(items.setdefault(row.item, len(items)))
            rating.append(1.0 if row.rating is None else row.rating)
            time_ms.append(len(time_ms) if row.time_ms is None else row.time_ms)
    return Interactions(
        np.array(user, np.int32),
        np.array(item, np.int32),
        list(users),
        list(items),
        np.array(rating, np.float64),
        np.array(time_ms, np.int64),
    )


def _all_rows(path: Path) -> Iterator[Row]:
    if bare_name(path).endswith(PARQUET_ENDINGS):
        yield from parquet_interactions(path)
        return
    with reading(path) as (stream, _):
        yield from _rows(stream, path)


def _rows(stream: BinaryIO, path: Path) -> Iterator[Row]:
    separator, n_fields = "", 0
    places: tuple[int, int, int | None, int | None] = (0, 1, None, None)
    for number, line in lines(stream):
        try:
            text = line.decode()
            if not separator:
                separator = next((s for s in ("::", "\t") if s in text), ",")
                names = _split(text, separator)
                n_fields, header = len(names), _header(names)
                places = header or (0, 1, 2 if n_fields > 2 else None, 3 if n_fields > 3 else None)
                if header:
                    continue
            fields = _split(text, separator)
            if len(fields) != n_fields or n_fields < 2:
                raise ValueError(f"{len(fields)} fields" + (f", {n_fields} before" if number > 1 else ""))
            user, item, rating, time = places
            score = None if rating is None else float(fields[rating])
            if score is not None and not math.isfinite(score):
                raise ValueError(f"the rating is {score}")
            yield Row(
                number, fields[user], fields[item], score, None if time is None else to_ms(fields[time])
            )
        except ValueError as error:
            raise SourceError(
                f"{path}:{number}: not a row of ratings: {str(error)[:200]}. Expected user, item, rating, "
                "unix time with tabs or '::' between, or a header like userId,movieId,rating,timestamp."
            ) from error


def _split(text: str, separator: str) -> list[str]:
    return (
        next(csv.reader([text], delimiter=separator))
        if '"' in text and separator != "::"
        else text.split(separator)
    )


def _header(names: list[str]) -> tuple[int, int, int | None, int | None] | None:
    user, item = column(names, USER), column(names, ITEM)
    if user is None or item is None:
        return None
    rating, time = column(names, RATING), column(names, TIME)
    return (
        names.index(user),
        names.index(item),
        None if rating is None else names.index(rating),
        None if time is None else names.index(time),
    )
