"""What the checks teach: small reproducible lessons of every kind a ranker can learn from."""

from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

import numpy as np

from ..features.batch import (
    BY_LABEL,
    EVERY_OTHER,
    EXAMPLE,
    EXPLICIT,
    SCORED,
    Batch,
    BatchBuilder,
    Ints,
    sparse_rows,
)
from .base import Ranker

Example = dict[str, float]

NAMES = tuple("hgfedcba")  # not in sorted order: columns and names are never in step by chance
TASTE = {name: (-1.0) ** k * (1.0 + k) / 4 for k, name in enumerate(NAMES)}
MODES = {"explicit": EXPLICIT, "every other": EVERY_OTHER, "scored": SCORED, "example": EXAMPLE}
KINDS = ("list", "pair", "example", "list", "every other", "explicit", "scored")


class Lesson(NamedTuple):
    """One thing to learn, in the words of the dict interface or, with `wide`, by column numbers."""

    kind: str  # list, pair, example; every other, explicit, scored: only as a batch
    xs: list[Example]
    ys: list[float]
    weights: list[float]
    query: str = ""
    wide: Sequence[Mapping[int, float]] = ()

    def teach(self, ranker: Ranker) -> None:
        """Through the dict interface where it can say it."""
        if self.wide or self.kind not in ("list", "pair", "example"):
            ranker.learn_batch(batch_of(ranker, [self]))
        elif self.kind == "pair":
            ranker.learn_pair(self.xs[0], self.xs[1], self.weights[0])
        elif self.kind == "example":
            ranker.learn_one(self.xs[0], self.ys[0], query=self.query)
        else:
            ranker.learn_list(self.xs, self.ys, query=self.query, weights=self.weights)

    def moved(self, columns: Ints) -> "Lesson":
        """The same lesson with column j called ``columns[j]``."""
        return self._replace(wide=[{int(columns[j]): v for j, v in row.items()} for row in self.wide])


def named_lessons(n: int, seed: int = 0, kinds: Sequence[str] = KINDS) -> Iterator[Lesson]:
    """Sparse examples that `TASTE` ranks, in every kind in turn."""
    rng = np.random.default_rng(seed)
    for k in range(n):
        kind = kinds[k % len(kinds)]
        size = {"pair": 2, "example": 1}.get(kind, int(rng.integers(2, 8)))
        xs = [{name: float(rng.normal()) for name in NAMES if rng.random() < 0.7} for _ in range(size)]
        ys, weights = _judged([sum(TASTE[name] * v for name, v in x.items()) for x in xs], kind, rng)
        if kind == "pair" and ys[0] < ys[1]:
            xs, ys, weights = xs[::-1], ys[::-1], weights[::-1]
        yield Lesson(kind, xs, ys, weights, "" if kind == "pair" else f"q{k % 5}")


def wide_lessons(n: int, columns: int = 3 * 4096, seed: int = 1) -> Iterator[Lesson]:
    """The same by column number, over several blocks: later lists hold higher columns."""
    rng = np.random.default_rng(seed)
    for k in range(n):
        top = max(8, columns * (k + 1) // n)
        rows = [
            {int(j): float(rng.normal()) for j in np.sort(rng.choice(top, 5, replace=False))}
            for _ in range(4)
        ]
        ys, weights = _judged([sum(row.values()) for row in rows], "list", rng)
        yield Lesson("list", [], ys, weights, f"w{k % 3}", rows)


def _judged(scores: list[float], kind: str, rng: np.random.Generator) -> tuple[list[float], list[float]]:
    if kind == "example":
        return scores, [1.0]
    weights = [float(c) for c in rng.uniform(0.5, 2.0, len(scores))]
    if kind == "pair":
        return [float(scores[0] >= scores[1]), float(scores[0] < scores[1])], [weights[0]] * 2
    best = sorted(scores)[-(len(scores) // 2 + 1) :]
    return [float(score in best) + float(score == best[-1]) for score in scores], weights


def batch_of(ranker: Ranker, lessons: Sequence[Lesson]) -> Batch:
    """All lessons in order; names get their columns from the ranker."""
    builder = BatchBuilder()
    for lesson in lessons:
        rows = lesson.wide or [ranker._row(x) for x in lesson.xs]
        pairs = []
        if lesson.kind == "explicit":
            pairs = [(0, j, lesson.weights[j]) for j in range(1, len(rows))]
        mode = MODES.get(lesson.kind, BY_LABEL)
        builder.add(sparse_rows(rows), lesson.ys, lesson.weights, mode, pairs, lesson.query)
    return builder.build()
