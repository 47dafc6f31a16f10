"""What can enter: Metarank's four events, two of ours, and two packed forms.

Fields are Metarank's, unchanged; what is ours is optional and marked so. A new field always gets a default,
so that old logs stay readable. The codec leaves every `timestamp` as an integer number of milliseconds.
"""

from typing import ClassVar

import msgspec

Scalar = bool | int | float | str
Value = bool | int | float | str | list[Scalar]  # the lists are all numbers or all strings: the codec checks
Stamp = int | float | str  # as sent; an int of milliseconds once the codec has passed it


class Record(msgspec.Struct, frozen=True, gc=False):
    """Bytes at a place: what a source yields. `place` is for people: `log.jsonl:17`, `clicks[3]@881`."""

    offset: int
    value: bytes
    place: str = ""


class Field(msgspec.Struct, gc=False):
    """One named value of an item, a user, or a ranking."""

    name: str
    value: Value


class Item(msgspec.Struct, gc=False):
    """One shown item.

    Ours: `propensity`, the probability that its position was examined; `team`, the model that put it there,
    where two models share a list (team-draft interleaving).
    """

    id: str
    fields: list[Field] = []
    label: float | None = None
    relevancy: float | None = None
    propensity: float | None = None
    team: str | None = None


class _Event(msgspec.Struct, tag_field="event", gc=False, kw_only=True):
    id: str = ""
    timestamp: Stamp = 0

    kind: ClassVar[str] = ""

    @property
    def time_ms(self) -> int:
        """Event time in milliseconds."""
        return int(self.timestamp)


class Ranking(_Event, tag="ranking", gc=False, kw_only=True):
    """A list that was shown, in the order shown ('impression').

    Ours: `query` (the key of per-query state), `model` (who ranked it), `shuffled` (the order was random, so
    its clicks measure the position bias), `fair_pairs` (0 or 1: adjacent pairs from that index on were each
    swapped with probability 1/2).
    """

    kind: ClassVar[str] = "ranking"
    id: str
    timestamp: Stamp
    items: list[Item]
    user: str | None = None
    session: str | None = None
    fields: list[Field] = []
    query: str | None = None
    model: str | None = None
    shuffled: bool = False
    fair_pairs: int | None = None


class RankRequest(Ranking, tag="ranking", gc=False, kw_only=True):
    """A ranking that is asked for: who and when may be left out."""

    id: str = "-"
    timestamp: Stamp = 0


class PackedRanking(_Event, tag="packed", gc=False, kw_only=True):
    """A ranking whose features come as arrays (msgpack only): no name is decoded twice.

    `columns` is a msgpack array of feature names, left undecoded because it seldom changes; `values` holds
    float64 (or float32) little-endian, one row an item, NaN where a value is missing. `labels`, when given,
    are judgements: the list is learnt at once and waits for no click.
    """

    kind: ClassVar[str] = "ranking"
    id: str
    timestamp: Stamp
    items: list[str]
    columns: msgspec.Raw
    values: bytes
    labels: list[float] | None = None
    propensities: list[float] | None = None
    teams: list[str] | None = None
    user: str | None = None
    session: str | None = None
    query: str | None = None
    model: str | None = None
    shuffled: bool = False
    fair_pairs: int | None = None


class PackedLists(_Event, tag="lists", gc=False, kw_only=True):
    """Judged lists as arrays (msgpack only): the fastest way in, for who has labels already.

    `columns` and `values` are as in `PackedRanking`, one row an item of all lists; `sizes` holds the number
    of rows of each list (int32), `labels` the label of each row (as wide as the values), little-endian.
    """

    kind: ClassVar[str] = "lists"
    id: str
    timestamp: Stamp
    columns: msgspec.Raw
    values: bytes
    sizes: bytes
    labels: bytes
    queries: list[str] | None = None


class Interaction(_Event, tag="interaction", gc=False, kw_only=True):
    """A click, purchase, like … on one shown item."""

    kind: ClassVar[str] = "interaction"
    id: str
    timestamp: Stamp
    item: str
    type: str
    ranking: str | None = None
    user: str | None = None
    session: str | None = None
    fields: list[Field] = []


class ItemMetadata(_Event, tag="item", gc=False, kw_only=True):
    """What is known of an item; a later one replaces the fields it names."""

    kind: ClassVar[str] = "item"
    id: str
    timestamp: Stamp
    item: str
    fields: list[Field] = []


class UserMetadata(_Event, tag="user", gc=False, kw_only=True):
    """What is known of a user."""

    kind: ClassVar[str] = "user"
    id: str
    timestamp: Stamp
    user: str
    fields: list[Field] = []


class Preference(_Event, tag="preference", gc=False, kw_only=True):
    """Ours: one item is better than another for a query."""

    kind: ClassVar[str] = "preference"
    better: dict[str, Value]
    worse: dict[str, Value]
    query: str = ""
    weight: float = 1.0


class Example(_Event, tag="example", gc=False, kw_only=True):
    """Ours: a scored example. Without a query it belongs to one global query."""

    kind: ClassVar[str] = "example"
    x: dict[str, Value]
    y: float
    query: str = ""
    item: str = ""


Event = (
    Ranking | PackedRanking | PackedLists | Interaction | ItemMetadata | UserMetadata | Preference | Example
)
