"""When and in what order a flow's changes are stored."""

import math
import time
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from ..errors import ConfigError
from ..state.base import DeadLetter, Store
from .flow import Flow
from .inventory import Budget
from .memory import changes, check_config, check_source, restore
from .schedule import Schedule

if TYPE_CHECKING:
    from .archive import Archive

SWAP = "swap"  # owns a shard for a moment, to change its weights
PATIENCE_S = 2.0


class Checkpoint:
    """Owns a shard of the store and commits a flow's changes to it.

    Opening: (1) check that settings and source are those of the stored state; (2) acquire the shard, which
    fences off any earlier owner (one that swaps weights just now is let finish); (3) load its state into the
    flow: the store, not the source, says where to go on. Committing: (4) learn what is judged; (5) collect
    what changed; (6) write the lists learnt to the archive, if there is one; (7) write what changed with the
    offset and the dead letters in one transaction (`post` takes letters elsewhere, before it); (8) take a
    snapshot of the store, if one is due. After an error in (4) to (7) memory is void: open again.
    """

    def __init__(
        self,
        store: Store,
        flow: Flow,
        *,
        shard: str = "0",
        source: str = "",
        adopt_config: bool = False,
        generation: int = 0,
        owner: str = "",
        post: Callable[[Sequence[DeadLetter]], None] | None = None,
        check: Callable[[], None] = lambda: None,
        now: Callable[[], float] = time.monotonic,
    ) -> None:
        self.store, self.flow, self.shard = store, flow, shard
        self._now = now
        self._post, self._check = post, check
        self.seconds = 0.0  # spent committing
        self._seconds = flow.settings.commit_ms / 1000
        entries, _ = store.read(shard)
        if not adopt_config:
            check_config(flow, entries)
        check_source(source, entries)  # (1)
        _make_way(store, shard)
        self.epoch = store.acquire(shard, generation=generation, owner=owner)  # (2)
        entries, self._start = store.read(shard)
        restore(flow, entries, self._start)  # (3)
        limit = flow.settings.max_state_mb
        self._budget = Budget(shard, limit, entries) if limit else None
        self._archive = _archive(flow, shard, self.epoch)
        self._schedule = Schedule(store, flow.settings.snapshots)
        flow.source = flow.source or source
        self._events = flow.counts["events"]
        self._time = now()
        self._touched = adopt_config

    def maybe_commit(self) -> bool:
        """Commit if enough events or time have passed."""
        flow = self.flow
        enough = flow.counts["events"] - self._events >= flow.settings.commit_every
        if not enough and self.due_s() > 0:
            return False
        self.commit()
        return True

    def due_s(self) -> float:
        """Seconds until what changed is to be committed; infinite when nothing did."""
        if self._touched:
            return 0.0
        if self.flow.offset == self._start:
            return math.inf
        return max(self._seconds - (self._now() - self._time), 0.0)

    def touch(self) -> None:
        """Something else than a record changed the flow: it is to be committed at once."""
        self._touched = True

    @property
    def room(self) -> float:
        """Bytes by which the shard may still grow by what it takes in of others."""
        return self._budget.room if self._budget else math.inf

    def commit(self, *, settled: Sequence[tuple[int, int]] = ()) -> None:
        """Store all changes since the last commit, at once."""
        flow = self.flow
        idle = flow.offset == self._start and flow.counts["events"] == self._events
        if idle and not settled and not self._touched:
            return
        self._check()
        flow.learn()  # (4)
        began = self._now()
        writes = changes(flow)  # (5)
        if self._budget:
            self._budget.check(writes)
        if self._archive:
            self._archive.write()  # (6)
        if self._post and flow.letters:  # before the offset goes past them: twice at most, never not at all
            self._post(flow.letters)
            flow.letters = []
        self.store.commit(
            self.shard,
            self.epoch,
            writes,
            start=self._start,
            end=flow.offset,
            letters=flow.letters,
            settled=settled,
        )  # (7)
        flow.letters, self._touched = [], False
        self._start, self._events, self._time = flow.offset, flow.counts["events"], self._now()
        self.seconds += self._time - began
        if self._archive:
            self._archive.tidy()
        self._schedule.maybe_take()  # (8)


def _archive(flow: Flow, shard: str, epoch: int) -> "Archive | None":
    if not flow.settings.archive.folder:
        return None
    try:
        from .archive import Archive  # the extra `parquet`
    except ModuleNotFoundError as error:
        raise ConfigError(f"the archive needs {error.name}: pip install 'streamrank[parquet]'") from None
    return Archive(flow.settings.archive, shard, epoch, flow)


def _make_way(store: Store, shard: str) -> None:
    """Wait until the weights are swapped; not for ever, as who swaps them may have died."""
    deadline = time.monotonic() + PATIENCE_S
    while store.standing(shard).owner == SWAP and time.monotonic() < deadline:
        time.sleep(0.005)
