"""A log or a topic taken again by the same flow, up to where a shard stood: its lists, or its clicks."""

from collections.abc import Callable, Iterable, Iterator, Mapping

from ..config import Settings
from ..errors import SourceError
from ..events.types import Record
from ..state.values import decode
from .clicks import Clicks, joined
from .flow import Flow
from .learnt import Learnt, recording
from .memory import hash_of

Taken = Callable[[int, int], None]
Until = Callable[[int, Mapping[str, bytes]], Clicks]


def again(
    records: Iterable[tuple[int, bytes | None]],
    settings: Settings,
    end: int,
    entries: Mapping[str, bytes],
    taken: Taken,
) -> Iterator[Learnt]:
    """The lists of records, up to offset `end`, by the same flow; no model learns here.

    Refused is a log whose last record is not the one the shard took last.
    """
    flow = _idle(settings)
    found: list[Learnt] = []
    flow.recorder = recording(flow.counts, found.append)
    for _ in _steps(flow, records, end, taken):
        yield from found
        found.clear()
    flow.learn()
    yield from found
    _check_last(flow, end, entries)


def clicks_again(
    records: Callable[[int, int, Mapping[str, bytes]], Iterable[tuple[int, bytes | None]]],
    settings: Settings,
    taken: Taken,
) -> Until:
    """The clicks of records, which are asked for by where they begin and end, by the same flow."""
    flow = _idle(settings)
    found: list[Clicks] = []
    flow.click_recorder = found.append

    def until(end: int, entries: Mapping[str, bytes]) -> Clicks:
        if end > flow.offset:
            for _ in _steps(flow, records(flow.offset, end, entries), end, taken):
                pass
            flow.learn()
            _check_last(flow, end, entries)
        pieces = found.copy()
        found.clear()
        return joined(pieces, flow.counts["clicks"])

    return until


def _idle(settings: Settings) -> Flow:
    """A flow in which nothing learns."""
    flow = Flow(settings)
    flow.models, flow.recommenders = [], []
    return flow


def _steps(flow: Flow, records: Iterable[tuple[int, bytes | None]], end: int, taken: Taken) -> Iterator[None]:
    for offset, value in records:
        if offset >= end:
            break
        if value is None:
            flow.skip(offset)
        else:
            flow.step(Record(offset, value))
        if flow.counts["events"] % 500 == 0:
            taken(flow.offset, end)
        yield


def _check_last(flow: Flow, end: int, entries: Mapping[str, bytes]) -> None:
    last = decode(entries["last"]) if "last" in entries else ""
    if last and hash_of(flow.last_value or b"") != last:
        why = (
            f"the log ends at record {flow.offset}, and the store stands at {end}: give the whole log it was "
            "learnt from"
            if flow.offset < end
            else f"record {end - 1} is not the one the store took last: another log"
        )
        raise SourceError(why)


def since(
    records: Iterator[tuple[int, bytes | None]], entries: Mapping[str, bytes], shard: str
) -> Iterator[tuple[int, bytes | None]]:
    """From the record on that the shard was begun with."""
    source = decode(entries["source"]) if "source" in entries else ""
    for offset, value in records:
        if not source or hash_of(value or b"") == source:
            yield offset, value
            break
    else:
        raise SourceError(
            f"{shard}: the topic no longer holds the record that the store began with: use --data archive"
        )
    yield from records
