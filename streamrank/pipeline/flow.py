"""The flow, whole: what happens to a record of one shard, from its bytes to the learnt state."""

from collections import Counter
from collections.abc import Sequence

from ..config import Settings
from ..errors import MalformedEvent
from ..events.clock import EventClock
from ..events.codec import Decoder
from ..events.types import (
    Event,
    Example,
    Interaction,
    ItemMetadata,
    PackedRanking,
    Preference,
    Ranking,
    Record,
    UserMetadata,
)
from ..features.batch import BY_LABEL, EXAMPLE, BatchBuilder, sparse_rows
from ..features.space import FeatureSpace
from ..preferences.dedup import SeenIds
from ..preferences.join import Join, Shown
from ..preferences.judge import Judge
from ..state.base import DeadLetter
from .model import Model, Trial

MICRO_BATCH = 256  # lists learnt together; the result does not depend on it


class Flow:
    """One shard: everything that a partition's records change, and nothing else.

    The result is a function of the records in their order. It does not depend on how they arrived, on the
    wall clock, or on when commits fell.
    """

    def __init__(self, settings: Settings) -> None:
        join = settings.join
        self.settings = settings
        self.decoder = Decoder(max_bytes=settings.events.max_bytes, max_items=settings.events.max_items)
        self.clock = EventClock(lateness_ms=join.lateness_ms)
        self.seen = SeenIds(join.dedup_ms, join.max_ids)
        self.join = Join(join, settings.judge.grades)
        self.judge = Judge(settings.judge)
        self.features = FeatureSpace(settings.features)
        self.models = [Model(model) for model in settings.models]
        self.counts: Counter[str] = Counter()
        self.offset = 0
        self.source = ""  # fingerprint of the log, once known
        self.letters: list[DeadLetter] = []  # since the last commit
        self._builder = BatchBuilder()
        self._trials: list[Trial] = []

    def step(self, record: Record) -> None:
        """One record through the house."""
        for part, event in enumerate(self.decoder.decode(record.value)):  # enters
            self.counts["events"] += 1
            if isinstance(event, MalformedEvent):
                self._refuse(record, part, event)
            else:
                self._enter(event)
        self.offset = record.offset + 1  # is stored by the next commit
        if len(self._builder) >= MICRO_BATCH:
            self.learn()

    def learn(self) -> None:
        """Each model scores what was judged, then learns it."""
        if len(self._builder):
            batch, trials = self._builder.build(), self._trials
            self._builder, self._trials = BatchBuilder(), []
            for model in self.models:
                model.learn(batch, trials)

    def redeliver(self, letter: DeadLetter) -> bool:
        """Try a dead letter again; False if it still cannot become an event. The offset stays."""
        events = self.decoder.decode(letter.value)
        event = events[letter.part] if letter.part < len(events) else events[0]
        if isinstance(event, MalformedEvent):
            return False
        self.counts["rejected"] -= 1
        self._enter(event)
        return True

    # -- an event enters -----------------------------------------------------------------------------------

    def _enter(self, event: Event) -> None:
        if self._admit(event):
            for shown in self.join.due(self.clock.now):  # becomes preferences
                self._judge(shown)

    def _admit(self, event: Event) -> bool:
        kind = event.kind
        key = f"{kind} {event.id}"
        if event.id and key in self.seen:
            self.counts["duplicates"] += 1
            return False
        if not self._take(event):
            self.counts["late"] += 1
            return False
        if event.id:
            self.seen.add(key, event.time_ms)
        self.counts["accepted"] += 1
        self.counts[PLURALS[kind]] += 1
        return True

    def _take(self, event: Event) -> bool:
        """Let an event do what it does; False when it comes too late to do it."""
        if isinstance(event, Interaction):
            if self.clock.is_late(event.time_ms):
                return False
            self.clock.observe(event.time_ms)
            if not self.join.click(event, self.clock.now):
                return False
            self.features.clicked(event)
        elif isinstance(event, Ranking | PackedRanking):
            if self.clock.is_late(event.time_ms):
                return False
            self.clock.observe(event.time_ms)
            self.join.expire(self.clock.watermark)
            self.seen.expire(self.clock.watermark)
            self._show(event)
        elif isinstance(event, ItemMetadata):
            self.features.describe(event)
        elif isinstance(event, Preference):
            rows = sparse_rows([self.features.row(event.better), self.features.row(event.worse)])
            shown = Shown(-1, event.id, event.time_ms, ["better", "worse"], rows, event.query)
            self._add(shown, [1.0, 0.0], [event.weight] * 2, BY_LABEL, measures=False)
        elif isinstance(event, Example):
            shown = Shown(
                -1, event.id, event.time_ms, [event.item], sparse_rows([self.features.row(event.x)])
            )
            shown.query = event.query
            self._add(shown, [event.y], [1.0], EXAMPLE, measures=False)
        else:
            assert isinstance(event, UserMetadata)  # a user's fields are the same for every item of a list
        return True

    def _refuse(self, record: Record, part: int, error: MalformedEvent) -> None:
        self.counts["rejected"] += 1
        self.letters.append(
            DeadLetter(record.offset, part, record.place, error.kind, str(error), record.value)
        )

    # -- becomes preferences -------------------------------------------------------------------------------

    def _show(self, event: Ranking | PackedRanking) -> None:
        rows = self.features.rows(event)
        labels = judged_labels(event)
        if labels is None:
            self.judge.shown(self.join.show(event, rows, self.clock.now))
        else:
            items = [str(place) for place in range(rows.n)]
            shown = Shown(-1, event.id, event.time_ms, items, rows, event.query or "")
            self._add(shown, labels, [1.0] * len(labels), BY_LABEL)

    def _judge(self, shown: Shown) -> None:
        before = shown.labels_before()
        judgement = self.judge.judge(shown, shown.pending)
        self.join.judged(shown)
        self._add(shown, *judgement, before=before)

    def _add(
        self,
        shown: Shown,
        y: list[float],
        c: list[float],
        mode: int,
        pairs: Sequence[tuple[int, int, float]] = (),
        *,
        before: list[float] | None = None,
        measures: bool = True,
    ) -> None:
        if shown.index < 0:
            shown.index = self.counts["judged"]
            self.counts["judged"] += 1
        self._builder.add(shown.rows, y, c, mode, pairs, shown.query)
        self._trials.append(Trial(shown, before or [0.0] * len(y), measures))


PLURALS = {
    "ranking": "rankings",
    "interaction": "interactions",
    "item": "items",
    "user": "users",
    "preference": "preferences",
    "example": "examples",
}


def judged_labels(event: Ranking | PackedRanking) -> list[float] | None:
    """Labels that came with the ranking, 0 for items without one; None when there are none at all."""
    if isinstance(event, PackedRanking):
        return event.labels
    if all(item.label is None for item in event.items):
        return None
    return [item.label or 0.0 for item in event.items]
