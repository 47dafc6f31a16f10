"""The click-through rate of each item, decayed in event time."""

from collections import OrderedDict
from collections.abc import Mapping, Sequence
from typing import Any

PRIOR_CLICKS, PRIOR_SHOWN = 1.0, 10.0  # an item never shown is taken to be clicked one time in ten


class ClickRates:
    """Clicks and times shown of each item, each halved every `half_life_ms` of event time.

        rate = (clicks + 1)/(shown + 10)

    An event out of order counts as if it came with the newest one of its item. Kept for `limit` items; the
    one least recently shown or clicked goes first.

    >>> rates = ClickRates(half_life_ms=1000, limit=10)
    >>> rates.shown(["a", "b"], time_ms=0, learn=True)
    [0.1, 0.1]
    >>> rates.clicked("a", time_ms=0)
    >>> [round(rate, 4) for rate in rates.shown(["a", "b"], time_ms=1000, learn=True)]
    [0.1429, 0.0952]
    """

    def __init__(self, half_life_ms: int, limit: int) -> None:
        self.half_life_ms, self.limit = half_life_ms, limit
        # id -> (tick, time, clicks, shown); least recently shown or clicked first
        self._items: OrderedDict[str, tuple[int, int, float, float]] = OrderedDict()
        self._tick = 0
        self._touched: set[str] = set()

    def shown(self, items: Sequence[str], time_ms: int, *, learn: bool) -> list[float]:
        """The rates as they were before this showing, which is then counted."""
        rates, entries = [], []
        known, half_life_ms = self._items.get, self.half_life_ms
        for item in items:
            entry = known(item)
            if entry is None:
                rates.append(PRIOR_CLICKS / PRIOR_SHOWN)
                entries.append((item, time_ms, 0.0, 1.0))
            else:
                _, then, clicks, shown = entry
                if time_ms > then:
                    left = 0.5 ** ((time_ms - then) / half_life_ms)
                    clicks, shown, then = clicks * left, shown * left, time_ms
                rates.append((clicks + PRIOR_CLICKS) / (shown + PRIOR_SHOWN))
                entries.append((item, then, clicks, shown + 1.0))
        if learn:  # only now: what goes to make room may stand further down this list
            for new in entries:
                self._put(*new)
        return rates

    def clicked(self, item: str, time_ms: int) -> None:
        """Count a click, if the item is known; one that was never shown has no rate."""
        entry = self._items.get(item)
        if entry is not None:
            _, then, clicks, shown = entry
            left = 0.5 ** (max(time_ms - then, 0) / self.half_life_ms)
            self._put(item, max(time_ms, then), clicks * left + 1.0, shown * left)

    def _put(self, item: str, time_ms: int, clicks: float, shown: float) -> None:
        self._tick += 1
        self._items[item] = (self._tick, time_ms, clicks, shown)
        self._items.move_to_end(item)
        self._touched.add(item)
        while len(self._items) > self.limit:  # many, where the limit was lowered
            self._touched.add(self._items.popitem(last=False)[0])

    def merge(self, other: "ClickRates") -> None:
        """Add up what two shards counted, as of the later time."""
        for item, (_, then, clicks, shown) in other._items.items():
            _, mine_then, mine_clicks, mine_shown = self._items.get(item, (0, then, 0.0, 0.0))
            now = max(then, mine_then)
            mine, theirs = (0.5 ** ((now - t) / self.half_life_ms) for t in (mine_then, then))
            self._put(item, now, mine * mine_clicks + theirs * clicks, mine * mine_shown + theirs * shown)

    def to_state(self) -> dict[str, list[Any]]:
        """One entry an item."""
        return {item: list(entry) for item, entry in self._items.items()}

    def from_state(self, state: Mapping[str, Sequence[Any]]) -> None:
        """Take up what `to_state` gave."""
        entries = sorted((tuple(entry), item) for item, entry in state.items())
        self._items = OrderedDict(
            (item, (int(e[0]), int(e[1]), float(e[2]), float(e[3]))) for e, item in entries
        )
        self._tick = int(entries[-1][0][0]) if entries else 0
        self._touched.clear()

    def dirty(self) -> dict[str, list[Any] | None]:
        """Entries that changed since the last call; None for what is gone."""
        changed = {
            item: (list(self._items[item]) if item in self._items else None) for item in sorted(self._touched)
        }
        self._touched.clear()
        return changed
