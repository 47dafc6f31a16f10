"""What people call their columns, and how they write a time: one list for CSV and Parquet alike."""

from collections.abc import Sequence
from datetime import UTC, date, datetime, time

USER = (
    "user",
    "user_id",
    "userid",
    "uid",
    "customer",
    "customer_id",
    "customerid",
    "visitor_id",
    "visitorid",
)
ITEM = (
    *("item", "item_id", "itemid", "movie", "movie_id", "movieid", "product", "product_id", "productid"),
    *("doc", "doc_id", "docid", "document_id", "example_id"),
)
RATING = ("rating", "score", "stars")
TIME = ("timestamp", "time", "ts", "unix_time", "date", "datetime")
GROUP = (
    "qid",
    "query",
    "query_id",
    "queryid",
    "block",
    "block_id",
    "group",
    "group_id",
    "list_id",
    "srch_id",
)
LABEL = ("label", "y", "rel", "relevance", "relevancy", "target", "grade", "judgement", "judgment")
EVENT = ("event", "value", "json")

_FIRST_MS = 1e11  # in seconds the year 5138, in milliseconds March 1973


def column(names: Sequence[str], spellings: Sequence[str]) -> str | None:
    """The first of `names`, as it is written there, that one of the spellings matches, whatever its case.

    >>> column(["userId", "movieId"], ITEM)
    'movieId'
    """
    return next((name for name in names if name.strip().lower() in spellings), None)


def to_ms(stamp: str | float | date) -> int:
    """Milliseconds since 1970 of unix seconds, unix milliseconds, a date or ISO-8601 text (UTC by default).

    >>> to_ms("881250949"), to_ms(881250949000), to_ms("1997-12-04T15:55:49")
    (881250949000, 881250949000, 881250949000)
    """
    if isinstance(stamp, str):
        return to_ms(datetime.fromisoformat(stamp) if "-" in stamp[1:] else float(stamp))
    if isinstance(stamp, int | float):
        return round(stamp if abs(stamp) >= _FIRST_MS else stamp * 1000)
    if not isinstance(stamp, datetime):
        stamp = datetime.combine(stamp, time())
    return round((stamp if stamp.tzinfo else stamp.replace(tzinfo=UTC)).timestamp() * 1000)
