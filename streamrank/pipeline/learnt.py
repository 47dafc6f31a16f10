"""Judged lists as the models were given them: what a reconciliation, and the archive, are made of."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import pairwise
from typing import NamedTuple

import numpy as np

from ..features.batch import Batch, Ints, join_batches
from .model import Trials


class Learnt(NamedTuple):
    """Lists in the order in which they were learnt, and where each comes from.

    A ranking is judged anew at each click, and each judgement holds only what is new of it; so the number of
    a ranking may come again. Lists are numbered in the order of learning, from ``first`` on.
    """

    batch: Batch
    ranking: Ints  # its number
    offset: Ints  # of the record that had it judged, never falling
    first: int
    items: Sequence[Sequence[str]]  # the names of its rows, where they have any

    @property
    def end(self) -> int:
        """One more than the number of the last list."""
        return self.first + len(self.ranking)

    def part(self, a: int, b: int) -> "Learnt":
        """Those from place a to place b alone."""
        return Learnt(
            self.batch.part(a, b), self.ranking[a:b], self.offset[a:b], self.first + a, self.items[a:b]
        )

    def only(self, places: Ints) -> "Learnt":
        """Those at some places, in that order; their numbers are lost."""
        batch = join_batches([self.batch.part(q, q + 1) for q in places.tolist()])
        items = [self.items[q] for q in places]
        return Learnt(batch, self.ranking[places], self.offset[places], self.first, items)


def recording(counts: Mapping[str, int], take: Callable[[Learnt], None]) -> Callable[[Batch, Trials], None]:
    """A recorder for a flow that has these counts."""

    def record(batch: Batch, trials: Trials) -> None:
        ranking, offset = np.array(trials.index, np.int64), np.array(trials.offset, np.int64)
        take(Learnt(batch, ranking, offset, counts["learnt"], trials.items))

    return record


def walk(lists: Iterable[Learnt], borders: Iterable[int], at: Callable[[int], None]) -> Iterator[Learnt]:
    """The lists in pieces; `at(border)` is called between those of records before it and those from it on."""
    waiting = sorted(set(borders), reverse=True)
    for learnt in lists:
        done, n = 0, len(learnt.ranking)
        while waiting and (end := int(np.searchsorted(learnt.offset, waiting[-1]))) < n:
            if end > done:
                yield learnt.part(done, end)
            done = end
            at(waiting.pop())
        if done < n:
            yield learnt.part(done, n) if done else learnt
    while waiting:
        at(waiting.pop())


def cut(learnt: Learnt, numbers: Iterable[int]) -> Iterator[Learnt]:
    """The lists in pieces, a new one at each of the numbers."""
    places = sorted({0, len(learnt.ranking), *(n - learnt.first for n in numbers)})
    for a, b in pairwise(place for place in places if 0 <= place <= len(learnt.ranking)):
        yield learnt.part(a, b)
