"""Event time: what the events say it is, never what this machine says."""

from collections.abc import Mapping

from streamrank.errors import ConfigError, SnapshotError


class EventClock:
    """The largest event time seen, not fooled by a few events with a wrong date.

    An event is *far* if its time differs from `now` by more than `jump_ms`.

    1. The first event sets the clock.
    2. An event that is not far moves the clock to its time if that is later, and agrees with it. Once
       `confirm` events have agreed (the first one counts) the clock is settled.
    3. An event far ahead does not move the clock. When `confirm` events in a row were far ahead, the clock
       jumps to the smallest of their times and is settled.
    4. An event far behind does not move the clock either. When `confirm` events in a row were far behind a
       clock that is not settled, the first event was wrongly dated: the clock falls back to the largest of
       their times and is settled. This happens once at most; nothing else moves `now` or `watermark` back.

    In 3 and 4 any other event starts the counting anew. Time 0 says that an event carries no time (a
    preference or an example may omit it); it is passed over.

    Parameters
    ----------
    lateness_ms
        How much later than its time an event may come, >= 0.
    jump_ms
        The longest step taken on the word of one event, > 0. A log with longer silences throughout is
        followed as well, but up to 2 `confirm` events behind.
    confirm
        How many events in a row it takes to believe a longer step, >= 1.

    Examples
    --------
    >>> clock = EventClock(lateness_ms=1000)
    >>> for time_ms in (50_000, 51_000, 50_500, 4_000_000_000_000):
    ...     clock.observe(time_ms)
    >>> clock.now, clock.watermark, clock.is_late(49_999)
    (51000, 50000, True)
    """

    def __init__(self, lateness_ms: int = 60_000, jump_ms: int = 3_600_000, confirm: int = 16) -> None:
        for name, value, least in (
            ("lateness_ms", lateness_ms, 0),
            ("jump_ms", jump_ms, 1),
            ("confirm", confirm, 1),
        ):
            if type(value) is not int or value < least:
                raise ConfigError(f"{name} = {value!r}: must be a whole number of {least} or more")
        self.lateness_ms, self.jump_ms, self.confirm = lateness_ms, jump_ms, confirm
        self._now = 0
        self._agreed = 0  # events that agreed with the clock, counted up to `confirm`
        self._n_ahead = self._ahead = 0  # how many in a row were far ahead, and the smallest of them
        self._n_behind = self._behind = 0  # how many in a row were far behind, and the largest of them

    @property
    def now(self) -> int:
        """The time, in milliseconds; 0 before the first event."""
        return self._now

    @property
    def watermark(self) -> int:
        """No event before this time is waited for: `now` less the lateness, at least 0."""
        return max(0, self._now - self.lateness_ms)

    def is_late(self, time_ms: int) -> bool:
        """Whether an event of that time comes too late to count."""
        return time_ms < self.watermark

    def observe(self, time_ms: int) -> None:
        """Take note of the time of the next event."""
        if time_ms <= 0:
            return
        step = time_ms - self._now
        if self._agreed == 0:
            self._now, self._agreed = time_ms, 1
        elif step > self.jump_ms:
            self._ahead = min(self._ahead, time_ms) if self._n_ahead else time_ms
            self._n_ahead, self._n_behind = self._n_ahead + 1, 0
            if self._n_ahead >= self.confirm:
                self._settle(self._ahead)
        elif step < -self.jump_ms and self._agreed < self.confirm:
            self._behind = max(self._behind, time_ms) if self._n_behind else time_ms
            self._n_behind, self._n_ahead = self._n_behind + 1, 0
            if self._n_behind >= self.confirm:
                self._settle(self._behind)
        else:
            self._n_ahead = self._n_behind = 0
            if step >= -self.jump_ms:
                self._agreed = min(self._agreed + 1, self.confirm)
            self._now = max(self._now, time_ms)

    def _settle(self, time_ms: int) -> None:
        self._now, self._agreed = time_ms, self.confirm
        self._n_ahead = self._n_behind = 0

    def to_state(self) -> dict[str, int]:
        """All that `observe` has learnt; the parameters are not part of it."""
        return {
            "now": self._now,
            "agreed": self._agreed,
            "n_ahead": self._n_ahead,
            "ahead": self._ahead,
            "n_behind": self._n_behind,
            "behind": self._behind,
        }

    def from_state(self, state: Mapping[str, int]) -> None:
        """Go on from what `to_state` gave."""
        if state.keys() != self.to_state().keys():
            raise SnapshotError(f"a clock's state has {sorted(self.to_state())}, not {sorted(state)}")
        self._now, self._agreed = state["now"], state["agreed"]
        self._n_ahead, self._ahead = state["n_ahead"], state["ahead"]
        self._n_behind, self._behind = state["n_behind"], state["behind"]
