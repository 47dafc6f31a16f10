"""X'LX of rows in blocks that are fetched one after the other: more rows than memory holds."""

import functools
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any, NamedTuple, TypeVar

import numpy as np

from .csr import Floats, Ints, Matrix
from .operators import PairOperator, ScoreOperator

T = TypeVar("T")
NO_ROWS, NO_WEIGHTS = np.zeros(0, np.int64), np.zeros(0)


class Block(NamedTuple):
    """Whole lists: rows, the borders of the lists, their weights, and a label for each row.

    Beside that, or instead (weights of 0), preferences between rows of one list: (9) of [1] beside (8).
    """

    matrix: Matrix
    lists: Ints
    weights: Floats
    y: Floats
    better: Ints = NO_ROWS
    worse: Ints = NO_ROWS
    pair_weights: Floats = NO_WEIGHTS

    def operators(self) -> list[Any]:
        """X'LX of these rows alone, and X'M diag(c) M'X of their preferences, each where there is one."""
        found: list[Any] = []
        if not len(self.better) or self.weights.any():
            found.append(ScoreOperator(self.matrix, self.lists, self.weights))
        if len(self.better):
            found.append(PairOperator(self.matrix, self.better, self.worse, self.pair_weights))
        return found

    def product(self, v: Floats) -> Floats:
        """Hv."""
        return _total(operator(v) for operator in self.operators())

    def rhs(self) -> Floats:
        """b."""
        return _total(o.rhs(self.y) if isinstance(o, ScoreOperator) else o.rhs() for o in self.operators())

    def gram(self) -> Floats:
        """H itself, n x n."""
        return _total(operator.gram() for operator in self.operators())


def _total(parts: Iterator[Floats]) -> Floats:
    return functools.reduce(np.add, parts)


Fetch = Callable[[], Block]


class BlockedOperator:
    """v -> X'L(Xv) as the sum over blocks of whole lists, [1] (8) without lambda; with preferences also (9).

    No list reaches over a border, so L is block diagonal and H = H_1 + H_2 + ...; each product fetches every
    block once, and lets it go before the next but `n_threads` comes. The sum runs in the order of the blocks
    whatever the number of threads: the same bits.

    Parameters
    ----------
    fetch
        One function for each block. A block may have fewer columns than n: the rest of its rows is 0.
    n
        Columns.
    n_threads
        So many blocks are worked on, and held, at a time.

    Examples
    --------
    >>> X, y, lists = np.array([[1.0, 0.0], [3.0, 0.0]]), np.array([0.0, 1.0]), np.array([0, 2])
    >>> H = BlockedOperator([lambda: Block(Matrix(X), lists, np.ones(1), y)] * 3, 2)
    >>> H(np.array([1.0, 1.0])), H.rhs()
    (array([6., 0.]), array([3., 0.]))

    References
    ----------
    [1] Large scale training methods for linear RankRLS (Airola, Pahikkala, Salakoski).
    """

    def __init__(self, fetch: Sequence[Fetch], n: int, *, n_threads: int = 1) -> None:
        if n_threads < 1:
            raise ValueError(f"n_threads is {n_threads}: give 1 or more")
        self.fetch, self.shape, self.n_threads = list(fetch), (n, n), n_threads

    def __call__(self, v: Floats) -> Floats:
        """X'LXv."""
        return self._sum(lambda block: block.product(v[: block.matrix.shape[1]]))

    def rhs(self) -> Floats:
        """b = X'Ly."""
        return self._sum(lambda block: block.rhs())

    def scores(self, w: Floats) -> Floats:
        """Xw of all rows."""
        parts = self._each(lambda block: block.matrix.scores(w[: block.matrix.shape[1]]))
        return np.concatenate([np.zeros(0), *parts])

    def gram(self) -> Floats:
        """X'LX itself, n x n: for few columns."""
        H = np.zeros(self.shape)
        for part in self._each(lambda block: block.gram()):
            H[: len(part), : len(part)] += part
        return H

    def _sum(self, work: Callable[[Block], Floats]) -> Floats:
        total = np.zeros(self.shape[0])
        for part in self._each(work):
            total[: len(part)] += part
        return total

    def _each(self, work: Callable[[Block], T]) -> Iterator[T]:
        """`work` of each block, in their order."""
        if self.n_threads == 1:
            yield from (work(fetch()) for fetch in self.fetch)
            return
        with ThreadPoolExecutor(self.n_threads) as pool:
            running: deque[Future[T]] = deque()
            for fetch in self.fetch:
                if len(running) == self.n_threads:
                    yield running.popleft().result()
                running.append(pool.submit(lambda fetch: work(fetch()), fetch))
            while running:
                yield running.popleft().result()
