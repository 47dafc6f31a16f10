"""The flow, whole: what happens to a record of one shard, from its bytes to the learnt state."""

from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ..config import Settings
from ..errors import MalformedEvent
from ..events.clock import EventClock
from ..events.codec import Decoder
from ..events.types import (
    Event,
    Example,
    Field,
    Interaction,
    ItemMetadata,
    PackedLists,
    PackedRanking,
    Preference,
    Ranking,
    Record,
    UserMetadata,
)
from ..features.batch import BY_LABEL, EXAMPLE, NO_ITEMS, Batch, BatchBuilder, Rows, item_keys
from ..features.space import FeatureSpace
from ..preferences.contest import Contests
from ..preferences.dedup import SeenIds
from ..preferences.join import Join, Shown
from ..preferences.judge import Judge
from ..preferences.shown import items_of
from ..state.base import DeadLetter
from .clicks import Clicks
from .model import Model, Trials
from .recommender import Recommender

KINDS = {
    "ranking": "rankings",
    "lists": "lists",
    "interaction": "interactions",
    "item": "items",
    "user": "users",
    "preference": "preferences",
    "example": "examples",
}
MAX_LETTER_BYTES = 1 << 16  # of a dead letter are kept
MICRO_BATCH = 256  # lists learnt together; the result does not depend on it


