"""Event ids seen lately: an event delivered twice is learnt once."""

from collections import OrderedDict
from collections.abc import Mapping, Sequence
from typing import Any

IDS_A_BLOCK = 128  # the open block is what a commit writes again: about 5 kB


class SeenIds:
    """Ids of the last `window_ms` of event time, at most `limit`; whole blocks are forgotten, oldest first.

    >>> seen = SeenIds(window_ms=1000, limit=1000)
    >>> seen.add("click c-1", 50), seen.add("click c-1", 60), seen.add("click c-2", 60)
    (True, False, True)
    """

    def __init__(self, window_ms: int, limit: int) -> None:
        self.window_ms, self.limit = window_ms, limit
        self._known: set[str] = set()
        self._blocks: OrderedDict[int, tuple[int, list[str]]] = OrderedDict()  # number -> (newest time, ids)
        self._block = max(
            1, min(IDS_A_BLOCK, limit // 8)
        )  # a small limit must not be one block, gone at once
        self._next = 0
        self._touched: set[int] = set()

    def __contains__(self, key: str) -> bool:
        return key in self._known

    def __len__(self) -> int:
        return len(self._known)

    def add(self, key: str, time_ms: int) -> bool:
        """Remember an id; False if it was known already."""
        if key in self._known:
            return False
        self._known.add(key)
        number = self._next - 1
        newest, ids = self._blocks.get(number, (0, []))
        if number not in self._blocks or len(ids) >= self._block:
            number, newest, ids = self._next, 0, []
            self._next += 1
        ids.append(key)
        self._blocks[number] = (max(newest, time_ms), ids)
        self._touched.add(number)
        if len(self._known) > self.limit:
            self._forget()
        return True

    def expire(self, watermark: int) -> None:
        """Forget the blocks whose newest event lies more than the window behind the watermark."""
        while self._blocks:
            newest, _ = next(iter(self._blocks.values()))
            if newest >= watermark - self.window_ms:
                return
            self._forget()

    def _forget(self) -> None:
        number, (_, ids) = self._blocks.popitem(last=False)
        self._known.difference_update(ids)
        self._touched.add(number)

    def to_state(self) -> dict[str, list[Any]]:
        """One entry a block, and the number of the next."""
        blocks = {str(number): [newest, list(ids)] for number, (newest, ids) in self._blocks.items()}
        return {"next": [self._next], **blocks}

    def from_state(self, state: Mapping[str, Sequence[Any]]) -> None:
        """Take up what `to_state` gave."""
        self._blocks = OrderedDict(
            (number, (int(state[str(number)][0]), list(state[str(number)][1])))
            for number in sorted(int(key) for key in state if key != "next")
        )
        self._known = {key for _, ids in self._blocks.values() for key in ids}
        self._next = int(state["next"][0]) if "next" in state else 0
        self._touched.clear()

    def dirty(self) -> dict[str, list[Any] | None]:
        """Blocks that changed since the last call; None for those forgotten."""
        changed: dict[str, list[Any] | None] = {"next": [self._next]}
        for number in sorted(self._touched):
            block = self._blocks.get(number)
            changed[str(number)] = None if block is None else [block[0], list(block[1])]
        self._touched.clear()
        return changed
