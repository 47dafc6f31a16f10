"""Clicks find their rankings, in event time; rankings that may still be clicked are state."""

import heapq
from collections import OrderedDict
from collections.abc import Iterator, Mapping
from typing import Any

from ..config import JoinSettings
from ..events.types import Interaction, PackedRanking, Ranking
from ..features.batch import Rows
from .shown import Shown as Shown
from .shown import items_of, propensities_of, restored, teams_of, what_was_clicked, what_was_shown

SLACK = 1000  # a heap may hold this many entries that say nothing any more, before it is built anew
LOOK_BACK = 100  # rankings of a visitor looked through for a click that names none; clicks waiting for one


class Join:
    """Rankings open for clicks for `window_ms` of event time.

    A click names its ranking, or is given to the newest open ranking of its session (else of its user) that
    holds the item. A click that comes before its ranking waits for it until the watermark has passed it. Two
    entries of state a ranking: what was shown (written once) and what was clicked (written again).

    At most `max_open` rankings are open; the first to arrive goes first, whatever its date. As many clicks
    wait, at most 100 for one ranking; the oldest by event time goes first. A
    ranking that closes while clicks on it are pending is due at once: ask `due` after every event.
    """

    def __init__(self, settings: JoinSettings, grades: Mapping[str, float]) -> None:
        self.settings, self.grades = settings, grades
        self._begin()

    def _begin(self) -> None:
        self.unmatched = 0  # clicks that found no ranking, or an item that was not in it
        self._open: OrderedDict[str, Shown] = OrderedDict()  # in order of arrival
        self._by_time: list[tuple[int, int, str]] = []  # heap of (time, number, id)
        self._due: list[tuple[int, int, str]] = []  # heap of (due, number, id)
        self._visitors: dict[str, list[str]] = {}  # visitor -> open rankings, oldest first
        # ranking -> (time, item, grade) of clicks
        self._waiting: dict[str, list[tuple[int, str, float]]] = {}
        self._waiting_by_time: list[tuple[int, str]] = []
        self._n_waiting = 0
        self._last_call: list[Shown] = []  # closed while clicks were pending
        self._next = 0
        self._new: dict[str, Shown] = {}
        self._clicked: dict[str, Shown] = {}
        self._gone: list[int] = []
        self._touched_waiting: set[str] = set()

    def __len__(self) -> int:
        return len(self._open)

    @property
    def n_pending(self) -> int:
        """Clicks counted and not learnt yet."""
        return sum(len(shown.pending) for shown in self._open.values())

    def show(self, event: Ranking | PackedRanking, rows: Rows, now: int) -> Shown:
        """Open a ranking; clicks that came before it are counted now."""
        shown = Shown(
            number=self._next,
            id=event.id,
            time_ms=event.time_ms,
            items=items_of(event),
            rows=rows,
            query=event.query or "",
            visitors=_visitors(event),
            propensities=propensities_of(event),
            shuffled=event.shuffled,
            fair_pairs=event.fair_pairs,
            teams=teams_of(event),
        )
        self._next += 1
        if len(self._by_time) > 2 * len(self._open) + SLACK:  # most are closed already
            self._by_time = sorted((s.time_ms, s.number, s.id) for s in self._open.values())
        if shown.id in self._open:  # its id was forgotten by the dedup: the newer one takes over
            self._close(self._open[shown.id])
        self._open[shown.id] = shown
        self._new[shown.id] = shown
        heapq.heappush(self._by_time, (shown.time_ms, shown.number, shown.id))
        for visitor in shown.visitors:
            self._visitors.setdefault(visitor, []).append(shown.id)
        if shown.id in self._waiting:
            self._touched_waiting.add(shown.id)
            clicks = self._waiting.pop(shown.id)
            self._n_waiting -= len(clicks)
            for time_ms, item, grade in clicks:
                if time_ms <= shown.time_ms + self.settings.window_ms:
                    self._count(shown, item, grade, now)
                else:
                    self.unmatched += 1
        while len(self._open) > self.settings.max_open:
            self._close(next(iter(self._open.values())))
        return shown

    def grade(self, event: Interaction) -> float:
        """What an interaction of its type weighs."""
        return self.grades.get(event.type, 1.0)

    def user_of(self, event: Interaction) -> str:
        """Who acted: the user it names, or its ranking does; else "session S"; else nobody, empty."""
        if event.user:
            return event.user
        shown = self._find(event)
        names = [*(shown.visitors if shown else []), *_visitors(event)]
        users = [name.removeprefix("user ") for name in names if name.startswith("user ")]
        return next(iter([*users, *names]), "")

    def click(self, event: Interaction, now: int) -> bool:
        """Count a click; False when it comes too late for its ranking."""
        grade = self.grade(event)
        shown = self._find(event)
        if shown is None:
            if event.ranking:
                self._wait(event.ranking, event.time_ms, event.item, grade)
            else:
                self.unmatched += 1
            return True
        if event.time_ms > shown.time_ms + self.settings.window_ms:
            return False
        self._count(shown, event.item, grade, now)
        return True

    def due(self, now: int) -> Iterator[Shown]:
        """The rankings whose pending clicks are to be learnt now."""
        while self._last_call:
            yield self._last_call.pop(0)
        while self._due and self._due[0][0] <= now:
            due, number, ranking = heapq.heappop(self._due)
            shown = self._open.get(ranking)
            if shown is not None and (shown.due, shown.number) == (due, number):
                yield shown

    def expire(self, watermark: int) -> None:
        """Close the rankings that no click in time can reach any more, and give up waiting clicks."""
        while self._by_time and self._by_time[0][0] + self.settings.window_ms < watermark:
            self._close_oldest()
        while self._waiting_by_time and self._waiting_by_time[0][0] < watermark:
            self._give_up_oldest()

    def judged(self, shown: Shown) -> None:
        """Take the pending clicks of a ranking as learnt."""
        shown.pending, shown.due = {}, -1
        if self._open.get(shown.id) is shown:
            self._clicked[shown.id] = shown

    def _find(self, event: Interaction) -> Shown | None:
        if event.ranking:
            return self._open.get(event.ranking)
        for visitor in _visitors(event):
            for ranking in self._visitors.get(visitor, [])[: -LOOK_BACK - 1 : -1]:
                shown = self._open[ranking]
                if event.item in shown.items and shown.time_ms <= event.time_ms:
                    return shown
        return None

    def _count(self, shown: Shown, item: str, grade: float, now: int) -> None:
        try:
            place = shown.items.index(item)
        except ValueError:
            self.unmatched += 1
            return
        before = shown.grades.get(place, 0.0)
        if grade <= before:
            return  # a second click says nothing new; a purchase after a click does
        shown.grades[place] = grade
        shown.pending.setdefault(place, before)
        shown.due = now + self.settings.settle_ms  # by the clock: a click's own date may be years off
        heapq.heappush(self._due, (shown.due, shown.number, shown.id))
        if len(self._due) > 2 * len(self._open) + SLACK:  # most were put off by a later click
            self._due = sorted((s.due, s.number, s.id) for s in self._open.values() if s.pending)
        self._clicked[shown.id] = shown

    def _wait(self, ranking: str, time_ms: int, item: str, grade: float) -> None:
        clicks = self._waiting.setdefault(ranking, [])
        if len(clicks) >= LOOK_BACK:  # no list is clicked so often: a name such as "undefined"
            self.unmatched += 1
            return
        clicks.append((time_ms, item, grade))
        self._n_waiting += 1
        self._touched_waiting.add(ranking)
        heapq.heappush(self._waiting_by_time, (time_ms, ranking))
        if len(self._waiting_by_time) > 2 * self._n_waiting + SLACK:  # most found their ranking already
            self._waiting_by_time = sorted(
                (click[0], waited) for waited, clicks in self._waiting.items() for click in clicks
            )
        while self._n_waiting > self.settings.max_open:
            self._give_up_oldest()

    def _give_up_oldest(self) -> None:
        time_ms, ranking = heapq.heappop(self._waiting_by_time)
        clicks = self._waiting.get(ranking, [])
        kept = [click for click in clicks if click[0] != time_ms]
        if len(kept) == len(clicks):
            return  # its ranking came, or an entry of the same moment took it along
        self.unmatched += len(clicks) - len(kept)
        self._n_waiting -= len(clicks) - len(kept)
        self._touched_waiting.add(ranking)
        if kept:
            self._waiting[ranking] = kept
        else:
            del self._waiting[ranking]

    def _close_oldest(self) -> None:
        _, number, ranking = heapq.heappop(self._by_time)
        shown = self._open.get(ranking)
        if shown is not None and shown.number == number:
            self._close(shown)

    def _close(self, shown: Shown) -> None:
        del self._open[shown.id]
        for visitor in shown.visitors:
            rankings = self._visitors[visitor]
            rankings.remove(shown.id)
            if not rankings:
                del self._visitors[visitor]
        if shown.pending:
            self._last_call.append(shown)
        self._clicked.pop(shown.id, None)
        if self._new.pop(shown.id, None) is None:
            self._gone.append(shown.number)

    # -- state ---------------------------------------------------------------------------------------------

    def to_state(self) -> dict[str, Any]:
        """Two entries an open ranking, one for the clicks that wait for each absent one, and the counts."""
        state: dict[str, Any] = {"counts": [self._next, self.unmatched]}
        for shown in self._open.values():
            state[f"open/{shown.number}"] = what_was_shown(shown)
            if shown.grades:
                state[f"click/{shown.number}"] = what_was_clicked(shown)
        for ranking, clicks in self._waiting.items():
            state[f"wait/{ranking}"] = [list(click) for click in clicks]
        return state

    def from_state(self, state: Mapping[str, Any]) -> None:
        """Take up what `to_state` gave."""
        self._begin()
        self._next, self.unmatched = state.get("counts", (0, 0))
        for number in sorted(int(key.removeprefix("open/")) for key in state if key.startswith("open/")):
            shown = restored(number, state[f"open/{number}"], state.get(f"click/{number}"))
            self._open[shown.id] = shown
            self._by_time.append((shown.time_ms, number, shown.id))
            if shown.pending:
                self._due.append((shown.due, number, shown.id))
            for visitor in shown.visitors:
                self._visitors.setdefault(visitor, []).append(shown.id)
        for key in state:
            if key.startswith("wait/"):
                ranking = key.removeprefix("wait/")
                self._waiting[ranking] = [(time, item, grade) for time, item, grade in state[key]]
                self._waiting_by_time += [(click[0], ranking) for click in self._waiting[ranking]]
        self._n_waiting = len(self._waiting_by_time)
        heapq.heapify(self._by_time)
        heapq.heapify(self._due)
        heapq.heapify(self._waiting_by_time)

    def dirty(self) -> dict[str, Any]:
        """Entries that changed since the last call; None for what is gone."""
        changed: dict[str, Any] = {"counts": [self._next, self.unmatched]}
        for shown in self._new.values():
            changed[f"open/{shown.number}"] = what_was_shown(shown)
        for shown in self._clicked.values():
            changed[f"click/{shown.number}"] = what_was_clicked(shown)
        for number in self._gone:
            changed[f"open/{number}"] = changed[f"click/{number}"] = None
        for ranking in sorted(self._touched_waiting):
            clicks = self._waiting.get(ranking)
            changed[f"wait/{ranking}"] = None if clicks is None else [list(click) for click in clicks]
        self._new, self._clicked, self._gone = {}, {}, []
        self._touched_waiting.clear()
        return changed


def _visitors(event: Ranking | PackedRanking | Interaction) -> list[str]:
    # an empty name is nobody's: it must not join the clicks of all who sent it
    visitors = [f"session {event.session}"] if event.session else []
    return [*visitors, f"user {event.user}"] if event.user else visitors
