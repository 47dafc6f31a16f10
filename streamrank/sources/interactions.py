"""One row of who-liked-what, from whatever file, and the event it becomes."""

from typing import NamedTuple

import msgspec

from streamrank.events.types import Field, Interaction


class Row(NamedTuple):
    """`number` is the row's in its file, from 1; rating and time are None where the file has none."""

    number: int
    user: str
    item: str
    rating: float | None
    time_ms: int | None


def encode(row: Row, offset: int) -> bytes:
    """The row as a msgpack event: type `rating`, or `click` where there is no rating.

    Without a time the offset stands in for it. The offset is in the id too: buying a thing twice in one day
    is two events.
    """
    return msgspec.msgpack.encode(
        Interaction(
            id=f"{row.user}:{row.item}:{offset}",
            timestamp=offset if row.time_ms is None else row.time_ms,
            item=row.item,
            type="click" if row.rating is None else "rating",
            user=row.user,
            fields=[] if row.rating is None else [Field("rating", row.rating)],
        )
    )
