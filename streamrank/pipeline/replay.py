"""A log through the flow: the same code as live, as fast as it goes."""

import gc
import time
from collections.abc import Callable, Iterable
from typing import Any

from ..events.types import Record
from ..state.base import Store
from ..state.digest import digest
from .checkpoint import Checkpoint
from .flow import KINDS, Flow


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
    # open rankings live long: to look through them for garbage every 700 objects takes a tenth of the time
    thresholds = gc.get_threshold()
    gc.set_threshold(50_000, *thresholds[1:])
    try:
        if until is None or flow.counts["events"] < until:
            for record in records:
                flow.step(record)
                checkpoint.maybe_commit()
                watch()
                if until is not None and flow.counts["events"] >= until:
                    break
    finally:
        gc.set_threshold(*thresholds)
        checkpoint.commit()
    return time.perf_counter() - began


def summary(flow: Flow, store: Store) -> dict[str, Any]:
    """What a run came to: events by fate and kind, models by quality, and the digest of the state."""
    counts = flow.counts
    return {
        "events": counts["events"],
        "accepted": flow.accepted,
        "rejected": counts["rejected"],
        "duplicates": counts["duplicates"],
        "late": counts["late"],
        **{plural: counts[kind] for kind, plural in KINDS.items()},
        "judged": counts["judged"],
        "unmatched": flow.join.unmatched,
        "open": len(flow.join),
        "features_dropped": flow.features.dropped,
        "models": {model.name: model.history.totals() for model in flow.models},
        "offset": flow.offset,
        "digest": digest(store),
    }
