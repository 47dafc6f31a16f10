"""The training set of a reconciliation: in blocks on disk to be solved, and in memory to be measured by."""

from contextlib import AbstractContextManager, ExitStack, nullcontext
from itertools import chain
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import numpy as np

from ..features.batch import EXAMPLE, Floats, Ints, join_batches
from ..kernels.blocked import BlockedOperator
from ..sources.blockfile import MB, BlockWriter, StoredBlock, block_mb, read_blocks
from .cluster import DaskOperator, dask_client
from .judgements import HeldOut, Judgements, grouped, rows_of
from .learnt import Learnt

FIT, VALIDATE, DECIDE = range(3)
VALUE_BYTES = 12  # of a stored value and its column
HELD_SHARE = 32  # of the memory for each set to measure by: they are joined, scaled and scored


class TrainingSet:
    """Lists of several shards in three parts: to fit, to validate, to decide.

    All go to disk, in blocks that suit `memory_mb`; of the last two as many as fill a small share of it are
    kept to be measured by. Single examples wait in memory until the end, as those of one query are one list.
    """

    def __init__(self, folder: Path, memory_mb: int, n_shards: int = 1) -> None:
        self.n_lists, self.n_rows = [0, 0, 0], [0, 0, 0]
        self.n_columns = 0
        self._square = np.zeros(0)
        self._limit = memory_mb * MB / HELD_SHARE / VALUE_BYTES / n_shards
        self._held: list[dict[str, Judgements]] = [{}, {}, {}]
        self._examples: list[dict[str, Judgements]] = [{}, {}, {}]
        self._paths = [folder / f"part{k}" for k in range(3)]
        self._stack = ExitStack()
        size = block_mb(memory_mb) * MB
        self._writers = [self._stack.enter_context(BlockWriter(path, size)) for path in self._paths]
        self._blocks: list[list[StoredBlock]] = []

    def add(self, part: int, shard: str, learnt: Learnt, columns: Ints | None) -> None:
        """More lists of a shard, in its order; `columns` are those here of the shard's own."""
        batch = learnt.batch
        if columns is not None:
            batch = batch._replace(indices=columns[batch.indices].astype(np.int32))
            learnt = learnt._replace(batch=batch)
        self.n_lists[part] += batch.n_lists
        self.n_rows[part] += len(batch.y)
        self.n_columns = max(self.n_columns, batch.n_columns)
        if part == FIT:
            more = max(self.n_columns - len(self._square), 0)
            self._square = np.concatenate([self._square, np.zeros(more)])
            np.add.at(self._square, batch.indices, batch.values**2)  # in order: however the pieces fell
        else:
            self._held[part].setdefault(shard, Judgements(self._limit))(learnt)
        single = batch.mode == EXAMPLE
        if single.any():
            self._examples[part].setdefault(shard, Judgements())(learnt.only(np.flatnonzero(single)))
            batch = learnt.only(np.flatnonzero(~single)).batch
        batch = grouped(batch)
        if batch.n_lists:
            self._writers[part].add(*rows_of(batch))

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """All is there: finish the files."""
        if kind is None:
            for part, shards in enumerate(self._examples):
                for examples in shards.values():
                    self._writers[part].add(*rows_of(examples.batch()))
        self._stack.__exit__(kind, error, trace)
        if kind is None:
            self._blocks = [read_blocks(path)[1] for path in self._paths]

    @property
    def spread(self) -> Floats:
        """The root of the mean square of each column over the rows to fit; 1 where a column is empty."""
        square = np.zeros(self.n_columns)
        square[: len(self._square)] = self._square[: self.n_columns] / max(self.n_rows[FIT], 1)
        return np.where(square > 0, np.sqrt(square), 1.0)

    def held_out(self, part: int, spread: Floats) -> HeldOut:
        """What weights are measured on."""
        batches = [held.last() for held in self._held[part].values()]
        self._held[part] = {}
        return HeldOut(join_batches(batches), self.n_columns, spread)

    def problem(self, spread: Floats, client: Any = None, parts: tuple[int, ...] = (FIT,)) -> "Problem":
        """The full-batch problem of some parts, over the workers of a Dask client if one is given."""
        blocks = list(chain(*(self._blocks[part] for part in parts)))
        n, rows = self.n_columns, sum(self.n_rows[part] for part in parts)
        operator = DaskOperator(client, blocks, n) if client else BlockedOperator(blocks, n)
        return Problem(operator, spread, rows)


class Problem:
    """RankRLS on judged lists: (H + lam) w = b, H = X'LX + X'M diag(c) M'X, never formed.

    Columns are over their spread, the root of the mean square, so that one lam suits prices in thousands and
    rates below one: with S their diagonal, H is S^-1 H S^-1 of the rows as they are, b is S^-1 b.
    """

    def __init__(self, operator: BlockedOperator | DaskOperator, spread: Floats, n_rows: int) -> None:
        self.n_rows = n_rows
        self._operator, self._spread = operator, spread
        self.b = operator.rhs() / spread

    def __call__(self, v: Floats) -> Floats:
        """Hv."""
        return self._operator(v / self._spread) / self._spread


def client_of(dask: str | None) -> AbstractContextManager[Any]:
    """A Dask client, or nothing where there is to be none."""
    return dask_client(dask) if dask else nullcontext()
