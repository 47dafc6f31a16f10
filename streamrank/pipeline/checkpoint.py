"""When and in what order a flow's changes are stored."""

import time
from collections.abc import Callable, Sequence

from ..errors import SourceError
from ..state.base import Store
from .flow import Flow
from .memory import changes, check_config, restore


class Checkpoint:
    """Owns a shard of the store and commits a flow's changes to it.

    Opening: (1) acquire the shard, which fences off any earlier owner; (2) load its state into the flow: the
    store, not the source, says where to go on. Committing: (3) learn what is judged; (4) collect what
    changed; (5) write it with the offset and the dead letters in one transaction. After an error in (5)
    memory is void: open again.
    """

    def __init__(
        self,
        store: Store,
        flow: Flow,
        *,
        shard: str = "0",
        adopt_config: bool = False,
        now: Callable[[], float] = time.monotonic,
    ) -> None:
        self.store, self.flow, self.shard = store, flow, shard
        self._now = now
        self.seconds = 0.0  # spent committing
        self._seconds = flow.settings.commit_ms / 1000
        self.epoch = store.acquire(shard)  # (1)
        entries, self._start = store.read(shard)
        if not adopt_config:
            check_config(flow, entries)
        restore(flow, entries, self._start)  # (2)
        self._events = flow.counts["events"]
        self._time = now()

    def adopt_source(self, fingerprint: str) -> None:
        """Remember which log this is; refuse one that is not the log the state was learnt from."""
        if self.flow.source and fingerprint and fingerprint != self.flow.source:
            raise SourceError(
                "this store was learnt from a log that begins otherwise, so its offset means nothing here. "
                "Give the same files in the same order (more may follow), or use a new --store."
            )
        self.flow.source = self.flow.source or fingerprint

    def maybe_commit(self) -> bool:
        """Commit if enough events or time have passed."""
        flow = self.flow
        enough = flow.counts["events"] - self._events >= flow.settings.commit_every
        if not enough and (flow.offset == self._start or self._now() - self._time < self._seconds):
            return False
        self.commit()
        return True

    def commit(self, *, settled: Sequence[tuple[int, int]] = ()) -> None:
        """Store all changes since the last commit, at once."""
        flow = self.flow
        if flow.offset == self._start and not settled and flow.counts["events"] == self._events:
            return
        flow.learn()  # (3)
        began = self._now()
        writes = changes(flow)  # (4)
        self.store.commit(
            self.shard,
            self.epoch,
            writes,
            start=self._start,
            end=flow.offset,
            letters=flow.letters,
            settled=settled,
        )  # (5)
        flow.letters = []
        self._start, self._events, self._time = flow.offset, flow.counts["events"], self._now()
        self.seconds += self._time - began
