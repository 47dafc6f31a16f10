"""Judged lists on disk in blocks, mapped into memory one at a time: what is solved may exceed memory."""

import json
import mmap
import os
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import zip_longest
from pathlib import Path
from types import SimpleNamespace, TracebackType
from typing import Any, Self

import numpy as np

from ..errors import SourceError
from ..features.batch import Floats, Ints
from ..kernels.blocked import NO_ROWS, NO_WEIGHTS, Block
from ..kernels.csr import AnyArray, Matrix

FORMAT = 2
PAIRS = ("better", "worse", "pair_weights")
_ALIGN = 64  # bytes: where an array may begin
MB = 1 << 20


def block_mb(memory_mb: int) -> int:
    """Megabytes of a block under a budget for the whole process: small beside it, large beside a product.

    >>> block_mb(256), block_mb(8192)
    (16, 64)
    """
    return max(1, min(memory_mb // 16, 64))


@dataclass(frozen=True)
class StoredBlock:
    """One block of a file; called, it is mapped. What was mapped is given back when nobody holds it.

    It can be sent to another process that sees the same file. ``ahead`` bytes behind it are asked for at the
    same time, so that the disk works while the block is worked on.
    """

    path: Path
    start: int
    arrays: dict[str, tuple[str, int, int]]  # dtype, place, length
    shape: tuple[int, int]
    ahead: int

    def __call__(self) -> Block:
        """The block, checked when it was written."""
        held = self._map()
        form = "dense" if "indices" not in held else "sparse"
        if form == "dense":
            X: Any = held["data"].reshape(self.shape)
        else:
            parts = {name: held[name] for name in ("indptr", "indices", "data")}
            X = SimpleNamespace(**parts, shape=self.shape)
        matrix = Matrix(X, form=form, checked=True)
        return Block(matrix, *(held[name] for name in ("lists", "weights", "y", *PAIRS)))

    def _map(self) -> dict[str, AnyArray]:
        size = max(place + np.dtype(kind).itemsize * length for kind, place, length in self.arrays.values())
        before = self.start % mmap.ALLOCATIONGRANULARITY
        with self.path.open("rb") as file:
            at = mmap.mmap(file.fileno(), before + size, access=mmap.ACCESS_READ, offset=self.start - before)
            if self.ahead and hasattr(os, "posix_fadvise"):
                os.posix_fadvise(file.fileno(), self.start + size, self.ahead, os.POSIX_FADV_WILLNEED)
        return {
            name: np.frombuffer(at, kind, length, before + place)
            for name, (kind, place, length) in self.arrays.items()
        }


class BlockWriter:
    """Write judged lists as blocks of about `size` bytes; a list stays whole, so one may be larger.

    Examples
    --------
    >>> import tempfile
    >>> folder = Path(tempfile.mkdtemp())
    >>> with BlockWriter(folder / "rows") as writer:
    ...     writer.add(np.array([[1.0, 0.0], [3.0, 0.0]]), np.array([0.0, 1.0]))
    >>> n, blocks = read_blocks(folder / "rows")
    >>> n, blocks[0]().y
    (2, array([0., 1.]))
    """

    def __init__(self, path: str | Path, size: int = 64 * MB) -> None:
        self.path, self.size = Path(path), size
        _contents(self.path).unlink(missing_ok=True)  # that of a file that was here before
        self._file = self.path.open("wb")
        self._blocks: list[dict[str, Any]] = []
        self._held: list[Block] = []
        self._n = self._bytes = 0

    def add(
        self,
        X: Any,
        y: AnyArray,
        lists: Ints | None = None,
        weights: Floats | None = None,
        pairs: tuple[Ints, Ints, Floats] | None = None,
    ) -> None:
        """More whole lists: rows as for `Matrix`, a label each, borders (None: one list) and weights (1).

        `pairs` are preferences, list after list: row better, row worse, weight.
        """
        matrix = X if isinstance(X, Matrix) else Matrix(X)
        m, n = matrix.shape
        borders = np.array([0, m]) if lists is None else np.ascontiguousarray(lists, np.int64)
        c = np.ones(len(borders) - 1) if weights is None else np.ascontiguousarray(weights, np.float64)
        labels = np.ascontiguousarray(y, np.float64)
        if len(labels) != m or not np.isfinite(labels).all():
            raise SourceError(f"{len(labels)} labels for {m} rows: give one finite label for each row")
        better, worse, pair_c = pairs or (NO_ROWS, NO_ROWS, NO_WEIGHTS)
        # refuses what no operator could be made of
        Block(matrix, borders, c, labels, better, worse, pair_c).operators()
        pair_lists = np.searchsorted(borders, better, side="right") - 1
        self._n = max(self._n, n)
        if matrix.dense is not None:
            before = np.arange(m + 1) * n * matrix.dense.itemsize
        else:
            before = matrix.indptr * (matrix.data.itemsize + matrix.indices.itemsize)
        first = 0
        while first < len(c):  # as many lists as there is room for in the block, at least one
            room = before[borders[first]] + max(self.size - self._bytes, 0)
            end = max(int(np.searchsorted(before[borders], room, side="right")) - 1, first + 1)
            a, b = int(borders[first]), int(borders[end])
            p, t = np.searchsorted(pair_lists, (first, end)).tolist()
            part = Block(_cut(matrix, a, b), borders[first : end + 1] - a, c[first:end], labels[a:b])
            part = part._replace(better=better[p:t] - a, worse=worse[p:t] - a, pair_weights=pair_c[p:t])
            self._held.append(part)
            self._bytes += int(before[b] - before[a])
            if self._bytes >= self.size or end < len(c):
                self._flush()
            first = end

    def _flush(self) -> None:
        if not self._held:
            return
        dense = all(part.matrix.dense is not None and part.matrix.shape[1] == self._n for part in self._held)
        shape = (sum(len(part.y) for part in self._held), self._n)
        arrays: dict[str, list[AnyArray]] = {"y": [part.y for part in self._held]}
        arrays["weights"] = [part.weights for part in self._held]
        arrays["lists"] = _joined([part.lists for part in self._held])
        rows = np.cumsum([0] + [len(part.y) for part in self._held])[:-1]
        arrays["better"] = [part.better + row for part, row in zip(self._held, rows, strict=True)]
        arrays["worse"] = [part.worse + row for part, row in zip(self._held, rows, strict=True)]
        arrays["pair_weights"] = [part.pair_weights for part in self._held]
        if dense:
            arrays["data"] = [_dense(part).ravel() for part in self._held]
        else:
            sparse = [_sparse(part.matrix) for part in self._held]
            arrays["indptr"] = _joined([matrix.indptr for matrix in sparse])
            arrays["indices"] = [matrix.indices.astype(np.int32, copy=False) for matrix in sparse]
            arrays["data"] = [matrix.data for matrix in sparse]
        kind = np.result_type(*arrays["data"])
        arrays["data"] = [values.astype(kind, copy=False) for values in arrays["data"]]
        self._pad()
        start, places = self._file.tell(), {}
        for name, parts in arrays.items():
            self._pad()
            length = sum(len(part) for part in parts)
            places[name] = (parts[0].dtype.str, self._file.tell() - start, length)
            for part in parts:
                self._file.write(np.ascontiguousarray(part).data)
        self._blocks.append({"start": start, "end": self._file.tell(), "shape": shape, "arrays": places})
        self._held, self._bytes = [], 0

    def _pad(self) -> None:
        self._file.write(bytes(-self._file.tell() % _ALIGN))

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Write the table of contents, aside and then renamed: a file without one is not finished."""
        if kind is None:
            self._flush()
        self._file.close()
        if kind is None:
            aside = _contents(self.path).with_suffix(".aside")
            aside.write_text(json.dumps({"format": FORMAT, "n": self._n, "blocks": self._blocks}), "utf-8")
            aside.replace(_contents(self.path))


def write_blocks(
    path: str | Path, chunks: Iterable[Any], size: int = 64 * MB
) -> tuple[int, list[StoredBlock]]:
    """Write chunks of (X, y, lists, weights, pairs), as `BlockWriter.add` takes them, and open the blocks."""
    with BlockWriter(path, size) as writer:
        for chunk in chunks:
            writer.add(*chunk)
    return read_blocks(path)


def read_blocks(path: str | Path) -> tuple[int, list[StoredBlock]]:
    """The number of columns, and the blocks of a finished file."""
    path = Path(path)
    try:
        contents = json.loads(_contents(path).read_text("utf-8"))
    except OSError as error:
        raise SourceError(f"{path} has no table of contents ({error.strerror}): write it again") from None
    if contents["format"] != FORMAT:
        raise SourceError(
            f"{path} has format {contents['format']}, this version reads {FORMAT}: write it again"
        )
    return contents["n"], list(_stored(path, contents["blocks"]))


def _stored(path: Path, blocks: list[dict[str, Any]]) -> Iterator[StoredBlock]:
    for block, following in zip_longest(blocks, blocks[1:]):
        arrays = {name: (kind, place, length) for name, (kind, place, length) in block["arrays"].items()}
        ahead = following["end"] - following["start"] if following else 0
        m, n = block["shape"]
        yield StoredBlock(path.absolute(), block["start"], arrays, (m, n), ahead)


def _contents(path: Path) -> Path:
    return path.with_name(path.name + ".json")


def _joined(borders: list[Ints]) -> list[AnyArray]:
    """Borders of several parts, counted on."""
    shifts = np.cumsum([0] + [int(part[-1] - part[0]) for part in borders])
    counted = [part[1:] - part[0] + shift for part, shift in zip(borders, shifts[:-1], strict=True)]
    return [np.zeros(1, np.int64), *counted]


def _cut(matrix: Matrix, first: int, end: int) -> Matrix:
    if matrix.dense is not None:
        return Matrix(matrix.dense[first:end], form="dense", checked=True)
    a, b = matrix.indptr[first], matrix.indptr[end]
    X = SimpleNamespace(
        indptr=matrix.indptr[first : end + 1] - a,
        indices=matrix.indices[a:b],
        data=matrix.data[a:b],
        shape=(end - first, matrix.shape[1]),
    )
    return Matrix(X, form="sparse", checked=True)


def _dense(part: Block) -> AnyArray:
    assert part.matrix.dense is not None
    return part.matrix.dense


def _sparse(matrix: Matrix) -> Matrix:
    return matrix if matrix.dense is None else Matrix(matrix.dense, form="sparse", checked=True)
