"""The two refusals of a commit, worded once for every backend."""

from streamrank.errors import Fenced, OffsetMismatch


def check_commit(shard: str, *, epoch: int, owner: int, start: int, stored: int) -> None:
    """Raise unless `epoch` is the `owner`'s and `start` is the offset `stored`; the epoch comes first."""
    if owner == 0:
        raise Fenced(f"shard {shard!r} was never acquired. Nothing was written. Acquire it, then load.")
    if epoch != owner:
        raise Fenced(
            f"shard {shard!r}: committed with epoch {epoch}, but its owner's is {owner}: another process has "
            "acquired it. Nothing was written. Drop what is in memory; acquire and load again to go on."
        )
    if start != stored:
        raise OffsetMismatch(
            f"shard {shard!r}: the batch starts at offset {start}, but the store stands at {stored}. "
            "Nothing was written. Drop what is in memory; load again and resume at the stored offset."
        )
