"""What goes wrong, in a random order that the seed repeats."""

import random
from collections.abc import Mapping

# of every 100 faults
MIX = {
    "kill": 36,  # kill -9 of a worker
    "term": 18,  # SIGTERM of a worker
    "stop": 12,  # SIGSTOP of a worker until the group has given its partitions away, then SIGCONT
    "redis": 14,  # kill -9 of Redis, then start
    "broker": 8,  # kill -9 of the broker, then start
    "duplicates": 12,  # records produced again
}
FLEET = ((0.15, 1), (0.40, 2), (0.85, 3), (1.0, 1))  # up to this share of the faults, so many workers


def plan(n: int, seed: int, mix: Mapping[str, int] = MIX) -> list[str]:
    """`n` faults: each kind by its share, rounded up so that none is missing, shuffled."""
    total = sum(mix.values())
    faults = [kind for kind, share in mix.items() for _ in range(max(1, -(-n * share // total)))]
    chance = random.Random(seed)
    chance.shuffle(faults)
    return faults


def workers_at(share: float) -> int:
    """How many workers there are to be after this share of the faults."""
    return next(n for until, n in FLEET if share <= until)
