"""Replay of a click log (10 items x 46 numbers a ranking), beside river's LinearRegression fed by orjson."""

import statistics
import tempfile
import time
from collections.abc import Callable, Iterable
from pathlib import Path

import msgspec
import orjson
from river import linear_model

from streamrank.config import FeatureSettings, Settings
from streamrank.events.codec import Decoder, encode_msgpack, pack
from streamrank.events.types import Ranking, Record
from streamrank.pipeline.checkpoint import Checkpoint
from streamrank.pipeline.flow import Flow
from streamrank.simulation import Settings as SimulationSettings
from streamrank.simulation import Simulator
from streamrank.state import open_store

EVENTS = 12_000
REPEATS = 5


def logs() -> tuple[list[bytes], list[bytes]]:
    """The same events as JSON and packed."""
    simulator = Simulator(SimulationSettings(events=EVENTS, seed=3, numeric_features=46))
    named = list(simulator.records())
    decoder = Decoder()
    packed = []
    for record in named:
        (event,) = decoder.decode(record)
        packed.append(encode_msgpack(pack(event) if isinstance(event, Ranking) else event))
    return named, packed


def river_seconds(log: list[bytes]) -> float:
    """What a team glues by hand: decode, join by ranking id, ten learn_one a ranking (once, clicks known)."""
    model = linear_model.LinearRegression()
    began = time.perf_counter()
    shown: dict[str, dict[str, dict[str, float]]] = {}
    clicks: dict[str, set[str]] = {}
    for record in log:
        event = orjson.loads(record)
        if event["event"] == "ranking":
            shown[event["id"]] = {
                item["id"]: {field["name"]: field["value"] for field in item["fields"]} for item in event["items"]
            }
        else:
            clicks.setdefault(event["ranking"], set()).add(event["item"])
    for ranking, clicked in clicks.items():
        for item, x in shown[ranking].items():
            y = 1.0 if item in clicked else 0.0
            model.predict_one(x)
            model.learn_one(x, y)
    return time.perf_counter() - began


def streamrank_seconds(log: list[bytes], settings: Settings) -> tuple[float, dict[str, float]]:
    """The whole flow on SQLite: decode, dedup, join, judge, evaluate, learn, commit."""
    with tempfile.TemporaryDirectory() as folder, open_store(f"sqlite:///{Path(folder) / 's.db'}") as store:
        checkpoint = Checkpoint(store, Flow(settings))
        flow = checkpoint.flow
        shares = {"decode": 0.0, "features": 0.0, "learn": 0.0}
        began = time.perf_counter()
        for offset, value in enumerate(log):
            flow.step(Record(offset, value))
            checkpoint.maybe_commit()
        checkpoint.commit()
        seconds = time.perf_counter() - began
        return seconds, shares | {"commit": checkpoint.seconds}


def shares(log: list[bytes], settings: Settings) -> dict[str, float]:
    """Seconds by part, timed from outside in a run of its own (the timing slows it)."""
    with tempfile.TemporaryDirectory() as folder, open_store(f"sqlite:///{Path(folder) / 's.db'}") as store:
        checkpoint = Checkpoint(store, Flow(settings))
        flow = checkpoint.flow
        spent: dict[str, float] = {}

        def timed(name: str, function: Callable[..., object]) -> Callable[..., object]:
            def wrapper(*args: object, **kwargs: object) -> object:
                began = time.perf_counter()
                try:
                    return function(*args, **kwargs)
                finally:
                    spent[name] = spent.get(name, 0.0) + time.perf_counter() - began

            return wrapper

        flow.decoder.decode = timed("decode", flow.decoder.decode)  # type: ignore[method-assign, assignment]
        flow.features.rows = timed("features", flow.features.rows)  # type: ignore[method-assign, assignment]
        flow.join.show = timed("join", flow.join.show)  # type: ignore[method-assign, assignment]
        flow.join.click = timed("join", flow.join.click)  # type: ignore[method-assign, assignment]
        flow.learn = timed("learn", flow.learn)  # type: ignore[method-assign, assignment]
        began = time.perf_counter()
        for offset, value in enumerate(log):
            flow.step(Record(offset, value))
            checkpoint.maybe_commit()
        checkpoint.commit()
        total = time.perf_counter() - began
        spent["commit"] = checkpoint.seconds
        return {**spent, "rest": total - sum(spent.values())}


def main() -> None:
    """Print the ratios."""
    named, packed = logs()
    rankings = sum(b'"event":"ranking"' in record for record in named)
    settings = Settings(commit_ms=10**9)
    plain = msgspec.structs.replace(settings, features=FeatureSettings(click_rate_half_life_ms=0))
    runs: dict[str, list[float]] = {"river": [], "json": [], "json, no click rate": [], "packed": []}
    streamrank_seconds(named[:500], settings)  # compiles
    for _ in range(REPEATS):
        runs["river"].append(river_seconds(named))
        runs["json"].append(streamrank_seconds(named, settings)[0])
        runs["json, no click rate"].append(streamrank_seconds(named, plain)[0])
        runs["packed"].append(streamrank_seconds(packed, settings)[0])
    print(f"replay: {len(named)} events, {rankings} rankings of 10 x 46, best of {REPEATS} (spread)")
    for name, seconds in runs.items():
        best, spread = min(seconds), statistics.pstdev(seconds) / statistics.mean(seconds)
        ratio = min(runs["river"]) / best
        print(f"  {name:22} {len(named) / best:9.0f} events/s  {ratio:5.2f} x river  (+-{100 * spread:.0f} %)")
    for name, log in (("json", named), ("packed", packed)):
        parts = shares(log, settings)
        total = sum(parts.values())
        print(f"  shares, {name}: " + "  ".join(f"{part} {100 * t / total:.0f} %" for part, t in parts.items()))


if __name__ == "__main__":
    main()
