"""The drift over time: a line for each reconciliation and each roll-back, in a file beside the archive."""

import os
import time
from pathlib import Path
from typing import Any, cast

import msgspec

from ..config import Settings
from ..state.base import Store
from ..state.values import decode

KEPT = 1000  # lines; the older half goes when there are more
SHOWN = ("model", "offset", "drift", "chosen", "swapped", "lambda", "seconds")


def drift_history(settings: Settings) -> list[dict[str, Any]]:
    """What was noted, oldest first; nothing without an archive.

    Of a reconciliation: time, model, offset (of all shards together), drift, chosen, swapped, lambda,
    seconds, events (learnt by then); or time, model, events, error. Of a roll-back: time, model, rolled_back
    (which swap), ndcg_before, ndcg_after.
    """
    path = _path(settings)
    try:
        lines = path.read_bytes().splitlines() if path else []
    except FileNotFoundError:
        return []
    return [msgspec.json.decode(line) for line in lines if line.endswith(b"}")]  # one may be torn


def note_drift(settings: Settings, **entry: Any) -> None:
    """Add a line, dated now."""
    path = _path(settings)
    if path is None:
        return
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("ab") as file:  # one write: lines of several processes do not mix
        file.write(msgspec.json.encode({"time": time.time(), **entry}) + b"\n")
    lines = path.read_bytes().splitlines(keepends=True)
    if len(lines) > KEPT:
        aside = path.with_suffix(f".{os.getpid()}.aside")
        aside.write_bytes(b"".join(lines[-KEPT // 2 :]))
        aside.replace(path)


def n_events(store: Store) -> int:
    """Events that all shards have taken."""
    counts = (store.get(shard, "counts") for shard in store.shards())
    return sum(cast(dict[str, int], decode(one))["events"] for one in counts if one is not None)


def _path(settings: Settings) -> Path | None:
    return Path(settings.archive.folder) / "_drift.jsonl" if settings.archive.folder else None
