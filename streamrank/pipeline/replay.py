"""A log through the flow: the same code as live, as fast as it goes."""

import gc
import signal
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
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
    On Ctrl-C or SIGTERM it stops between two records, commits, and raises KeyboardInterrupt. After any other
    error nothing is committed: memory is void, the store is the truth.
    """
    flow = checkpoint.flow
    began = time.perf_counter()
    # open rankings live long: to look through them for garbage every 700 objects takes a tenth of the time
    thresholds = gc.get_threshold()
    gc.set_threshold(50_000, *thresholds[1:])
    try:
        with stop_signals() as stopped:
            if until is None or flow.counts["events"] < until:
                for record in records:
                    flow.step(record)
                    checkpoint.maybe_commit()
                    watch()
                    if stopped() or (until is not None and flow.counts["events"] >= until):
                        break
            checkpoint.commit()
            if stopped():
                raise KeyboardInterrupt
    finally:
        gc.set_threshold(*thresholds)
    return time.perf_counter() - began


@contextmanager
def stop_signals() -> Iterator[Callable[[], bool]]:
    """Note SIGINT and SIGTERM instead of breaking off in the middle of an event; yields whether one came.

    A second Ctrl-C does break off: the first may have to wait for a store that does not answer. Where signals
    cannot be caught (outside the main thread) they are left as they are.
    """
    came: list[int] = []
    if threading.current_thread() is not threading.main_thread():
        yield lambda: False
        return

    def note(number: int, _: object) -> None:
        again = number == signal.SIGINT and number in came
        came.append(number)
        if again:
            raise KeyboardInterrupt

    handlers = {number: signal.signal(number, note) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield lambda: bool(came)
    finally:
        for number, handler in handlers.items():
            signal.signal(number, handler)


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
        "pending": flow.join.n_pending,
        "features_dropped": flow.features.dropped,
        "models": {
            model.name: {**model.history.totals(), "refused": model.learner.refused} for model in flow.models
        },
        "clicks": counts["clicks"],
        "recommenders": {one.name: one.history.totals() for one in flow.recommenders},
        "offset": flow.offset,
        "digest": digest(store),
    }
