"""What the server answers: the types that server and client share."""

from typing import Annotated

import msgspec


class Part(msgspec.Struct, frozen=True):
    """What one feature adds to a score; `value` is counted from what is typical of it.

    Of a linear model the shares add up to the score; with a hidden layer each is what the score would lose.
    """

    name: str
    value: float
    share: float


class Ranked(msgspec.Struct, frozen=True, omit_defaults=True):
    """An item in its place.

    `team` is the model that put it there, and whose score it has, where two share the list; `propensity` the
    chance that its place is looked at, where that is known. Send both back with the ranking that was shown.
    """

    item: str
    score: float
    features: list[Part] | None = None
    team: str | None = None
    propensity: float | None = None


class Answer(msgspec.Struct, frozen=True):
    """Items, best first, or as a learner that explores would show them.

    Degraded: nothing was learnt yet (input order), or the store is away.
    """

    items: list[Ranked]
    took: int  # milliseconds
    model: str
    model_version: str
    degraded: bool


class RecommendRequest(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Asks for the best of all items for a user, without those of `exclude`."""

    user: str
    count: Annotated[int, msgspec.Meta(ge=1, le=1000)] = 10
    exclude: list[str] = []


class Comparison(msgspec.Struct, frozen=True):
    """How the challenger does on the rankings that it shares with the champion.

    It wins where it got more clicks; `win_rate` is its share of the `decided` ones (won or lost), between
    `low` and `high` with 95 % confidence.
    """

    champion: str
    challenger: str
    shown: int
    wins: int
    losses: int
    ties: int
    decided: int
    win_rate: float | None
    low: float
    high: float


class Rejected(msgspec.Struct, frozen=True):
    """An event that was not taken, by its place in the body."""

    index: int
    reason: str


class Receipt(msgspec.Struct, frozen=True):
    """What became of the events of a body; those accepted are on disk."""

    status: str
    accepted: int
    rejected: list[Rejected]
    tookMillis: int  # noqa: N815  (Metarank's name)
    updated: int = 0
    offset: int = 0  # once the shard `feedback` stands here, all of them are learnt
