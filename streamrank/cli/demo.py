"""`streamrank demo`: the whole product on a laptop, with nothing to install."""

import argparse
import shutil
import sys
import threading
import time
from collections.abc import Callable
from contextlib import AbstractContextManager, closing, nullcontext
from pathlib import Path
from typing import Any

from rich.console import Console, Group
from rich.live import Live
from rich.table import Table
from rich.text import Text

from ..config import JudgeSettings, ModelSettings, ServeSettings, Settings
from ..errors import ConfigError, StoreError
from ..pipeline.replay import stop_signals
from ..pipeline.report import Chart, Curve, write_report
from ..serve.server import Server
from ..simulation.visitors import Visitors
from ..sources.feedback import SHARD
from .crowd import Crowd, quantiles, shop_ndcg
from .output import print_json, say

LOOK_EVERY_S = 1.0  # between looks at the true quality
CASES = 30
RATE = 80.0  # visitors a second: two requests each, and the machine is to stay usable
SHUFFLED, MIN_SHUFFLED = 0.2, 150  # enough random rankings that the position bias is measured within seconds
HALF_LIFE = 300  # lists: a change of taste is to show within seconds
ROUND_S = 90.0  # without an end in sight: how long until everything has been seen once
UNATTENDED_S = 30.0
DRIFT_AT, RECONCILE_AT = 0.45, (0.3, 0.75)  # of a round
SETTLE_S = 20.0  # for a reconciliation to end when all else has
BARS = "▁▂▃▄▅▆▇█"


class Demo:
    """What is seen on the way: quality over time, when taste changed, what reconciliation said."""

    def __init__(self, crowd: Crowd, seed: int) -> None:
        self.crowd, self._seed = crowd, seed
        self.cases = crowd.visitors.world.heldout(CASES, seed=seed + 1)
        self.times: list[float] = []
        self.quality: list[float] = []
        self.shown: list[float] = []
        self.drifts: list[tuple[float, float, float]] = []  # when, quality just before and just after
        self.reconciled: list[dict[str, Any]] = []
        self.state = "learning"
        self._training: threading.Thread | None = None

    def look(self, seconds: float) -> float:
        """Note the true quality now."""
        self.times.append(seconds)
        self.quality.append(self.crowd.true_ndcg(self.cases))
        self.shown.append(shop_ndcg(self.cases))
        return self.quality[-1]

    def drift(self, seconds: float) -> None:
        """Change the visitors' taste."""
        before = self.look(seconds)
        self.crowd.visitors.world.drift()
        self.cases = self.crowd.visitors.world.heldout(CASES, seed=self._seed + 1)
        self.drifts.append((seconds, before, self.look(seconds)))
        self.state = "taste has changed: recovering"

    def reconcile(self, seconds: float) -> None:
        """Start a reconciliation beside all else, unless one is under way."""
        if self._training is not None and self._training.is_alive():
            return

        def run() -> None:
            result = self.crowd.train()
            if isinstance(result, str):
                self.state = result
                return
            kept = {key: result[key] for key in ("drift", "chosen", "swapped", "seconds")}
            self.reconciled.append({"at": seconds, **kept})
            self.state = f"reconciled: {result['chosen']}"

        self.state = "reconciling"
        self._training = threading.Thread(target=run, daemon=True)
        self._training.start()

    def settle(self) -> None:
        """Wait for what is under way, not for ever: until its one commit it changes nothing."""
        if self._training is not None:
            self._training.join(SETTLE_S)


def demo(arguments: argparse.Namespace) -> int:
    """Serve, let simulated people come, change their taste, reconcile; say how it went."""
    folder = Path(arguments.out)
    seconds = arguments.seconds
    if seconds is None and (arguments.headless or not sys.stdout.isatty()):
        seconds = UNATTENDED_S
    store = _fresh(folder)
    visitors = Visitors(arguments.seed, SHUFFLED)
    with stop_signals() as stopped, _server(store, arguments.port) as server:
        say(f"the page: {server.url}" + ("" if seconds else "   (Ctrl-C ends the demo)"))
        with closing(Crowd(server.url, visitors, RATE)) as crowd:
            show = Demo(crowd, arguments.seed)
            start = show.look(0.0)
            say("getting ready … (the first time the kernels are compiled, which takes a minute or two)")
            if not crowd.begin():
                raise StoreError("nothing was learnt: see the log above")
            live = sys.stderr.isatty() and not arguments.headless
            screen: AbstractContextManager[Any] = (
                Live(console=Console(stderr=True), refresh_per_second=4) if live else nullcontext()
            )
            with screen as view:
                passed = _run(show, seconds, view, stopped)
            crowd.leave()
            show.settle()
        result = _result(show, server, start, passed)
        result["report"] = str(folder / "report.html")
        _report(show, server, result)
    if arguments.json:
        print_json(result)
    else:
        _print(result)
    return 0


def _fresh(folder: Path) -> str:
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for old in folder.glob("demo.db*"):
            shutil.rmtree(old) if old.is_dir() else old.unlink()
    except OSError as error:
        raise StoreError(f"cannot use the folder {folder}: {error.strerror}") from None
    return f"sqlite:///{folder / 'demo.db'}"


