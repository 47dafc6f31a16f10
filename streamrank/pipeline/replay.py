"""A log through the flow: the same code as live, as fast as it goes."""

import time
from collections.abc import Callable, Iterable
from typing import Any

from ..events.types import Record
from ..state.base import Store
from ..state.digest import digest
from .checkpoint import Checkpoint
from .flow import Flow

KINDS = ("rankings", "interactions", "items", "users", "preferences", "examples")


def replay(
    records: Iterable[Record],
    checkpoint: Checkpoint,
    *,
    until: int | None = None,
    watch: Callable[[], None] = lambda: None,
) -> float:
    """Take every record, committing on the way and at the end; returns the seconds it took.

    Stops once `until` events were taken since the beginning of the log. `watch` is called after every record.
    On Ctrl-C what was taken is committed before the interrupt goes on.
    """
    flow = checkpoint.flow
    began = time.perf_counter()
    try:
        if until is None or flow.counts["events"] < until:
            for record in records:
                flow.step(record)
                checkpoint.maybe_commit()
                watch()
                if until is not None and flow.counts["events"] >= until:
                    break
    finally:
        checkpoint.commit()
    return time.perf_counter() - began


def summary(flow: Flow, store: Store) -> dict[str, Any]:
    """What a run came to: events by fate and kind, models by quality, and the digest of the state."""
    counts = flow.counts
    return {
        "events": counts["events"],
        "accepted": counts["accepted"],
        "rejected": counts["rejected"],
        "duplicates": counts["duplicates"],
        "late": counts["late"],
        **{kind: counts[kind] for kind in KINDS},
        "judged": counts["judged"],
        "unmatched": flow.join.unmatched,
        "open": len(flow.join),
        "features_dropped": flow.features.dropped,
        "models": {model.name: model.history.totals() for model in flow.models},
        "offset": flow.offset,
        "digest": digest(store),
    }
