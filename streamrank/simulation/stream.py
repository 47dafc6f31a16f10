"""The shop's traffic as records: rankings, then what people click, with the faults of a real topic."""

import heapq
from collections.abc import Iterator
from functools import partial
from typing import NamedTuple

import msgspec
import numpy as np

from streamrank.errors import ConfigError
from streamrank.simulation.clicks import CLICK_MODELS
from streamrank.simulation.draws import Zipf, generator
from streamrank.simulation.malformed import malformed
from streamrank.simulation.numeric import NumericWorld
from streamrank.simulation.settings import Settings
from streamrank.simulation.world import World

__all__ = ["Settings", "Simulator"]

MINUTE_MS = 60_000
LATE_MS = (40 * MINUTE_MS, 90 * MINUTE_MS)  # how far behind the newest event a late interaction lies
SESSION_MS = 30 * MINUTE_MS  # a user silent for longer starts a new session
DUPLICATE_MS = 10 * MINUTE_MS
UPDATES = 0.01  # item updates a ranking
PURCHASE = (0.0, 0.02, 0.05, 0.12, 0.25)  # P(purchase | click) by grade


class _Parcel(NamedTuple):
    """An encoded event on its way; parcels sort by arrival, then by number."""

    arrival_ms: int
    number: int
    kind: str
    stamp_ms: int
    value: bytes


