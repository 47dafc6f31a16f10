"""Replay of logs (10 items x 46 numbers a ranking), beside river's LinearRegression fed by orjson.

Two logs. Clicks: rankings and the clicks on them; both sides learn a list at each click on it, which is all
that a live stream allows; river is also timed learning each list once, as if its last click could be known.
Judged lists: rankings that carry their labels.
"""

import statistics
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import orjson
from river import linear_model

from streamrank.config import Settings
from streamrank.events.codec import Decoder, encode_json, encode_msgpack, pack
from streamrank.events.types import PackedLists, Ranking, Record
from streamrank.pipeline.checkpoint import Checkpoint
from streamrank.pipeline.flow import Flow
from streamrank.pipeline.replay import replay
from streamrank.simulation import Settings as SimulationSettings
from streamrank.simulation import Simulator
from streamrank.state import open_store

EVENTS, REPEATS, LISTS_A_BLOCK = 12_000, 5, 64
Log = list[bytes]


def click_logs() -> tuple[Log, Log]:
    """The same events as JSON and packed."""
    named = list(Simulator(SimulationSettings(events=EVENTS, seed=3, numeric_features=46)).records())
    decoder = Decoder()
    packed = []
    for record in named:
        (event,) = decoder.decode(record)
        packed.append(encode_msgpack(pack(event) if isinstance(event, Ranking) else event))  # type: ignore[arg-type]
    return named, packed


def judged_logs(clicks: Log) -> tuple[Log, Log, Log]:
    """The clicked rankings with their labels: as JSON, packed one by one, packed in blocks."""
    decoder, labels = Decoder(), {}
    events = [decoder.decode(record)[0] for record in clicks]
    for event in events:
        if event.kind == "interaction":
            labels.setdefault(event.ranking, set()).add(event.item)
    rankings = [event for event in events if isinstance(event, Ranking) and event.id in labels]
    for event in rankings:
        for item in event.items:
            item.label = float(item.id in labels[event.id])
    packed = [pack(event) for event in rankings]
    blocks = []
    for start in range(0, len(packed), LISTS_A_BLOCK):
        part = packed[start : start + LISTS_A_BLOCK]
        blocks.append(
            PackedLists(
                id=f"b{start}",
                timestamp=part[-1].timestamp,
                columns=part[0].columns,
                values=b"".join(event.values for event in part),
                sizes=np.array([len(event.items) for event in part], dtype="<i4").tobytes(),
                labels=np.array([label for event in part for label in event.labels or ()]).tobytes(),
            )
        )
    return (
        [encode_json(e) for e in rankings],
        [encode_msgpack(e) for e in packed],
        [encode_msgpack(e) for e in blocks],
    )


def river_clicks(log: Log, *, once: bool) -> float:
    """What a team glues by hand: decode, join by ranking id, ten learn_one a list."""
    model = linear_model.LinearRegression()
    began = time.perf_counter()
    shown: dict[str, dict[str, dict[str, float]]] = {}
    clicks: dict[str, set[str]] = {}

    def learn(ranking: str) -> None:
        for item, x in shown[ranking].items():
            model.predict_one(x)
            model.learn_one(x, 1.0 if item in clicks[ranking] else 0.0)

    for record in log:
        event = orjson.loads(record)
        if event["event"] == "ranking":
            shown[event["id"]] = {item["id"]: _x(item) for item in event["items"]}
        else:
            clicks.setdefault(event["ranking"], set()).add(event["item"])
            if not once:
                learn(event["ranking"])
    if once:
        for ranking in clicks:
            learn(ranking)
    return time.perf_counter() - began


def river_judged(log: Log) -> float:
    """Decode, ten learn_one a list."""
    model = linear_model.LinearRegression()
    began = time.perf_counter()
    for record in log:
        for item in orjson.loads(record)["items"]:
            x = _x(item)
            model.predict_one(x)
            model.learn_one(x, item["label"])
    return time.perf_counter() - began


