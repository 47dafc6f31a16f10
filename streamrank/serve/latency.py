"""How long rankings took, by model: counts in fixed bounds, and the last ones for quantiles."""

from collections import deque

import numpy as np

BOUNDS = (0.0005, 0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0)  # seconds
LAST = 2000


class Latencies:
    """Seconds a request, by model.

    >>> latencies = Latencies()
    >>> for ms in (1.5, 1.5, 30):
    ...     latencies.add("default", ms / 1000)
    >>> latencies.buckets("default")[-1], latencies.quantiles("default")["p50_ms"]
    (3, 1.5)
    """

    def __init__(self) -> None:
        self._last: dict[str, deque[float]] = {}
        self._counts: dict[str, list[int]] = {}
        self.sums: dict[str, float] = {}

    def add(self, model: str, seconds: float) -> None:
        """Count one; only models that exist are counted, so there are few."""
        if model not in self._last:
            self._last[model], self.sums[model] = deque(maxlen=LAST), 0.0
            self._counts[model] = [0] * (len(BOUNDS) + 1)
        self._last[model].append(seconds)
        self.sums[model] += seconds
        self._counts[model][int(np.searchsorted(BOUNDS, seconds))] += 1

    def buckets(self, model: str) -> list[int]:
        """How many took at most each bound, and how many there were."""
        return [int(n) for n in np.cumsum(self._counts.get(model, [0] * (len(BOUNDS) + 1)))]

    def quantiles(self, model: str) -> dict[str, float]:
        """p50 and p99 of the last 2000, in milliseconds, and how many there were in all."""
        last = list(self._last.get(model, ()))
        p50, p99 = np.quantile(last, [0.5, 0.99]).tolist() if last else (0.0, 0.0)
        return {"p50_ms": 1000 * p50, "p99_ms": 1000 * p99, "requests": self.buckets(model)[-1]}
