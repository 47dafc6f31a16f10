"""Records no consumer should learn from, each wrong in its own way.

Some are refused by any JSON decoder or by the types of an event; three keep the types and break a rule: a
timestamp is in milliseconds, an id is not empty, a ranking shows at least one item.
"""

from collections.abc import Callable

Builder = Callable[[str, int], bytes]


def _ranking(name: str, stamp: object, items: str = '[{"id":"item-0001"}]') -> bytes:
    return f'{{"event":"ranking","id":"{name}","timestamp":{stamp},"items":{items}}}'.encode()


def _value(name: str, ms: int, value: str) -> bytes:
    return _ranking(name, ms, f'[{{"id":"item-0001","fields":[{{"name":"bm25","value":{value}}}]}}]')


MALFORMED: dict[str, Builder] = {
    "truncated": lambda name, ms: _ranking(name, ms)[:-9],
    "not-json": lambda name, ms: f"{ms} INFO served {name}".encode(),
    "wrong-type": lambda name, ms: _ranking(name, ms, '"item-0001"'),
    "missing-id": lambda _, ms: f'{{"event":"ranking","timestamp":{ms},"items":[{{"id":"a"}}]}}'.encode(),
    "nan": lambda name, ms: _value(name, ms, "NaN"),
    "seconds": lambda name, ms: _ranking(name, ms // 1000),
    "unknown-event": lambda name, ms: f'{{"event":"scroll","id":"{name}","timestamp":{ms}}}'.encode(),
    "empty-items": lambda name, ms: _ranking(name, ms, "[]"),
    "deep": lambda name, ms: _value(name, ms, "[" * 300 + "]" * 300),
    "bad-utf8": lambda name, ms: _ranking(name, ms).replace(b"item", b"it\xff\xfe"),
    "no-item": lambda name, ms: (
        f'{{"event":"interaction","id":"{name}","timestamp":{ms},"type":"click"}}'.encode()
    ),
    "bad-time": lambda name, _: _ranking(name, "{}"),
    "empty-id": lambda _, ms: _ranking("", ms),
}
BROKEN_RULES = ("seconds", "empty-items", "empty-id")  # what the types alone let pass


def malformed(number: int, ms: int) -> bytes:
    """Return the record of that number, cycling through the kinds.

    >>> malformed(1, 1700000000000)
    b'1700000000000 INFO served x-000001'
    """
    builders = list(MALFORMED.values())
    return builders[number % len(builders)](f"x-{number:06d}", ms)
