"""The archive: all that a shard learnt, in Parquet files written before the commit that covers them.

A folder a shard, of lists, a row an item; where there are recommenders, in it the folder ``_clicks``, a row a
click. What lies past what is committed was not learnt yet, and readers leave it out: so a crash between a
file and its commit costs nothing.
"""

from collections.abc import Iterator
from pathlib import Path
from urllib.parse import quote

from ..config import ArchiveSettings
from .clicks import Clicks
from .flow import Flow
from .learnt import Learnt, recording
from .memory import model_entries
from .shelf import Shelf, read_rows
from .tables import CLICKS_SCHEMA, SCHEMA, clicks_from, clicks_table, from_table, to_table

LIST, CLICK = "list", "click"  # the columns that count them


class Archive:
    """Writes what one shard learns, as its owner.

    Examples
    --------
    >>> import tempfile
    >>> from streamrank.config import Settings
    >>> from streamrank.events.types import Record
    >>> flow, folder = Flow(Settings()), tempfile.mkdtemp()
    >>> archive = Archive(ArchiveSettings(folder=folder), "0", 1, flow)
    >>> flow.step(Record(0, b'{"event": "preference", "better": {"price": 1}, "worse": {"price": 2}}'))
    >>> flow.learn(); archive.write()
    >>> [lists.batch.y.tolist() for lists in read_lists(folder, "0", flow.counts["learnt"])]
    [[1.0, 0.0]]
    """

    def __init__(self, settings: ArchiveSettings, shard: str, epoch: int, flow: Flow) -> None:
        self._shard, self._flow = shard, flow
        self._pending: list[Learnt] = []
        self._clicks: list[Clicks] = []
        flow.recorder = recording(flow.counts, self._pending.append)
        self._shelf = Shelf(shard_folder(settings.folder, shard), SCHEMA, LIST, settings, epoch)
        self._click_shelf = None
        if flow.recommenders:
            flow.click_recorder = self._clicks.append
            folder = clicks_folder(settings.folder, shard)
            self._click_shelf = Shelf(folder, CLICKS_SCHEMA, CLICK, settings, epoch)

    def write(self) -> None:
        """What was learnt since the last call, on disk when this returns."""
        flow, lists, clicks = self._flow, self._pending, self._clicks
        if lists:
            tables = [to_table(learnt, self._shard) for learnt in lists]
            span = lists[0].first, lists[-1].end, flow.offset
            self._shelf.write(tables, *span, lambda: model_entries(flow.models))
            lists.clear()
        if self._click_shelf is not None and clicks:
            tables = [clicks_table(some, self._shard) for some in clicks]
            span = clicks[0].first, clicks[-1].end, flow.offset
            self._click_shelf.write(tables, *span, lambda: model_entries(flow.recommenders))
            clicks.clear()

    def tidy(self) -> None:
        """After a commit: merge small files, drop what is too old or too much."""
        self._shelf.tidy(self._flow.counts["learnt"])
        if self._click_shelf is not None:
            self._click_shelf.tidy(self._flow.counts["clicks"])


def shard_folder(folder: str | Path, shard: str) -> Path:
    """Where the files of a shard are."""
    return Path(folder) / quote(shard, safe="")


def clicks_folder(folder: str | Path, shard: str) -> Path:
    """Where those of its clicks are; underlined, so that who reads the lists passes it over."""
    return shard_folder(folder, shard) / "_clicks"


def read_lists(folder: str | Path, shard: str, end: int, *, keys: bool = False) -> Iterator[Learnt]:
    """The lists that a shard learnt, up to number `end`, from the first that is still there.

    `keys` gives each row its `item_key`, for learners that want them.
    """
    for part, table in read_rows(shard_folder(folder, shard), end, LIST):
        yield from_table(table, part.first, part.end, keys=keys)


def read_clicks(folder: str | Path, shard: str, end: int, start: int = -1) -> Iterator[Clicks]:
    """The clicks that a shard learnt, up to number `end`, from `start` or the first that is still there."""
    for part, table in read_rows(clicks_folder(folder, shard), end, CLICK, start):
        yield clicks_from(table, part.first)