def _server(store: str, port: int) -> Server:
    settings = Settings(
        store=store,
        judge=JudgeSettings(min_shuffled=MIN_SHUFFLED),
        models=[
            ModelSettings(name="default", params={"half_life": HALF_LIFE}),
            ModelSettings(name="ranknet", learner="ranknet"),
        ],
        serve=ServeSettings(port=port),
    )
    try:
        return Server(settings)
    except ConfigError as error:
        if not port:
            raise
        say(f"{error}; taking another port")
        return _server(store, 0)


def _run(show: Demo, budget: float | None, view: Any, stopped: Callable[[], bool]) -> float:
    began, looked, rounds = time.monotonic(), -LOOK_EVERY_S, 0
    length = budget or ROUND_S
    due = _due(length, rounds)
    while not stopped():
        seconds = time.monotonic() - began
        if budget and seconds >= budget:
            break
        if due and seconds >= due[0][0]:
            due.pop(0)[1](show, seconds)
        if not due and not budget:
            rounds += 1
            due = _due(length, rounds)
        if seconds - looked >= LOOK_EVERY_S:
            looked = seconds
            show.look(seconds)
            _tell(show, seconds, budget, view)
        time.sleep(0.02)
    passed = time.monotonic() - began
    show.look(passed)
    return passed


def _due(length: float, rounds: int) -> list[tuple[float, Callable[[Demo, float], None]]]:
    planned = [(DRIFT_AT, Demo.drift), *((share, Demo.reconcile) for share in RECONCILE_AT)]
    return [((rounds + share) * length, what) for share, what in sorted(planned, key=lambda plan: plan[0])]


def _tell(show: Demo, seconds: float, budget: float | None, view: Any) -> None:
    crowd, quality = show.crowd, show.quality[-1]
    if view is None:
        say(f"{seconds:5.1f}s  {crowd.events:6d} events  true NDCG@10 {quality:.3f}  {show.state}")
        return
    table = Table.grid(padding=(0, 2))
    table.add_row("time", f"{seconds:.0f} s" + (f" of {budget:.0f}" if budget else "") + f"   {show.state}")
    table.add_row("visitors", f"{crowd.visits}, {crowd.events} events")
    table.add_row("rank", f"{quantiles(crowd.rank_ms)['p99']:.1f} ms p99")
    table.add_row("click to ranking", f"{quantiles(crowd.click_ms)['p50']:.0f} ms p50")
    table.add_row("shop's own order", f"{show.shown[-1]:.3f} true NDCG@10")
    table.add_row("learnt", Text(f"{quality:.3f} true NDCG@10", style="bold"))
    view.update(Group(table, Text(_spark(show.quality, 60))))


def _spark(values: list[float], width: int) -> str:
    """The last values as a row of bars, from .2 to 1."""
    return "".join(BARS[round(7 * min(max((v - 0.2) / 0.8, 0.0), 1.0))] for v in values[-width:])


def _result(show: Demo, server: Server, start: float, seconds: float) -> dict[str, Any]:
    quality = {"order_shown": show.shown[0], "start": start}
    if show.drifts:
        _, before, after = show.drifts[0]
        quality |= {"before_drift": before, "just_after_drift": after}
    crowd = show.crowd
    return {
        "url": server.url,
        "seconds": round(seconds, 2),
        "visits": crowd.visits,
        "events": crowd.events,
        "events_per_second": round(crowd.events / max(seconds, 1e-9), 1),
        "refused": server.service.received["rejected"],
        "failed": crowd.failed,
        "ndcg@10": {name: round(value, 4) for name, value in (quality | {"end": show.quality[-1]}).items()},
        "rank_ms": quantiles(crowd.rank_ms),
        "click_to_ranking_ms": quantiles(crowd.click_ms),
        "reconciled": show.reconciled,
    }


def _report(show: Demo, server: Server, result: dict[str, Any]) -> None:
    served = server.service.live.served
    assert served is not None
    chart = Chart(
        "NDCG@10 against the truth, on queries put aside",
        "seconds",
        [Curve("learnt", show.times, show.quality), Curve("shop's own order", show.times, show.shown)],
        {"taste changes": show.drifts[0][0]} if show.drifts else {},
    )
    plain = {key: value for key, value in result.items() if not isinstance(value, dict | list)}
    write_report(result["report"], "demo", served.shards[SHARD].flow, plain, [chart])


def _print(result: dict[str, Any]) -> None:
    for name, value in result["ndcg@10"].items():
        print(f"true NDCG@10 {name.replace('_', ' '):22} {value:.3f}")
    for name in ("rank_ms", "click_to_ranking_ms"):
        of = result[name]
        print(
            f"{name.removesuffix('_ms').replace('_', ' '):22} p50 {of['p50']:.1f} ms, p99 {of['p99']:.1f} ms"
        )
    for done in result["reconciled"]:
        drift = done["drift"]
        print(
            f"reconciled: pairs in the wrong order {drift['pairwise_error_online']:.3f} online, "
            f"{drift['pairwise_error_optimal']:.3f} optimal; {done['chosen']}"
        )
    print(f"{result['events']} events, {result['failed']} failed requests; report: {result['report']}")
