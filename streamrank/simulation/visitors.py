"""People who come to the shop while it learns: they ask, are shown what the ranker says, and click."""

from collections.abc import Sequence
from typing import Any, NamedTuple

import msgspec
import numpy as np

from streamrank.simulation.clicks import pbm
from streamrank.simulation.draws import Ints, Zipf, generator
from streamrank.simulation.malformed import malformed
from streamrank.simulation.world import World

SHOWN, CANDIDATES = 10, 30
FAULTS = 0.01  # of the visits send something malformed


class Visit(NamedTuple):
    """Someone who asks: what to rank, in the shop's own order, and who it is for."""

    number: int
    query: int
    candidates: Ints
    request: dict[str, Any]


class Visitors:
    """Visits drawn from a seed; what happens then depends on the order that is shown.

    A share of the rankings is shown in random order and marked so: they measure the position bias, and they
    let a ranker see what it would not have shown.

    >>> visitors = Visitors(seed=1, shuffled=0.0)
    >>> visit = visitors.arrive()
    >>> best_first = [item["id"] for item in visit.request["items"]][::-1]
    >>> events = visitors.look(visit, best_first, 1_700_000_000_000)
    >>> events[0]["event"], len(events[0]["items"])
    ('ranking', 10)
    """

    def __init__(self, seed: int, shuffled: float) -> None:
        self.world, self.shuffled = World(seed), shuffled
        self._people, self._faults = generator(seed, 5), generator(seed, 6)
        self._query, self._user = Zipf(self.world.n_queries), Zipf(self.world.n_users)
        self._n = 0

    def catalogue(self, now_ms: int) -> list[dict[str, Any]]:
        """The events that say what is known of each item."""
        known = self.world.catalogue.metadata
        return [
            {"event": "item", "id": f"m{i}", "timestamp": now_ms, "item": name, "fields": known(i)}
            for i, name in enumerate(self.world.item_ids)
        ]

    def arrive(self) -> Visit:
        """The next one."""
        self._n += 1
        query, user = self._query.draw(self._people), self._user.draw(self._people)
        candidates = self.world.candidates(query, CANDIDATES, self._people)
        request = {
            "id": f"v{self._n}",
            "user": f"u-{user:04d}",
            "query": f"q-{query:04d}",
            "fields": self.world.query_fields(query),
            "items": [msgspec.json.decode(self.world.item(query, i)) for i in candidates.tolist()],
        }
        return Visit(self._n, query, candidates, request)

    def look(self, visit: Visit, order: Sequence[str], now_ms: int) -> list[dict[str, Any]]:
        """What is shown of this order, and clicked: the events, the ranking first."""
        people, by_id = self._people, {item["id"]: item for item in visit.request["items"]}
        shuffled = bool(people.random() < self.shuffled)
        names = list(order)
        if shuffled:
            names = [names[k] for k in people.permutation(len(names))]
        names = names[:SHOWN]
        numbers = {self.world.item_ids[i]: i for i in visit.candidates.tolist()}
        shown = np.array([numbers[name] for name in names])
        clicked = pbm(self.world.relevance(visit.query, shown), people)
        ranking = {"event": "ranking", "timestamp": now_ms, "shuffled": shuffled, **visit.request}
        events: list[dict[str, Any]] = [ranking | {"items": [by_id[name] for name in names]}]
        for name, was in zip(names, clicked, strict=True):
            if was:
                click = {"event": "interaction", "id": f"v{visit.number}-{name}", "timestamp": now_ms + 1}
                events.append(click | {"ranking": f"v{visit.number}", "item": name, "type": "click"})
        return events

    def faults(self, now_ms: int) -> bytes:
        """Now and then something that is no event; mostly nothing."""
        return malformed(self._n, now_ms) if self._faults.random() < FAULTS else b""
