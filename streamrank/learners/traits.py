"""From fields of users and items to the names of their traits."""

from collections.abc import Mapping, Sequence
from typing import Any

EACH = 16  # traits of a user or item that count, at most


def traits_told(
    order: Sequence[str], table: str, known: Sequence[str], fields: Mapping[str, Any]
) -> list[str]:
    """The traits of one of `table` whose `known` ones were, once `fields` are told, in the `order` of fields.

    A field that is not in `order` has no effect; one that is told replaces what was known of it.

    >>> traits_told(["genre", "year"], "items", ["items\\tyear\\t1999"], {"genre": ["a", "b"], "price": 3})
    ['items\\tgenre\\ta', 'items\\tgenre\\tb', 'items\\tyear\\t1999']
    """
    traits: dict[str, list[str]] = {name: [] for name in order}
    for trait in known:
        name = trait.split("\t")[1]
        if name in traits and name not in fields:
            traits[name].append(trait)
    for name in traits.keys() & fields.keys():
        values = fields[name] if isinstance(fields[name], list | tuple) else [fields[name]]
        traits[name] = [f"{table}\t{name}\t{one}" for one in dict.fromkeys(values)]
    return [trait for name in order for trait in traits[name]][:EACH]
