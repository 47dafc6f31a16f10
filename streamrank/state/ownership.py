"""The two refusals of a commit, worded once for every backend."""

from streamrank.errors import Fenced, OffsetMismatch


def check_commit(shard: str, *, epoch: int, owner: int, start: int, stored: int) -> None:
    """Raise unless `epoch` is the `owner`'s and `start` is the offset `stored`; the epoch comes first."""
    if owner == 0:
        raise Fenced(f"shard {shard!r} was never acquired. Nothing was written. Acquire it, then load.")
    if epoch != owner:
        raise Fenced(
            f"another process has taken over shard {shard!r} (epoch {owner}, this one has {epoch}). Nothing "
            "was written and nothing is lost: let the other one finish, or start again to take it back."
        )
    if start != stored:
        raise OffsetMismatch(
            f"shard {shard!r}: the batch starts at offset {start}, but the store stands at {stored}. "
            "Nothing was written. Drop what is in memory; load again and resume at the stored offset."
        )
