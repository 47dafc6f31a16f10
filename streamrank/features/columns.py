"""Feature names to column numbers: a bounded vocabulary, or a stable hash."""

import hashlib
from collections.abc import Mapping, Sequence
from typing import Protocol

from ..errors import ConfigError

NAMES_A_BLOCK = 1024


class Columns(Protocol):
    """Names to columns."""

    def __len__(self) -> int:
        """How many columns are in use."""
        ...

    def add(self, name: str) -> int:
        """The column of `name`, given one if it is new; -1 when there is no room."""
        ...

    def add_part(self, name: str, share: float) -> int:
        """As `add`, for one value of many that a field can have; new ones may fill this share of the room."""
        ...

    def find(self, name: str) -> int:
        """The column of `name`, -1 if it has none; changes nothing."""
        ...

    def name(self, column: int) -> str:
        """What to call a column when explaining a score."""
        ...

    def to_state(self) -> dict[str, list[str]]:
        """All names, in blocks."""
        ...

    def from_state(self, state: Mapping[str, Sequence[str]]) -> None:
        """Back to a saved state."""
        ...

    def dirty(self) -> dict[str, list[str]]:
        """The blocks that changed since the last call."""
        ...


class Vocabulary:
    """The first `limit` names get a column each, in order of appearance; later ones are dropped and counted.

    Words and categories (`add_part`) get none once their share of the room is full, so that they cannot crowd
    out numbers that appear later.

    >>> columns = Vocabulary(limit=4)
    >>> [columns.add_part(name, 0.5) for name in ("colour=red", "colour=blue", "colour=green")]
    [0, 1, -1]
    >>> [columns.add(name) for name in ("price", "price", "age", "size")]
    [2, 2, 3, -1]
    """

    def __init__(self, limit: int = 1000) -> None:
        if limit < 1:
            raise ConfigError(f"features.columns is {limit}: a vocabulary needs room for at least one column")
        self.limit = limit
        self._columns: dict[str, int] = {}
        self._names: list[str] = []
        self._saved = 0

    def __len__(self) -> int:
        return len(self._names)

    def add(self, name: str) -> int:
        column = self._columns.get(name)
        if column is None:
            if len(self._names) >= self.limit:
                return -1
            column = self._columns[name] = len(self._names)
            self._names.append(name)
        return column

    def add_part(self, name: str, share: float) -> int:
        if len(self._names) >= share * self.limit:
            return self._columns.get(name, -1)
        return self.add(name)

    def find(self, name: str) -> int:
        return self._columns.get(name, -1)

    def name(self, column: int) -> str:
        return self._names[column] if column < len(self._names) else f"column {column}"

    def to_state(self) -> dict[str, list[str]]:
        return self._blocks(0)

    def from_state(self, state: Mapping[str, Sequence[str]]) -> None:
        blocks = sorted(state, key=lambda key: int(key.partition("#")[2]))
        self._names = [name for key in blocks for name in state[key]]
        self._columns = {name: column for column, name in enumerate(self._names)}
        self._saved = len(self._names)

    def dirty(self) -> dict[str, list[str]]:
        if self._saved == len(self._names):
            return {}
        start, self._saved = self._saved // NAMES_A_BLOCK, len(self._names)
        return self._blocks(start)

    def _blocks(self, start: int) -> dict[str, list[str]]:
        size = NAMES_A_BLOCK
        n_blocks = -(-len(self._names) // size)
        return {f"names#{k}": self._names[k * size : (k + 1) * size] for k in range(start, n_blocks)}


class Hashed:
    """Every name falls on one of 2^bits columns, the same in every process; two names may share one.

    >>> Hashed(bits=18).add("price") == Hashed(bits=18).find("price")
    True
    """

    def __init__(self, bits: int = 18) -> None:
        if not 1 <= bits <= 26:
            raise ConfigError(f"features.bits is {bits}: choose 1 to 26 (2^26 columns are 4 GB of weights)")
        self.bits = bits
        self._known: dict[str, int] = {}  # a cache, bounded; not state: the hash says the same again

    def __len__(self) -> int:
        return 1 << self.bits

    def add(self, name: str) -> int:
        column = self._known.get(name)
        if column is None:
            digest = hashlib.blake2b(name.encode("utf-8", "surrogatepass"), digest_size=8).digest()
            column = int.from_bytes(digest, "little") >> (64 - self.bits)
            if len(self._known) >= 100_000:
                self._known.clear()
            self._known[name] = column
        return column

    find = add

    def add_part(self, name: str, share: float) -> int:  # noqa: ARG002  (there is room for all)
        return self.add(name)

    def name(self, column: int) -> str:
        for name, known in self._known.items():
            if known == column:
                return name
        return f"column {column}"

    def to_state(self) -> dict[str, list[str]]:
        return {}

    def from_state(self, state: Mapping[str, Sequence[str]]) -> None:
        pass

    def dirty(self) -> dict[str, list[str]]:
        return {}