class Flow:
    """One shard: everything that a partition's records change, and nothing else.

    The result is a function of the records in their order. It does not depend on how they arrived, on the
    wall clock, or on when commits fell; unless its recommenders take in what other shards learnt (`pool.py`).
    """

    def __init__(self, settings: Settings) -> None:
        join = settings.join
        self.settings = settings
        self.decoder = Decoder(max_bytes=settings.events.max_bytes, max_items=settings.events.max_items)
        self.clock = EventClock(lateness_ms=join.lateness_ms)
        self.seen = SeenIds(join.dedup_ms, join.max_ids)
        self.join = Join(join, settings.judge.grades)
        self.judge = Judge(settings.judge)
        self.contests = Contests(model.name for model in settings.models)
        self.features = FeatureSpace(settings.features)
        self.models = [Model(model) for model in settings.models]
        self.recommenders = [Recommender(recommender) for recommender in settings.recommenders]
        self.counts: Counter[str] = (
            Counter()
        )  # events, by kind where accepted, by fate where not; judged lists
        self.offset = 0
        self.source = ""  # hash of the first record of the log, once known
        self.last = ""  # and of the last one committed
        self.last_value: bytes | None = None
        self.letters: list[DeadLetter] = []  # since the last commit
        self.recorder: Callable[[Batch, Trials], None] | None = None  # is shown what the models learn
        self.click_recorder: Callable[[Clicks], None] | None = None  # and what the recommenders do
        self.wants_clicks = bool(self.recommenders)
        self._wants_items = any(model.learner.wants_items for model in self.models)
        self._at = -1  # the offset of the record in hand
        self._builder = BatchBuilder()
        self._trials = Trials()
        self._clicks: list[tuple[str, str, float, int]] = []  # user, item, grade, offset: for recommenders
        # each lets an event of its kind do what it does; False: it came too late to do it
        self._take: dict[type, Callable[[Any], bool]] = {
            Ranking: self._take_ranking,
            PackedRanking: self._take_ranking,
            PackedLists: self._take_lists,
            Interaction: self._take_interaction,
            ItemMetadata: self._take_item,
            UserMetadata: self._take_user,
            Preference: self._take_preference,
            Example: self._take_example,
        }

    def step(self, record: Record) -> None:
        """One record through the house."""
        self._at = record.offset
        events = self.decoder.decode(record.value)
        for part, event in enumerate(events):  # enters
            self.counts["events"] += 1
            if isinstance(event, MalformedEvent):
                self._refuse(record, part, event, len(events) > 1)
            else:
                self._enter(event)
        self.offset, self.last_value = record.offset + 1, record.value  # is stored by the next commit
        if len(self._builder) >= MICRO_BATCH or len(self._clicks) >= MICRO_BATCH:
            self.learn()

    def skip(self, offset: int) -> None:
        """Go past a record without a value (a tombstone): a key is gone, there is nothing to learn."""
        self.counts["tombstones"] += 1
        self.offset, self.last_value = offset + 1, b""

    def learn(self) -> None:
        """Each model scores what was judged, then learns it; each recommender what was clicked."""
        if len(self._builder):
            batch, trials = self._builder.build(), self._trials
            self._builder, self._trials = BatchBuilder(), Trials()
            if self.recorder is not None:
                self.recorder(batch, trials)
            self.counts["learnt"] += batch.n_lists
            for model in self.models:
                model.learn(batch, trials)
        self._learn_clicks()

    def _learn_clicks(self) -> None:
        if self._clicks:
            users, items, weights, offset = (list(column) for column in zip(*self._clicks, strict=True))
            self._clicks = []
            if self.click_recorder is not None:
                taken = np.array(weights), np.array(offset, np.int64)
                self.click_recorder(Clicks(users, items, *taken, self.counts["clicks"]))
            for recommender in self.recommenders:
                recommender.learn(users, items, weights, self.counts["clicks"])
            self.counts["clicks"] += len(users)

    @property
    def accepted(self) -> int:
        """Events that were neither refused, nor seen before, nor late."""
        return sum(self.counts[kind] for kind in KINDS)

    def redeliver(self, letter: DeadLetter) -> str:
        """Try a dead letter again: "learnt", "duplicate", "late", or why it still cannot become events.

        All events of it are taken, or none. The offset stays.
        """
        events = self.decoder.decode(letter.value)
        for event in events:
            if isinstance(event, MalformedEvent):
                return str(event)
        before = self.counts.copy()
        self._at = self.offset - 1  # learnt now, not when it came
        self.counts["rejected"] -= 1
        self.counts["events"] += len(events) - 1
        for event in events:
            assert not isinstance(event, MalformedEvent)
            self._enter(event)
        fates = ("duplicates", "late")
        passed = [fate for fate in fates if self.counts[fate] - before[fate] == len(events)]
        return passed[0].removesuffix("s") if passed else "learnt"

    # -- an event enters -----------------------------------------------------------------------------------

    def _enter(self, event: Event) -> None:
        """Once only, and not too late."""
        key = f"{event.kind} {event.id}"
        if key in self.seen:
            self.counts["duplicates"] += 1
        elif not self._take[type(event)](event):
            self.counts["late"] += 1
        else:
            if event.id:
                # by the clock, not by its own time: it may be dated wrongly, or not at all
                self.seen.add(key, self.clock.now or event.time_ms)
            self.counts[event.kind] += 1
            for shown in self.join.due(self.clock.now):  # becomes preferences
                self._judge(shown)

    def _take_ranking(self, event: Ranking | PackedRanking) -> bool:
        if self.clock.is_late(event.time_ms):
            return False
        self.clock.observe(event.time_ms)
        self.join.expire(self.clock.watermark)
        self.seen.expire(self.clock.watermark)
        rows, labels = self.features.rows(event, now=self.clock.now), judged_labels(event)
        if labels is None:
            shown = self.join.show(event, rows, self.clock.now)
            self.judge.shown(shown)
            self.contests.shown(shown)
        else:
            self._judged(rows, labels, [1.0] * rows.n, BY_LABEL, event.query or "", items_of(event))
        return True

    def _take_interaction(self, event: Interaction) -> bool:
        if self.clock.is_late(event.time_ms):
            return False
        self.clock.observe(event.time_ms)
        self.seen.expire(self.clock.watermark)
        user = self.join.user_of(event) if self.wants_clicks else ""
        if not self.join.click(event, self.clock.now):
            return False
        if user:
            self._clicks.append((user, event.item, self.join.grade(event), self._at))
        return True

    def _take_item(self, event: ItemMetadata) -> bool:
        # dated ahead of the clock, it would keep every later description of the item out
        self.features.describe(event, min(event.time_ms, self.clock.now or event.time_ms))
        self._describe("items", event.item, event.fields)
        return True

    def _take_user(self, event: UserMetadata) -> bool:
        # to the models a user's fields say nothing: they are the same for all items of a list
        self._describe("users", event.user, event.fields)
        return True

    def _describe(self, table: str, key: str, told: list[Field]) -> None:
        """Let the recommenders know, after the clicks that came before it: these may evict what it is of."""
        fields = {field.name: field.value for field in told}
        for recommender in self.recommenders:
            if not fields.keys().isdisjoint(recommender.learner.fields or []):
                self._learn_clicks()
                recommender.learner.describe(table, key, fields)

    def _take_lists(self, event: PackedLists) -> bool:
        rows, sizes, labels = self.features.block(event)
        self._builder.add_block(rows, sizes, labels, event.queries or [""] * len(sizes))
        self._trials.add_block(self._new_lists(len(sizes)), len(sizes), rows.n, self._at)
        return True

    def _take_preference(self, event: Preference) -> bool:
        rows = self.features.example_rows(event.better, event.worse)
        # two items without ids: of its query there is nothing to remember them by
        self._judged(rows, [1.0, 0.0], [event.weight] * 2, BY_LABEL, "", (), topless=True)
        return True

    def _take_example(self, event: Example) -> bool:
        rows = self.features.example_rows(event.x)
        self._judged(rows, [event.y], [1.0], EXAMPLE, event.query, (event.item,), topless=True)
        return True

    def _refuse(self, record: Record, part: int, error: MalformedEvent, in_array: bool) -> None:
        self.counts["rejected"] += 1
        value = self.decoder.parts(record.value)[part] if in_array else record.value
        reason = str(error)
        if len(value) > MAX_LETTER_BYTES:
            reason += f" (only the first {MAX_LETTER_BYTES} of {len(value)} bytes are kept here)"
        letter = DeadLetter(record.offset, part, record.place, error.kind, reason, value[:MAX_LETTER_BYTES])
        self.letters.append(letter)

    # -- becomes preferences -------------------------------------------------------------------------------

    def _judge(self, shown: Shown) -> None:
        """What the new clicks on a ranking say of it."""
        before = shown.labels_before()
        judgement = self.judge.judge(shown, shown.pending)
        self.features.clicked(
            [shown.items[place] for place, grade in shown.pending.items() if not grade], self.clock.now
        )
        self.contests.judged(shown, before)
        self.join.judged(shown)
        if shown.index < 0:
            shown.index = self._new_lists(1)
        keys = item_keys(shown.items) if self._wants_items else NO_ITEMS
        self._builder.add(shown.rows, *judgement, query=shown.query, items=keys)
        self._trials.add(shown.index, before, self._at, shown.items, shown)

    def _judged(
        self,
        rows: Rows,
        y: list[float],
        c: list[float],
        mode: int,
        query: str,
        items: Sequence[str],
        *,
        topless: bool = False,
    ) -> None:
        """A list that came with its judgement."""
        if topless:
            self._trials.topless.append(len(self._builder))
        keys = item_keys(items) if self._wants_items and not topless else NO_ITEMS
        self._builder.add(rows, y, c, mode, query=query, items=keys)
        self._trials.add(self._new_lists(1), [0.0] * rows.n, self._at, items)

    def _new_lists(self, n: int) -> int:
        self.counts["judged"] += n
        return self.counts["judged"] - n


def judged_labels(event: Ranking | PackedRanking) -> list[float] | None:
    """Labels that came with the ranking, 0 for items without one; None when there are none at all."""
    if isinstance(event, PackedRanking):
        return event.labels
    if all(item.label is None for item in event.items):
        return None
    return [item.label or 0.0 for item in event.items]
