"""Which events belong together: those of one key go to one partition, in order."""

from .types import Event, Interaction, ItemMetadata, PackedRanking, Ranking


def key_of(event: Event) -> bytes | None:
    """The user, so that rankings meet their clicks; without one the session, without that the ranking.

    None for an item's metadata: every partition needs to know it. Both a ranking and its clicks have to name
    the user (or both the session, or neither).

    >>> key_of(Ranking(id="r1", timestamp=0, items=[], session="s1"))
    b's1'
    >>> key_of(Interaction(id="c1", timestamp=0, item="a", type="click", ranking="r1"))
    b'r1'
    """
    if isinstance(event, ItemMetadata):
        return None
    key = getattr(event, "user", None) or getattr(event, "session", None)
    if not key and isinstance(event, Ranking | PackedRanking):
        key = event.id
    if not key and isinstance(event, Interaction):
        key = event.ranking
    return (key or getattr(event, "query", None) or "").encode()
