"""`streamrank demo`: the whole thing on a laptop, with nothing to install."""

import argparse
import sys
import time
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Console, Group
from rich.live import Live
from rich.table import Table
from rich.text import Text

from ..config import JudgeSettings, ModelSettings
from ..config import Settings as StreamSettings
from ..errors import StoreError
from ..events.types import Record
from ..features.batch import BatchBuilder
from ..metrics.functions import ndcg
from ..pipeline.checkpoint import Checkpoint
from ..pipeline.flow import Flow
from ..pipeline.replay import stop_signals, summary
from ..pipeline.report import Chart, Curve, write_report
from ..simulation import Settings, Simulator
from ..state import open_store
from .output import print_json, say

LOOK_EVERY = 0.5  # seconds between looks at the true quality
SHUFFLED, MIN_SHUFFLED = 0.2, 500  # enough random rankings that the position bias is measured within a second
HALF_LIFE = 3000  # lists: a change of taste is to show within seconds
BARS = "▁▂▃▄▅▆▇█"


class Demo:
    """Simulated users click on an old ranking; a ranker learns from it and is asked how well it would do."""

    def __init__(self, seed: int) -> None:
        self.simulator = Simulator(Settings(seed=seed, shuffled=SHUFFLED))
        self.cases = self.simulator.world.heldout(200, seed=seed + 1)
        self.times: list[float] = []
        self.quality: list[float] = []
        self.shown: list[float] = []
        self.drifted_at: float | None = None

    def true_ndcg(self, flow: Flow | None) -> float:
        """NDCG@10 against the truth, on queries put aside: of the order shown, or of the learnt model."""
        values = []
        for ranking, relevance in self.cases:
            scores = np.zeros(len(ranking.items))
            if flow is not None:
                builder = BatchBuilder()
                rows = flow.features.rows(ranking, learn=False)
                builder.add(rows, [0.0] * rows.n, [0.0] * rows.n)
                scores = flow.models[0].learner.scores(builder.build())
            values.append(ndcg(np.asarray(relevance, dtype=np.float64), scores, 10))
        return float(np.nanmean(values))

    def look(self, flow: Flow, seconds: float) -> None:
        """Note the true quality now."""
        flow.learn()
        quality, shown = self.true_ndcg(flow), self.true_ndcg(None)
        self.times.append(seconds)
        self.quality.append(quality)
        self.shown.append(shown)

    def drift(self, seconds: float) -> None:
        """Change the users' taste."""
        self.simulator.drift()
        self.drifted_at = seconds
        self.cases = self.simulator.world.heldout(200, seed=self.simulator.settings.seed + 1)


def demo(arguments: argparse.Namespace) -> int:
    """Learn for some seconds, let taste change halfway, say how it went."""
    folder = Path(arguments.out)
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for old in folder.glob("demo.db*"):
            old.unlink()
    except OSError as error:
        raise StoreError(f"cannot use the folder {folder}: {error.strerror}") from None
    show = Demo(arguments.seed)
    settings = StreamSettings(
        judge=JudgeSettings(min_shuffled=MIN_SHUFFLED),
        models=[ModelSettings(name="default", params={"half_life": HALF_LIFE})],
    )
    _warm_up(settings)
    with open_store(f"sqlite:///{folder / 'demo.db'}") as store:
        checkpoint = Checkpoint(store, Flow(settings))
        flow = checkpoint.flow
        live = sys.stderr.isatty() and not arguments.headless
        screen: AbstractContextManager[Any] = (
            Live(console=Console(stderr=True), refresh_per_second=4) if live else nullcontext()
        )
        with screen as view, stop_signals() as stopped:  # cut short, the report is still worth having
            seconds = _run(show, checkpoint, arguments.seconds, view, stopped)
        checkpoint.commit()
        result = _result(show, flow, seconds) | summary(flow, store)
        result["report"] = str(folder / "report.html")
        marks = {} if show.drifted_at is None else {"taste changes": show.drifted_at}
        truth = Chart(
            "NDCG@10 against the truth, on queries put aside",
            "seconds",
            [
                Curve("learnt", show.times, show.quality),
                Curve("order shown", show.times, show.shown),
            ],
            marks,
        )
        write_report(result["report"], "demo", flow, result, [truth])
    if arguments.json:
        print_json(result)
    else:
        for name, value in result["ndcg@10"].items():
            print(f"true NDCG@10 {name.replace('_', ' '):22} {value:.3f}")
        print(f"{result['events']} events at {result['events_per_second']:.0f}/s; report: {result['report']}")
    return 0


def _warm_up(settings: StreamSettings) -> None:
    """Compile the kernels before the clock starts; the first time that takes some seconds."""
    say("getting ready …")
    flow = Flow(settings)
    for offset, value in zip(range(1000), Simulator(Settings()).live(), strict=False):
        flow.step(Record(offset, value))
    flow.learn()


def _run(show: Demo, checkpoint: Checkpoint, budget: float, view: Any, stopped: Callable[[], bool]) -> float:
    flow = checkpoint.flow
    show.look(flow, 0.0)
    looked, began = 0.0, time.monotonic()
    for offset, value in enumerate(show.simulator.live()):
        flow.step(Record(offset, value, f"simulated:{offset}"))
        checkpoint.maybe_commit()
        if offset % 100:
            continue
        seconds = time.monotonic() - began
        if show.drifted_at is None and seconds >= budget / 2:
            show.look(flow, seconds)
            show.drift(seconds)
            show.look(flow, seconds)
        if seconds - looked >= min(LOOK_EVERY, budget / 20):
            looked = seconds
            show.look(flow, seconds)
            _tell(show, flow, seconds, budget, view)
        if seconds >= budget or stopped():
            break
    show.look(flow, time.monotonic() - began)
    return time.monotonic() - began


def _tell(show: Demo, flow: Flow, seconds: float, budget: float, view: Any) -> None:
    rate = flow.counts["events"] / seconds
    state = "learning" if show.drifted_at is None else "taste has changed: recovering"
    if view is None:
        events, quality = flow.counts["events"], show.quality[-1]
        say(f"{seconds:5.1f}s  {events:7d} events  true NDCG@10 {quality:.3f}  {state}")
        return
    table = Table.grid(padding=(0, 2))
    table.add_row("time", f"{seconds:.0f} of {budget:.0f} s   {state}")
    table.add_row("events", f"{flow.counts['events']} ({rate:.0f}/s), {flow.counts['judged']} lists judged")
    table.add_row("order shown", f"{show.shown[-1]:.3f} true NDCG@10")
    table.add_row("learnt", Text(f"{show.quality[-1]:.3f} true NDCG@10", style="bold"))
    view.update(Group(table, Text(_spark(show.quality, 60))))


def _spark(values: list[float], width: int) -> str:
    """The last values as a row of bars, from .2 to 1."""
    return "".join(BARS[round(7 * min(max((v - 0.2) / 0.8, 0.0), 1.0))] for v in values[-width:])


def _result(show: Demo, flow: Flow, seconds: float) -> dict[str, Any]:
    quality = {"order_shown": show.shown[0], "start": show.quality[0]}
    if show.drifted_at is not None:  # looked at just before and just after, at the same moment
        drifted = show.times.index(show.drifted_at)
        quality |= {"before_drift": show.quality[drifted], "just_after_drift": show.quality[drifted + 1]}
    return {
        "seconds": seconds,
        "events_per_second": flow.counts["events"] / seconds if seconds else 0.0,
        "ndcg@10": quality | {"end": show.quality[-1]},
    }
