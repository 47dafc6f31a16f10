"""Named values to columns: what a number, a string, a list and a text become."""

import re
from collections.abc import Mapping, Sequence

from ..events.types import Value
from .columns import Columns
from .offsets import Offsets

WORD = re.compile(r"\w+")
# words may take a quarter of a vocabulary, words and categories three quarters; the rest is kept for numbers
TEXT_SHARE, PART_SHARE = 0.25, 0.75


class Encoder:
    """Fields to a row, column -> value. `dropped` counts the values that found no column."""

    def __init__(self, columns: Columns, offsets: Offsets, text: Sequence[str]) -> None:
        self.columns, self.offsets = columns, offsets
        self.dropped = 0
        self.lost = 0  # of the last row
        self._text = frozenset(text)

    def row(self, fields: Mapping[str, Value], learn: bool) -> dict[int, float]:
        """The row of some fields; with `learn`, new names get columns and lost values are counted."""
        find = self.columns.add if learn else self.columns.find
        find_part = self.columns.add_part if learn else lambda part, _: self.columns.find(part)
        row: dict[int, float] = {}  # hashed names may share a column: their values add up
        dropped = 0
        for name, value in fields.items():
            if isinstance(value, bool | int | float):
                column = find(name)
                dropped += column < 0
                if column >= 0:
                    _add(row, column, float(value))
                    if learn:
                        self.offsets.mark(column)
                continue
            for part, number in self._parts(name, value):
                column = find_part(part, TEXT_SHARE if name in self._text else PART_SHARE)
                dropped += column < 0
                if column >= 0:
                    _add(row, column, number)
        self.lost = dropped
        if learn:
            self.dropped += dropped
        return row

    def sorted_row(self, fields: Mapping[str, Value], learn: bool) -> dict[int, float]:
        """The same whatever the order of the fields: a restart reads them back in another one."""
        return dict(sorted(self.row({name: fields[name] for name in sorted(fields)}, learn).items()))

    def _parts(self, name: str, value: str | Sequence[bool | int | float | str]) -> list[tuple[str, float]]:
        if isinstance(value, str):
            if name in self._text:
                words = sorted(set(WORD.findall(value.lower())))
                return [(f"{name}:{word}", len(words) ** -0.5) for word in words]
            return [(f"{name}={value}", 1.0)]
        if value and isinstance(value[0], str):
            return [(f"{name}={part}", 1.0) for part in sorted({str(part) for part in value})]
        return [(f"{name}[{k}]", float(part)) for k, part in enumerate(value)]


def _add(row: dict[int, float], column: int, value: float) -> None:
    row[column] = row[column] + value if column in row else value
