"""What the commands share: JSON lines, tables, progress, opening stores and settings."""

import math
import os
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, cast

import msgspec
from rich.console import Console
from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeRemainingColumn
from rich.table import Table

from ..config import Settings, load_settings
from ..errors import ConfigError, StoreError
from ..sources import Source
from ..state import Store, open_store
from ..state.urls import shown
from ..state.values import decode

EVERY_SECONDS = 5.0  # between progress lines where there is no terminal


def say(text: str = "") -> None:
    """A line for people, on standard error: standard output is for results."""
    print(text, file=sys.stderr, flush=True)


def print_json(result: Mapping[str, Any]) -> None:
    """The result as one line."""
    print(msgspec.json.encode(result).decode(), flush=True)


def print_table(title: str, columns: Sequence[str], rows: Sequence[Sequence[object]]) -> None:
    """A table for people, on standard output."""
    table = Table(title=title, title_justify="left", show_edge=False)
    for column in columns:
        table.add_column(column, overflow="fold")
    for row in rows:
        table.add_row(*(_text(cell) for cell in row))
    # nothing is wrapped in a pipe: a digest broken over two lines cannot be copied
    Console(width=None if sys.stdout.isatty() else 500).print(table)


def _text(cell: object) -> str:
    if isinstance(cell, float):
        return "-" if math.isnan(cell) else f"{cell:.4f}"
    return str(cell)


@contextmanager
def progress(source: Source | Callable[[], tuple[int, int]], what: str) -> Iterator[Any]:
    """A bar on a terminal, a plain line now and then elsewhere; yields `update(text)`.

    What is done, and of how much, is asked of the source, or of a function of that kind.
    """
    where = source if callable(source) else source.progress
    if sys.stderr.isatty():
        bar = Progress(
            TextColumn("{task.description}"),
            BarColumn(),
            TaskProgressColumn(),
            TextColumn("{task.fields[note]}"),
            TimeRemainingColumn(),
            console=Console(stderr=True),
        )
        with bar:
            task = bar.add_task(what, total=None, note="")

            def update(note: str) -> None:
                done, total = where()
                bar.update(task, completed=done, total=total or None, note=note)

            yield update
    else:
        last = time.monotonic()

        def update(note: str) -> None:
            nonlocal last
            if time.monotonic() - last >= EVERY_SECONDS:
                last = time.monotonic()
                done, total = where()
                say(f"{what}: {100 * done / total:.0f} %  {note}" if total else f"{what}: {note}")

        yield update


def check_writable(path: str, what: str) -> None:
    """Refuse a file that could not be written in the end, before the work begins."""
    folder = Path(path).absolute().parent
    if not folder.is_dir():
        why = "there is no such folder"
    elif Path(path).is_dir():
        why = "it is a folder"
    elif not os.access(path if Path(path).exists() else folder, os.W_OK):
        why = "no permission to write there"
    else:
        return
    raise ConfigError(f"cannot write the {what} {path}: {why}")


def existing_store(url: str | None) -> Store:
    """A store to read: an error if there is nothing there, instead of a new empty file."""
    settings = load_settings()
    url = url or settings.store
    path = url.removeprefix("sqlite:///")
    if path != url and not Path(path).exists():
        raise StoreError(f"there is no store at {url}. `streamrank replay LOG --store {url}` makes one.")
    store = open_store(url, settings)
    if not store.shards():
        store.close()
        raise StoreError(f"the store {shown(url)} is empty: nothing was learnt into it yet")
    return store


def settings_of(store: Store, shard: str, config: str | None) -> Settings:
    """The settings named, else those the store was learnt under, else the defaults; then the environment."""
    stored = store.get(shard, "config")
    base = None if stored is None else cast(dict[str, Any], decode(stored))
    return load_settings(config, base=base)