def _x(item: dict[str, Any]) -> dict[str, float]:
    return {field["name"]: field["value"] for field in item["fields"]}


def ours(log: Log, watch: Callable[[Flow], None] = lambda _: None) -> tuple[float, Checkpoint]:
    """The whole flow on SQLite: decode, dedup, join, judge, evaluate, learn, commit."""
    with tempfile.TemporaryDirectory() as folder, open_store(f"sqlite:///{Path(folder) / 's.db'}") as store:
        checkpoint = Checkpoint(store, Flow(Settings()))
        watch(checkpoint.flow)
        seconds = replay((Record(offset, value) for offset, value in enumerate(log)), checkpoint)
        return seconds, checkpoint


def shares(log: Log) -> str:
    """Where the time goes, timed from outside in a run of its own (the timing itself slows it)."""
    spent: dict[str, float] = {}

    def timed(name: str, function: Callable[..., object]) -> Callable[..., object]:
        def wrapper(*args: object, **kwargs: object) -> object:
            began = time.perf_counter()
            try:
                return function(*args, **kwargs)
            finally:
                spent[name] = spent.get(name, 0.0) + time.perf_counter() - began

        return wrapper

    def watch(flow: Flow) -> None:
        for owner, method, name in (
            (flow.decoder, "decode", "decode"),
            (flow.features, "rows", "features"),
            (flow.features, "block", "features"),
            (flow.join, "show", "join"),
            (flow.join, "click", "join"),
            (flow, "learn", "learn"),
        ):
            setattr(owner, method, timed(name, getattr(owner, method)))

    total, checkpoint = ours(log, watch)
    spent["commit"] = checkpoint.seconds
    spent["rest"] = total - sum(spent.values())
    return "  ".join(f"{part} {100 * seconds / total:.0f} %" for part, seconds in spent.items())


def compare(title: str, baseline: str, runs: dict[str, Callable[[], float]], n: int) -> None:
    """Run all in turn, several times; print the best of each and its ratio to the baseline."""
    times: dict[str, list[float]] = {name: [] for name in runs}
    for _ in range(REPEATS):
        for name, run in runs.items():
            times[name].append(run())
    print(f"{title}, best of {REPEATS} (spread of the runs)")
    for name, seconds in times.items():
        best, spread = min(seconds), statistics.pstdev(seconds) / statistics.mean(seconds)
        ratio = min(times[baseline]) / best
        print(f"  {name:34} {1e6 * best / n:7.1f} us  {ratio:6.2f} x  (+-{100 * spread:.0f} %)")


def main() -> None:
    """Print the ratios."""
    named, packed = click_logs()
    judged, judged_packed, blocks = judged_logs(named)
    ours(named[:500]), ours(blocks[:2])  # compiles
    rankings = sum(b'"event":"ranking"' in record for record in named)
    title = f"clicks: {len(named)} events, {rankings} rankings; us an event"
    learnt_at_clicks = "river, a list at each click"
    compare(
        title,
        learnt_at_clicks,
        {
            learnt_at_clicks: lambda: river_clicks(named, once=False),
            "river, each list once": lambda: river_clicks(named, once=True),
            "streamrank, json": lambda: ours(named)[0],
            "streamrank, packed rankings": lambda: ours(packed)[0],
        },
        len(named),
    )
    print(f"  shares, json:   {shares(named)}\n  shares, packed: {shares(packed)}")
    compare(
        f"judged lists: {len(judged)}; us a list",
        "river",
        {
            "river": lambda: river_judged(judged),
            "streamrank, json": lambda: ours(judged)[0],
            "streamrank, packed rankings": lambda: ours(judged_packed)[0],
            f"streamrank, packed lists ({LISTS_A_BLOCK} each)": lambda: ours(blocks)[0],
        },
        len(judged),
    )
    print(f"  shares, json:         {shares(judged)}\n  shares, packed lists: {shares(blocks)}")


if __name__ == "__main__":
    main()
