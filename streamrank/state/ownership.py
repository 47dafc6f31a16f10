"""Who may acquire and who may commit: the refusals, worded once for every backend."""

from streamrank.errors import Fenced, OffsetMismatch

_ANEW = "Drop what is in memory; acquire and load again, and resume at the stored offset."


def check_acquire(shard: str, *, generation: int, stored: int) -> None:
    """Raise if a later `generation` of the consumer group has had the shard."""
    if 0 < generation < stored:
        raise Fenced(
            f"shard {shard!r} was acquired under generation {stored} of the consumer group, and this is "
            f"{generation}: the group has given it to another since. Nothing was changed. If the group was "
            f"made anew and counts from 1 again: streamrank state reset --shard {shard} --keep-state"
        )


def check_commit(shard: str, *, epoch: int, owner: int, start: int, stored: int) -> None:
    """Raise unless `epoch` is the `owner`'s and `start` is the offset `stored`; the epoch comes first."""
    if owner == 0:
        raise Fenced(
            f"shard {shard!r} was never acquired, or the store was emptied since. Nothing was written. "
            "Acquire it, then load."
        )
    if epoch > owner:
        raise Fenced(
            f"shard {shard!r} is at epoch {owner}, this process has {epoch}: the store has gone back to an "
            f"older state. Nothing was written. {_ANEW}"
        )
    if epoch < owner:
        raise Fenced(
            f"another process has taken over shard {shard!r} (epoch {owner}, this one has {epoch}). Nothing "
            "was written and nothing is lost: let the other one finish, or start again to take it back."
        )
    if start != stored:
        why = " The store has gone back to an older state." if stored < start else ""
        raise OffsetMismatch(
            f"shard {shard!r}: the batch starts at offset {start}, but the store stands at {stored}.{why} "
            f"Nothing was written. {_ANEW}"
        )
