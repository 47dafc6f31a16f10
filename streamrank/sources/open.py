"""One function that opens any log: what a file holds is told by its name and its first line."""

from collections.abc import Sequence
from pathlib import Path

from streamrank.errors import SourceError
from streamrank.sources.base import FileSource, Source, readable
from streamrank.sources.feedback import FeedbackSource, is_feedback
from streamrank.sources.file import LogSource
from streamrank.sources.letor import LetorSource
from streamrank.sources.parquet import PARQUET_ENDINGS, ParquetSource
from streamrank.sources.ratings import RatingsSource
from streamrank.sources.stream import STDIN, bare_name, lines, reading

_LETOR_ENDINGS = (".svmlight", ".letor", ".svm", ".libsvm")
_RATINGS_ENDINGS = (".csv", ".tsv", ".dat", ".data")
_NAMES: dict[type[FileSource], str] = {
    LogSource: "an event log",
    LetorSource: "LETOR lists",
    RatingsSource: "ratings",
    ParquetSource: "Parquet",
}


def open_source(paths: Sequence[str | Path]) -> Source:
    """The files as one source: event logs of any form together, or several files of one other kind.

    `.parquet` is Parquet; `.svmlight`, `.letor`, and `.txt` with a qid on its first line, are LETOR lists;
    `.csv`, `.tsv`, `.dat` and `.data` are ratings unless they start as JSON; all else and "-" are event logs.
    A folder is the feedback log of a server.
    """
    if len(paths) == 1 and is_feedback(Path(paths[0])):
        return FeedbackSource(paths[0])
    found = readable([paths] if isinstance(paths, str | Path) else paths)
    kinds = [_kind(path) for path in found]
    for path, kind in zip(found, kinds, strict=True):
        if kind is not kinds[0]:
            raise SourceError(
                f"{found[0]} is {_NAMES[kinds[0]]}, {path} is {_NAMES[kind]}: read one kind at a time. "
                "Only event logs (JSON, msgpack) can be mixed."
            )
    return kinds[0](found)


def _kind(path: Path) -> type[FileSource]:
    name = bare_name(path)
    if path == STDIN:
        return LogSource
    if name.endswith(PARQUET_ENDINGS):
        return ParquetSource
    if name.endswith(_LETOR_ENDINGS):
        return LetorSource
    if name.endswith((".txt", *_RATINGS_ENDINGS)):
        with reading(path) as (stream, _):
            _, first = next(lines(stream), (0, b""))
        words = first.split(None, 2)
        if name.endswith(".txt") and len(words) > 1 and words[1].startswith(b"qid:"):
            return LetorSource
        if name.endswith(_RATINGS_ENDINGS) and not first.lstrip().startswith((b"{", b"[")):
            return RatingsSource
    return LogSource