class Simulator:
    """Records in the order in which they arrive, and the truth behind them.

    `counts` tells what was sent so far: item + ranking + interaction + malformed + duplicates add up to all
    records; `late` says how many of the interactions were late. One reading at a time: once another is being
    read, the one before raises, as both would draw from the same world.

    Examples
    --------
    >>> simulator = Simulator(Settings(events=502, shown=2, candidates=5))
    >>> sent = list(simulator.records())
    >>> len(sent), simulator.counts["item"]
    (502, 500)
    >>> simulator.truth_records()[0]
    b'{"ranking":"r-000000","query":"q-0135","relevance":[4,2],"taste":0}'
    """

    def __init__(self, settings: Settings) -> None:
        self.settings = settings
        self._reading: object = None  # whose turn it is
        self._begin()

    def _begin(self) -> None:
        s = self.settings
        self.world: World | NumericWorld = (
            NumericWorld(s.seed, s.numeric_features) if s.numeric_features else World(s.seed)
        )
        self.counts = dict.fromkeys(("item", "ranking", "interaction", "malformed", "duplicates", "late"), 0)
        self._truth: list[bytes] = []
        self._keep_truth = False
        # faults have a generator of their own: the same people do the same whatever goes wrong on the way
        self._people, self._faults = generator(s.seed, 2), generator(s.seed, 3)
        self._clicks = partial(CLICK_MODELS[s.click_model], noise=s.noise)
        self._query, self._user = Zipf(self.world.n_queries), Zipf(self.world.n_users)
        self._sessions: dict[int, tuple[int, int]] = {}  # user -> newest ranking, number of the session
        self._parcels: list[_Parcel] = []
        self._held: list[_Parcel] = []  # interactions that will be late
        self._numbers = dict.fromkeys("rcpm", 0)  # of event ids
        self._n_parcels = self._n_held = self._n_copies_due = self._sent = 0
        self._newest_ms = s.start_ms
        self._copy = s.duplicates / (1.0 - s.duplicates - s.malformed)  # P(copied) of a sound record
        self._per_ranking = self._records_per_ranking() if s.late else 1.0
        for item in range(self.world.n_items):
            self._announce(item, s.start_ms + item)
        self._next_ranking_ms = s.start_ms + self.world.n_items + self._gap_ms()

    def records(self) -> Iterator[bytes]:
        """Exactly `events` records; every call starts anew and yields the same bytes."""
        s = self.settings
        minutes = (s.events - self.world.n_items) / self._per_ranking * s.mean_gap_ms / MINUTE_MS
        if s.late and minutes < 120:
            raise ConfigError(
                f"late = {s.late}: needs two hours of event time, as late means 40 to 90 minutes, and these "
                f"{s.events} records last about {max(minutes, 0.0):.0f} minutes: raise events or mean_gap_ms"
            )
        if self._sent:
            self._begin()
        return self._run(s.events)

    def live(self) -> Iterator[bytes]:
        """Records without end, in bounded memory: no truth is kept. `drift_at` is ignored; call `drift`."""
        if self._sent:
            self._begin()
        return self._run(None)

    def drift(self) -> None:
        """Change the taste from the next ranking on."""
        self.world.drift()

    def truth_records(self) -> list[bytes]:
        """Return the grades of each list shown so far, a JSON object each, in the order of `records`."""
        return list(self._truth)

    def _run(self, limit: int | None) -> Iterator[bytes]:
        s = self.settings
        drift_at = None if s.drift_at is None or limit is None else int(s.drift_at * limit)
        if self._sent:  # another reading was begun before this one and read since
            self._begin()
        self._keep_truth = limit is not None
        self._reading = me = object()
        while limit is None or self._sent < limit:
            if self._sent == drift_at:
                self.drift()
            self._sent += 1
            if s.malformed and self._faults.random() < s.malformed:
                self.counts["malformed"] += 1
                yield malformed(self.counts["malformed"] - 1, self._newest_ms)
            else:
                yield self._next()
            if self._reading is not me:
                raise RuntimeError("another reading of this simulator has begun: make one for each")

    def _next(self) -> bytes:
        while self._held and self._held[0].arrival_ms <= self._newest_ms:
            late = heapq.heappop(self._held)
            if self._newest_ms - late.stamp_ms <= LATE_MS[1]:
                self.counts["interaction"] += 1
                self.counts["late"] += 1
                self._n_copies_due += (
                    self._toss_copy()
                )  # the next one is copied instead: this one is old already
                return late.value
            self._n_held -= 1  # a lull in the traffic overtook it: lost
        while not self._parcels or self._parcels[0].arrival_ms > self._next_ranking_ms:
            self._show()
        parcel = heapq.heappop(self._parcels)
        self.counts[parcel.kind] += 1
        self._newest_ms = max(self._newest_ms, parcel.stamp_ms)
        if parcel.kind == "duplicates":
            return parcel.value
        self._n_copies_due += self._toss_copy()
        if self._n_copies_due:
            self._n_copies_due -= 1
            delay = min(1_000 + int(self._faults.exponential(30_000)), DUPLICATE_MS)
            self._post("duplicates", parcel.stamp_ms, parcel.value, delay)
        return parcel.value

    def _toss_copy(self) -> bool:
        return bool(self._copy and self._faults.random() < self._copy)

    def _post(self, kind: str, stamp_ms: int, value: bytes, delay_ms: int = 0) -> None:
        self._n_parcels += 1
        heapq.heappush(self._parcels, _Parcel(stamp_ms + delay_ms, self._n_parcels, kind, stamp_ms, value))

    def _name(self, letter: str) -> str:
        number = self._numbers[letter]
        self._numbers[letter] = number + 1
        return f"{letter}-{number:06d}"

    def _gap_ms(self) -> int:
        return 1 + int(self._people.exponential(self.settings.mean_gap_ms))

    def _announce(self, item: int, now_ms: int, factor: float | None = None) -> None:
        """Send all that is known of an item, or its new price."""
        assert isinstance(self.world, World)
        fields = self.world.catalogue.metadata(item) if factor is None else self.world.reprice(item, factor)
        event = {
            "event": "item",
            "id": self._name("m"),
            "timestamp": str(now_ms),
            "item": self.world.item_ids[item],
        }
        self._post("item", now_ms, msgspec.json.encode({**event, "fields": fields}))

    def _show(self) -> None:
        """One ranking, and all that its user will do with it."""
        s, people, now_ms = self.settings, self._people, self._next_ranking_ms
        self._next_ranking_ms = now_ms + self._gap_ms()
        query, user = self._query.draw(people), self._user.draw(people)
        shuffled = bool(people.random() < s.shuffled)
        shown = self.world.show(query, people, candidates=s.candidates, shown=s.shown, shuffled=shuffled)
        before_ms, visit = self._sessions.get(user, (0, -1))
        visit += now_ms - before_ms > SESSION_MS
        self._sessions[user] = (now_ms, visit)
        who = {"user": f"u-{user:04d}", "session": f"s-{user:04d}-{visit}"}
        name, key = self._name("r"), f"q-{query:04d}"
        event: dict[str, object] = {
            "event": "ranking",
            "id": name,
            "timestamp": str(now_ms),
            **who,
            "query": key,
        }
        if shuffled:
            event["shuffled"] = True
        fields = self.world.query_fields(query)
        self._post("ranking", now_ms, msgspec.json.encode({**event, "fields": fields, "items": shown.items}))
        if self._keep_truth:
            grades = shown.relevance.tolist()
            truth = {"ranking": name, "query": key, "relevance": grades, "taste": self.world.taste}
            self._truth.append(msgspec.json.encode(truth))
        ranks = np.flatnonzero(self._clicks(shown.relevance, people)).tolist()
        self._follow(
            {"ranking": name, **who}, now_ms, [(shown.ids[k], int(shown.relevance[k])) for k in ranks]
        )
        if self.world.n_items and people.random() < UPDATES:
            self._announce(int(people.integers(self.world.n_items)), now_ms + 1, people.uniform(0.8, 1.25))

    def _follow(self, common: dict[str, str], now_ms: int, clicked: list[tuple[str, int]]) -> None:
        """Post the clicks, from the top down, seconds apart, and what is bought after them."""
        people = self._people
        for item, grade in clicked:
            now_ms += 1_000 + min(int(people.exponential(6_000)), MINUTE_MS)
            self._interact({"type": "click", "item": item, **common}, "c", now_ms)
            if self.settings.purchases and people.random() < PURCHASE[grade]:
                later_ms = now_ms + 5_000 + min(int(people.exponential(40_000)), 2 * MINUTE_MS)
                self._interact({"type": "purchase", "item": item, **common}, "p", later_ms)

    def _interact(self, what: dict[str, str], letter: str, now_ms: int) -> None:
        event = {"event": "interaction", "id": self._name(letter), "timestamp": str(now_ms), **what}
        value = msgspec.json.encode(event)
        # every second one, so that no ranking of the first hour is sure to lose all its clicks
        if self.settings.late and self._n_held < self._owed() and self._faults.random() < 0.5:
            self._n_held += 1
            due_ms = now_ms + int(self._faults.integers(LATE_MS[0] + MINUTE_MS, LATE_MS[1] - 5 * MINUTE_MS))
            heapq.heappush(self._held, _Parcel(due_ms, self._n_held, "interaction", now_ms, value))
        else:
            self._post("interaction", now_ms, value)

    def _owed(self) -> float:
        """How many must have been held back by now: what is held arrives an hour on, when more was sent."""
        ahead = self._per_ranking * sum(LATE_MS) / 2 / self.settings.mean_gap_ms
        return self.settings.late * (self._sent + ahead)

    def _records_per_ranking(self) -> float:
        """Measure on 500 rankings that nobody sees."""
        s, rng, n = self.settings, generator(self.settings.seed, 4), 500
        records = 0.0
        for _ in range(n):
            query = self._query.draw(rng)
            shown = self.world.show(query, rng, candidates=s.candidates, shown=s.shown, shuffled=False)
            grades = shown.relevance[self._clicks(shown.relevance, rng)]
            records += 1 + len(grades) + (np.array(PURCHASE)[grades].sum() if s.purchases else 0)
        return records / n / (1.0 - s.malformed - s.duplicates)
