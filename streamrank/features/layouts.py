"""Dicts that hold the same names again and again: their columns are found once, their values copied."""

import struct
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from .batch import Batch, Columns, Floats, Ints, Modes
from .columns import Vocabulary

MAX_FRAMES = 64  # kept at most; they are made again when they are needed


class _Frame(NamedTuple):
    """What all lists of so many rows with these names share. Nobody changes these arrays."""

    pack: Callable[..., bytes]  # all values of the list -> their bytes
    order: Ints  # where each value stands in the dicts, columns ascending
    indptr: Ints
    indices: Columns
    lists: Ints
    ones: Floats
    modes: Modes  # 0, 1, 2, …
    no_pairs: Ints
    no_columns: Columns
    no_weights: Floats


class Layouts:
    """One list of dicts as a `Batch`, quickly, where all have the same known names in the same order.

    Nothing here is state: what a vocabulary says of a name never changes while it is in use.
    """

    def __init__(self, columns: Vocabulary) -> None:
        self._columns = columns
        self._frames: dict[tuple[tuple[str, ...], int], _Frame] = {}

    def __getstate__(self) -> dict[str, Any]:  # frames are not worth a copy, nor can they be pickled
        return {"_columns": self._columns, "_frames": {}}

    def clear(self) -> None:
        """The vocabulary begins anew."""
        self._frames.clear()

    def batch(
        self,
        xs: Sequence[Mapping[str, float]],
        y: Sequence[float] | None = None,
        c: Sequence[float] | None = None,
        mode: int = 0,
        query: str = "",
    ) -> Batch | None:
        """The batch of one list; None where names are new, differ or miss a value: then the long way round.

        Without `y` or `c` these are all 1.
        """
        if not xs:
            return None
        names = [*xs[0]]
        flat: list[float] = []
        for x in xs:
            if [*x] != names:
                return None
            flat += x.values()
        key = tuple(names), len(xs)
        frame = self._frames.get(key) or self._frame(*key)
        if frame is None:
            return None
        try:
            values = np.frombuffer(frame.pack(*flat)).take(frame.order)
        except struct.error:  # not a plain number
            return None
        if np.isnan(values).any():  # such a value is missing
            return None
        return Batch(
            indptr=frame.indptr,
            indices=frame.indices,
            values=values,
            lists=frame.lists,
            y=frame.ones if y is None else np.array(y, dtype=np.float64),
            c=frame.ones if c is None else np.array(c, dtype=np.float64),
            mode=frame.modes[mode : mode + 1],
            pairs=frame.no_pairs,
            better=frame.no_columns,
            worse=frame.no_columns,
            pair_c=frame.no_weights,
            queries=(query,),
        )

    def _frame(self, names: tuple[str, ...], n: int) -> _Frame | None:
        found = np.array([self._columns.find(name) for name in names], dtype=np.int32)
        if not len(found) or found.min() < 0:
            return None
        order, width = np.argsort(found), len(names)
        if len(self._frames) >= MAX_FRAMES:
            self._frames.clear()
        self._frames[names, n] = _Frame(
            pack=struct.Struct(f"{n * width}d").pack,
            order=(order + width * np.arange(n)[:, None]).ravel(),
            indptr=np.arange(0, n * width + 1, width),
            indices=np.tile(found[order], n),
            lists=np.array([0, n]),
            ones=np.ones(n),
            modes=np.arange(8, dtype=np.int8),
            no_pairs=np.zeros(2, dtype=np.int64),
            no_columns=np.zeros(0, dtype=np.int32),
            no_weights=np.zeros(0),
        )
        return self._frames[names, n]
