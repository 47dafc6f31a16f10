"""What a simulated stream is to be like."""

from dataclasses import dataclass

from streamrank.errors import ConfigError
from streamrank.simulation.clicks import CLICK_MODELS
from streamrank.simulation.world import POOL

MAX_RATE = 0.25  # of malformed records and of duplicates, each: no record needs two copies to reach it
MAX_LATE = 0.1  # only interactions can be late, and of these at most every second


@dataclass(frozen=True)
class Settings:
    """The settings of a simulated stream; a bad one raises `ConfigError` at once.

    Parameters
    ----------
    events
        Records in all, bad and doubled ones counted in. `Simulator.live` does not end at it.
    seed
        Same settings, same bytes.
    shown, candidates
        Items of a ranking, and of how many (at most 100) the shop picks them.
    click_model
        A name of `CLICK_MODELS`.
    noise
        Share of the decisions to click, of examined items, that are made by tossing a coin; below 1.
    malformed, duplicates, late
        Shares of all records. A duplicate is the same bytes again within 10 minutes; a late interaction comes
        when the newest event sent is 40 to 90 minutes younger.
    drift_at
        After which share of the records the taste changes; None for never.
    shuffled
        Share of rankings shown in random order, and marked so.
    purchases
        Whether some clicks are followed by a purchase.
    start_ms, mean_gap_ms
        Event time of the first record; mean time between two rankings.
    numeric_features
        When positive, a world of that many numbers an item, and no metadata (`NumericWorld`).
    """

    events: int = 20_000
    seed: int = 7
    shown: int = 10
    candidates: int = 30
    click_model: str = "pbm"
    malformed: float = 0.0
    duplicates: float = 0.0
    late: float = 0.0
    drift_at: float | None = None
    shuffled: float = 0.05
    purchases: bool = True
    start_ms: int = 1_700_000_000_000
    mean_gap_ms: int = 2_000
    numeric_features: int = 0
    noise: float = 0.0

    def __post_init__(self) -> None:
        self._between("events", 0)
        self._between("seed", 0)
        self._between("shown", 1)
        self._between("candidates", self.shown, POOL)
        self._between("malformed", 0, MAX_RATE)
        self._between("duplicates", 0, MAX_RATE)
        self._between("late", 0, MAX_LATE)
        self._between("shuffled", 0, 1)
        self._between("start_ms", 1_000_000_000_000)  # below lie seconds, which no consumer should accept
        self._between("mean_gap_ms", 1)
        self._between("numeric_features", 0)
        self._between("noise", 0, 1)
        if self.noise == 1:
            raise ConfigError(f"noise = {self.noise!r}: must be below 1, else clicks tell nothing of taste")
        if self.drift_at is not None:
            self._between("drift_at", 0, 1)
        if self.click_model not in CLICK_MODELS:
            raise ConfigError(f"click_model = {self.click_model!r}: known are {', '.join(CLICK_MODELS)}")

    def _between(self, name: str, low: float, high: float = float("inf")) -> None:
        value = getattr(self, name)
        whole = isinstance(type(self).__dataclass_fields__[name].default, int)
        if isinstance(value, bool) or not isinstance(value, int if whole else int | float):
            raise ConfigError(f"{name} = {value!r}: must be a {'whole ' if whole else ''}number")
        if not low <= value <= high:  # NaN fails too
            limits = f"at least {low}" if high == float("inf") else f"between {low} and {high}"
            raise ConfigError(f"{name} = {value!r}: must be {limits}")
