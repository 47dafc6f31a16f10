"""Long arrays in blocks of rows, so that a commit writes the blocks that changed and not the whole.

An array of at most BLOCK rows is one entry, `name`; a longer one is `name#0`, `name#1`, … An array's own name
may end like a block's (`u/c#3`): it then gets one more `#`, which `join` takes off again.
"""

import re
from collections.abc import Collection, Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from streamrank.errors import StoreError

Array = npt.NDArray[Any]

BLOCK = 4096

_BLOCK_NAME = re.compile(r"(.*)#([0-9]+)", re.DOTALL)
_LIKE_A_BLOCK = re.compile(r".*#[0-9]*", re.DOTALL)


def split(
    name: str, array: Array, dirty: Collection[int] | None = None, *, stored: int | None = None
) -> dict[str, Array | None]:
    """What to commit of `array`: an entry a block, ``None`` for an entry to delete. The blocks are views.

    Parameters
    ----------
    dirty
        The numbers of the blocks that changed since the last commit; without it, all are written.
    stored
        How many rows of it the store holds now. Every block that the change of length touches is then
        written or deleted, whether in `dirty` or not. Without it the array must not have shrunk, and `dirty`
        must name the blocks of its new rows; the first block is written in any case, since it may have been
        the plain entry until now, and so is the last.

    Examples
    --------
    >>> list(split("w", np.zeros(5000), dirty={1}, stored=5000))
    ['w#1']
    >>> {key: None if rows is None else len(rows) for key, rows in split("w", np.zeros(5000)).items()}
    {'w': None, 'w#0': 4096, 'w#1': 904}
    """
    base = name + "#" if _LIKE_A_BLOCK.fullmatch(name) else name
    layout = _layout(base, len(array) if array.ndim else 1)
    before = {base: None} if stored is None else _layout(base, stored)
    last = len(layout) - 1

    entries: dict[str, Array | None] = {key: None for key in before if key not in layout}
    for k, (key, rows) in enumerate(layout.items()):
        moved = k in (0, last) if stored is None else before.get(key) != rows
        if dirty is None or k in dirty or moved:
            entries[key] = array[rows] if last else array
    return entries


def join(entries: Mapping[str, Array]) -> dict[str, Array]:
    """The arrays that `split` took apart, whatever the order of `entries`.

    >>> join({"w#1": np.zeros(904), "n": np.ones(2), "w#0": np.zeros(4096)})["w"].shape
    (5000,)
    """
    whole: dict[str, Array] = {}
    parts: dict[str, dict[int, Array]] = {}
    for key, array in entries.items():
        if block := _BLOCK_NAME.fullmatch(key):
            parts.setdefault(_own_name(block[1]), {})[int(block[2])] = array
        else:
            whole[_own_name(key)] = array
    for name, blocks in parts.items():
        if name in whole:
            raise StoreError(f"array {name!r} is stored both whole and in blocks: restore a snapshot")
        ordered = [blocks[k] for k in sorted(blocks)]
        first = ordered[0]
        fits = (
            len(ordered) > 1
            and sorted(blocks) == list(range(len(blocks)))
            and all(len(rows) == BLOCK for rows in ordered[:-1])
            and 0 < len(ordered[-1]) <= BLOCK
            and all(rows.dtype == first.dtype and rows.shape[1:] == first.shape[1:] for rows in ordered)
        )
        if not fits:
            raise StoreError(f"the blocks {sorted(blocks)} of array {name!r} do not fit: restore a snapshot")
        whole[name] = np.concatenate(ordered)
    return whole


def _layout(base: str, n_rows: int) -> dict[str, slice]:
    if n_rows <= BLOCK:
        return {base: slice(0, n_rows)}
    starts = range(0, n_rows, BLOCK)
    return {f"{base}#{k}": slice(start, min(start + BLOCK, n_rows)) for k, start in enumerate(starts)}


def _own_name(base: str) -> str:
    return base.removesuffix("#")
