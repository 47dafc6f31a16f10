"""Team-draft interleaving: one list of two models' choices, so that the same user compares them."""

import hashlib
import secrets
from collections.abc import Sequence

NO_ID = "-"  # of a request that brought none


def draw_of(request: str) -> int:
    """64 bits by which what is random in the answer to a request is drawn.

    The same id is the same draw, in every process, so that who asks again is shown the same; without an id
    each request is drawn anew.
    """
    if request == NO_ID:
        return secrets.randbits(64)
    digest = hashlib.blake2b(request.encode("utf-8", "surrogatepass"), digest_size=8).digest()
    return int.from_bytes(digest, "little")


def team_draft(first: Sequence[int], second: Sequence[int], draw: int) -> list[tuple[int, int]]:
    """The items of two orders of the same items as (item, team), from the top down; teams are 0 and 1.

    In every round a coin, thrown by `draw`, says which team picks first; each then adds the best of its order
    that is not taken yet. Where the orders are alike every place is either team's with chance 1/2, so neither
    gets more clicks in the mean: a difference comes from the orders alone.

    >>> team_draft([0, 1, 2], [2, 1, 0], draw=1)
    [(2, 1), (0, 0), (1, 1)]

    References
    ----------
    [1] How does clickthrough data reflect retrieval quality? (Radlinski, Kurup, Joachims), CIKM 2008.
    """
    n = len(first)
    coins = int.from_bytes(hashlib.shake_128(draw.to_bytes(8, "little")).digest((n + 15) // 16), "little")
    orders, at, taken = (first, second), [0, 0], [False] * n
    drafted: list[tuple[int, int]] = []
    while len(drafted) < n:
        team = coins >> (len(drafted) // 2) & 1
        if len(drafted) % 2:
            team = 1 - drafted[-1][1]
        while taken[orders[team][at[team]]]:
            at[team] += 1
        item = orders[team][at[team]]
        taken[item] = True
        drafted.append((item, team))
    return drafted
