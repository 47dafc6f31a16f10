"""Judged lists in the svmlight/LETOR form: `2 qid:10 1:0.5 3:0.25 # docid = GX1`; plain, .gz or .zst.

Consecutive rows with the same qid are one list. Rows without a qid: `LetorSource` refuses them, `read_letor`
takes them for one list a file, named after the file.
A feature that a row does not name is 0 there. `#` starts a comment; `docid = x` in it names the document,
otherwise its number in the list does, from 0.
"""

import math
import operator
import re
from array import array
from collections.abc import Generator, Iterator, Sequence
from functools import lru_cache
from itertools import groupby
from pathlib import Path
from typing import BinaryIO, NamedTuple

import msgspec
import numpy as np

from streamrank.errors import SourceError
from streamrank.events.types import PackedRanking, Record
from streamrank.features.batch import Floats
from streamrank.sources.base import FileSource, readable
from streamrank.sources.dataset import Dataset
from streamrank.sources.stream import lines, reading

_DOC = re.compile(r"docid\s*=\s*(\S+)", re.IGNORECASE)
_MAX_NUMBER = 1 << 22  # every column up to the largest has a name in memory
_Lines = list[tuple[int, bytes]]


class _Row(NamedTuple):
    label: float
    numbers: list[int]
    values: list[float]
    doc: str


def read_letor(paths: Sequence[str | Path]) -> Dataset:
    """All lists of all files as arrays.

    Feature number n becomes column n - 1 when no row of any file names feature 0, else column n; so files to
    be compared should either be read together or all count from 1. The columns are called f1, f2, ... by the
    numbers in the files.
    """
    indptr, indices, data, y = array("q", [0]), array("i"), array("d"), array("d")
    lists, qids, docs = [0], [], []
    for path in readable(paths):
        with reading(path) as (stream, _):
            for qid, group in _groups(stream, path):
                for at, (number, line) in enumerate(group):
                    row = _parse(path, number, line)
                    indices.extend(row.numbers)
                    data.extend(row.values)
                    indptr.append(len(indices))
                    y.append(row.label)
                    docs.append(row.doc or str(at))
                lists.append(len(y))
                qids.append(qid)
    numbers = np.frombuffer(indices, dtype=np.int32) if indices else np.zeros(0, np.int32)
    first = 0 if len(numbers) and numbers.min() == 0 else 1
    last = int(numbers.max()) if len(numbers) else 0
    return Dataset(
        np.array(indptr, np.int64),
        (numbers - first).astype(np.int32),
        np.array(data, np.float64),
        np.array(y, np.float64),
        np.array(lists, np.int64),
        qids,
        docs,
        [f"f{n}" for n in range(first, last + 1)],
    )


class LetorSource(FileSource):
    """Every list as a packed ranking with its labels.

    Its columns are the features named in the list, `f1` for number 1; its id is `qid:<qid>#<offset>`, and its
    timestamp the offset, since such files know no time. A row without a qid is refused as soon as it is met:
    a whole file as one list would be no list anyone was shown, and its matrix may not fit in memory.
    """

    def _read(self, path: Path, offset: int, start: int) -> Generator[Record, None, int]:
        with self._opened(path) as stream:
            for qid, group in _groups(stream, path, need_qid=True):
                if offset >= start:
                    rows = [_parse(path, number, line) for number, line in group]
                    yield Record(offset, _pack(qid, offset, rows), f"{path.name}:{group[0][0]}")
                offset += 1
        return offset


def _groups(stream: BinaryIO, path: Path, *, need_qid: bool = False) -> Iterator[tuple[str, _Lines]]:
    """Lists with their lines, looked at no further than the qid: passing over a list is cheap."""

    def qid(numbered: tuple[int, bytes]) -> bytes | None:
        parts = numbered[1].split(None, 2)
        if len(parts) > 1 and parts[1].startswith(b"qid:"):
            return parts[1][4:]
        if need_qid:
            raise SourceError(
                f"{path}: line {numbered[0]} has no qid: a ranker learns from lists; add qid:N to every row"
            )
        return None

    rows = (row for row in lines(stream) if not row[1].lstrip().startswith(b"#"))
    for key, group in groupby(rows, qid):
        yield (path.name if key is None else key.decode(errors="replace")), list(group)


def _parse(path: Path, number: int, line: bytes) -> _Row:
    body, _, comment = line.decode(errors="replace").partition("#")
    label, *pairs = body.split()
    if pairs and pairs[0].startswith("qid:"):
        del pairs[0]
    numbers, values = [], []
    try:
        for pair in pairs:
            name, _, value = pair.partition(":")
            numbers.append(int(name))
            values.append(float(value))
        y = float(label)
    except ValueError as error:
        raise _refused(path, number, str(error)) from error
    if not math.isfinite(y):
        raise _refused(path, number, f"the label is {label}")
    if numbers and (
        numbers[0] < 0 or numbers[-1] > _MAX_NUMBER or any(map(operator.ge, numbers, numbers[1:]))
    ):
        raise _refused(path, number, f"feature numbers must grow along the row, up to {_MAX_NUMBER}")
    found = _DOC.search(comment) if comment else None
    return _Row(y, numbers, values, found[1] if found else "")


def _refused(path: Path, number: int, why: str) -> SourceError:
    return SourceError(
        f"{path}:{number}: not a row of LETOR data: {why[:200]}. Expected: 2 qid:10 1:0.5 3:0.25 # docid = x"
    )


def _pack(qid: str, offset: int, rows: Sequence[_Row]) -> bytes:
    columns = sorted(set().union(*(row.numbers for row in rows)))
    event = PackedRanking(
        id=f"qid:{qid}#{offset}",
        timestamp=offset,
        items=[row.doc or str(at) for at, row in enumerate(rows)],
        columns=_names(tuple(columns)),
        values=_matrix(rows, columns).astype("<f8").tobytes(),
        labels=[row.label for row in rows],
        query=qid,
    )
    return msgspec.msgpack.encode(event)


def _matrix(rows: Sequence[_Row], columns: list[int]) -> Floats:
    if all(row.numbers == columns for row in rows):  # LETOR's own files name every feature in every row
        return np.array([row.values for row in rows], np.float64)
    column = {number: j for j, number in enumerate(columns)}
    matrix = np.zeros((len(rows), len(columns)))
    for at, row in enumerate(rows):
        matrix[at, [column[number] for number in row.numbers]] = row.values
    return matrix


@lru_cache(maxsize=64)
def _names(numbers: tuple[int, ...]) -> msgspec.Raw:
    return msgspec.Raw(msgspec.msgpack.encode([f"f{number}" for number in numbers]))
