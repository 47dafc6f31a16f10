"""Opening a Parquet file, and telling from its columns what it holds."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

from streamrank.errors import ConfigError, SourceError
from streamrank.sources.spelling import EVENT, GROUP, ITEM, LABEL, RATING, TIME, USER, column

EVENTS, LISTS, INTERACTIONS = "events", "judged lists", "interactions"


class Layout(NamedTuple):
    """Which column is what; None where there is none."""

    kind: str
    event: str | None
    group: str | None
    label: str | None
    user: str | None
    item: str | None
    rating: str | None
    time: str | None
    features: list[str]

    @property
    def columns(self) -> list[str]:
        """The columns to read: Parquet need not touch the others."""
        wanted = {
            EVENTS: [self.event],
            LISTS: [self.group, self.label, self.user, self.item, self.time, *self.features],
            INTERACTIONS: [self.user, self.item, self.rating, self.time],
        }
        return [name for name in wanted[self.kind] if name is not None]


def _pyarrow() -> Any:
    try:
        # here, not above: it is an extra, and takes 0.2 s to load in processes that may read no Parquet
        import pyarrow
        import pyarrow.parquet
    except ImportError as error:
        raise ConfigError("Parquet files need pyarrow: pip install 'streamrank[parquet]'") from error
    return pyarrow


@contextmanager
def opened(path: Path) -> Iterator[Any]:
    """The file as a `pyarrow.parquet.ParquetFile`."""
    pyarrow = _pyarrow()
    try:
        with pyarrow.parquet.ParquetFile(path) as file:
            yield file
    except (pyarrow.ArrowException, OSError) as error:
        raise SourceError(f"{path}: cannot be read as Parquet ({error}). Copy the file again.") from error


def recognise(path: Path) -> Layout:
    """What the file holds; raises `SourceError` with its columns when they say nothing we know."""
    with opened(path) as file:
        types = dict(zip(file.schema_arrow.names, file.schema_arrow.types, strict=True))
        names = list(types)
        event = column(names, EVENT)
        if event is not None and not _holds_events(file, event, types[event]):
            event = None
    group, label, user, item = (column(names, known) for known in (GROUP, LABEL, USER, ITEM))
    rating, time = column(names, RATING), column(names, TIME)
    features = [n for n in names if n not in (group, label, user, item, time) and _is_number(types[n])]
    if event is not None:
        kind = EVENTS
    elif group is not None and label is not None and features:
        kind = LISTS
    elif user is not None and item is not None:
        kind = INTERACTIONS
    else:
        raise SourceError(
            f"{path}: cannot tell what its columns are: {', '.join(names)}. Accepted: events in a column "
            f"{'/'.join(EVENT)}; judged lists with a group ({'/'.join(GROUP)}), a label "
            f"({'/'.join(LABEL)}) and numeric features; interactions with a user ({'/'.join(USER)}) and "
            f"an item ({'/'.join(ITEM)}). Rename the columns that are meant."
        )
    return Layout(kind, event, group, label, user, item, rating, time, features)


def _is_number(of: Any) -> bool:
    known = _pyarrow().types
    return bool(known.is_integer(of) or known.is_floating(of) or known.is_boolean(of) or known.is_decimal(of))


def _holds_events(file: Any, name: str, of: Any) -> bool:
    """Is a column called `event` more than a word such as "view"?"""
    known = _pyarrow().types
    if known.is_binary(of) or known.is_large_binary(of):
        return True
    if not (known.is_string(of) or known.is_large_string(of)):
        return False
    batch = next(file.iter_batches(batch_size=64, columns=[name]), None)
    first = next((text for text in batch.column(0).to_pylist() if text), "{") if batch is not None else "{"
    return first.lstrip().startswith(("{", "["))
