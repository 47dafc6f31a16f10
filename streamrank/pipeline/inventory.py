"""What a shard's state consists of: entries and bytes of each kind, what bounds them, and a budget."""

import logging
from collections import Counter
from collections.abc import Mapping, Sequence

import msgspec

from ..errors import StoreFull
from ..state import DeadLetter

MB = 1_000_000
ALARM = 0.8  # of the budget

# kind -> what to lower when it takes too much; the kinds without a word are small and do not grow
BOUNDS = {
    "weights": "features.columns (features.bits where hashed), or the number of models",
    "keyed": "the limits in the params of the models",
    "joins": "join.max_open or join.window_ms",
    "ids": "join.max_ids or join.dedup_ms",
    "features": "features.max_items",
    "judge": "",
    "quality": "",
    "settings": "",
    "letters": "",
}
_KINDS = {"join": "joins", "seen": "ids", "features": "features", "judge": "judge", "quality": "quality"}

log = logging.getLogger(__name__)


class Share(msgspec.Struct):
    """Of one kind: how many entries, and the bytes of their keys and values."""

    entries: int = 0
    bytes: int = 0


def kind_of(key: str) -> str:
    """The kind of an entry.

    >>> [kind_of(key) for key in ("model/default/w#0", "model/default/query/shoes", "join/open/7", "counts")]
    ['weights', 'keyed', 'joins', 'settings']
    """
    first, *rest = key.split("/", 3)
    if first == "model":
        return "keyed" if len(rest) > 2 else "weights"
    return _KINDS.get(first, "settings")


def inventory(entries: Mapping[str, bytes], letters: Sequence[DeadLetter] = ()) -> dict[str, Share]:
    """Every kind, in the order of `BOUNDS`."""
    shares = {kind: Share() for kind in BOUNDS}
    for key, value in entries.items():
        share = shares[kind_of(key)]
        share.entries += 1
        share.bytes += len(key.encode()) + len(value)
    shares["letters"] = Share(len(letters), sum(len(msgspec.msgpack.encode(letter)) for letter in letters))
    return shares


class Budget:
    """Keeps count of a shard's bytes, and refuses a commit that would take it over `max_mb`.

    It evicts nothing: each table has a limit of its own, and the refusal says which to lower.
    """

    def __init__(self, shard: str, max_mb: int, entries: Mapping[str, bytes]) -> None:
        self.shard, self.limit = shard, max_mb * MB
        self._sizes = {key: len(key.encode()) + len(value) for key, value in entries.items()}
        self._bytes: Counter[str] = Counter()
        for key, size in self._sizes.items():
            self._bytes[kind_of(key)] += size
        self._warned = False

    @property
    def room(self) -> int:
        """Bytes left for what others learnt: the last fifth is for what is the shard's own."""
        return int(ALARM * self.limit) - self._bytes.total()

    def check(self, writes: Mapping[str, bytes | None]) -> None:
        """Raise `StoreFull` if the shard would be too large with these; else count them in."""
        after = self._bytes.copy()
        sizes = {key: 0 if value is None else len(key.encode()) + len(value) for key, value in writes.items()}
        for key, size in sizes.items():
            after[kind_of(key)] += size - self._sizes.get(key, 0)
        total = after.total()
        if total > self.limit and total > self._bytes.total():  # to become smaller is always allowed
            raise StoreFull(
                f"shard {self.shard!r} would hold {total / MB:.1f} MB; max_state_mb is "
                f"{self.limit // MB}. Nothing was written. Largest: {_largest(after)}. Raise max_state_mb, "
                "or lower those and go on with --adopt-config."
            )
        if total > ALARM * self.limit and not self._warned:
            log.warning(
                "shard %r holds %.1f MB, of %d that max_state_mb allows. Largest: %s",
                self.shard, total / MB, self.limit // MB, _largest(after),
            )  # fmt: skip
        self._warned = total > ALARM * self.limit
        self._bytes = after
        for key, size in sizes.items():
            if size:
                self._sizes[key] = size
            else:
                self._sizes.pop(key, None)


def _largest(sizes: Counter[str]) -> str:
    return ", ".join(
        f"{kind} {size / MB:.1f} MB" + (f" (lower {BOUNDS[kind]})" if BOUNDS[kind] else "")
        for kind, size in sizes.most_common(2)
    )
