"""Who clicked what, as the recommenders were given it: what a refit, and the archive, are made of."""

from collections.abc import Iterable, Sequence
from typing import NamedTuple, Self

import numpy as np

from ..features.batch import Floats, Ints


class Clicks(NamedTuple):
    """Clicks in the order in which they were learnt, numbered from ``first`` on."""

    users: Sequence[str]
    items: Sequence[str]
    weights: Floats
    offset: Ints  # of the record that each came with, never falling
    first: int

    @property
    def end(self) -> int:
        """One more than the number of the last click."""
        return self.first + len(self.users)

    def part(self, a: int, b: int) -> Self:
        """Those from place a to place b alone.

        >>> Clicks(["u", "v"], ["a", "b"], np.ones(2), np.arange(2), 7).part(1, 2).end
        9
        """
        a, b = max(a, 0), max(b, 0)
        return self._replace(
            users=self.users[a:b],
            items=self.items[a:b],
            weights=self.weights[a:b],
            offset=self.offset[a:b],
            first=self.first + min(a, len(self.users)),
        )


def joined(pieces: Iterable[Clicks], first: int = 0) -> Clicks:
    """Pieces that follow each other as one, with one string for each name; `first` if there are none."""
    names: dict[str, str] = {}
    users: list[str] = []
    items: list[str] = []
    weights, offset = [np.zeros(0)], [np.zeros(0, np.int64)]
    for n, piece in enumerate(pieces):
        first = first if n else piece.first
        users += [names.setdefault(name, name) for name in piece.users]
        items += [names.setdefault(name, name) for name in piece.items]
        weights.append(piece.weights)
        offset.append(piece.offset)
    return Clicks(users, items, np.concatenate(weights), np.concatenate(offset), first)
