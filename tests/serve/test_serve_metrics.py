"""What /metrics shows is complete, well formed, and all that the dashboard asks for."""

import json
import re
from pathlib import Path

import httpx
import pytest

from streamrank.config import ServeSettings, Settings
from streamrank.serve.server import Server
from streamrank.simulation import Settings as World
from streamrank.simulation import Simulator

pytestmark = pytest.mark.xdist_group("serve")
DASHBOARD = Path(__file__).parents[2] / "grafana" / "streamrank.json"
WATCHED = [
    "lag",
    "lag_seconds",
    "events_total",
    "dropped_total",
    "feedback_total",
    "judged_lists_total",
    "join_hit_rate",
    "learn_seconds_total",
    "commit_seconds_total",
    "quality",
    "kappa_1",
    "kappa_n",
    "condition",
    "eta",
    "mu",
    "drift",
    "model_age_seconds",
    "rank_seconds",
    "degraded",
    "worker_up",
    "worker_restarts_total",
    "reconciliations_total",
]
SAMPLE = re.compile(r'(\w+)(?:\{((?:\w+="(?:[^"\\\n]|\\.)*",?)*)\})? (NaN|[+-]Inf|[0-9.e+-]+)')


@pytest.fixture(scope="module")
def exposed(tmp_path_factory):
    settings = Settings(
        store=f"sqlite:///{tmp_path_factory.mktemp('metrics')}/s.db",
        serve=ServeSettings(port=0, timeout_ms=120_000),
    )
    with Server(settings) as server, httpx.Client(base_url=server.url, timeout=120) as client:
        log = b"\n".join(Simulator(World(events=2500, seed=3, shuffled=0.2, duplicates=0.02)).records())
        client.post("/feedback", content=log + b"\nnonsense")
        assert client.post("/flush").json()["status"] == "ok"
        client.post("/rank/default", json={"items": [{"id": "a"}]})
        assert client.post("/train/default").status_code == 200
        return client.get("/metrics").text


def samples(text):
    lines = [line for line in text.splitlines() if not line.startswith("#")]
    found = [SAMPLE.fullmatch(line) for line in lines]
    assert all(found), [line for line, match in zip(lines, found, strict=True) if not match]
    return [match.groups() for match in found]


def test_every_line_is_well_formed_and_every_metric_has_a_type_and_a_value(exposed):
    typed = dict(re.findall(r"^# TYPE (\w+) (\w+)$", exposed, re.MULTILINE))
    assert {f"streamrank_{name}" for name in WATCHED} <= set(typed)
    named = {re.sub(r"_(bucket|sum|count)$", "", name) for name, *_ in samples(exposed)}
    assert named == set(typed)
    for name, kind in typed.items():
        assert name.endswith("_total") == (kind == "counter"), name


def test_the_numbers_are_those_of_the_stream(exposed):
    values = {(name, labels): float(value) for name, labels, value in samples(exposed)}
    dropped = values["streamrank_dropped_total", 'fate="duplicates"']
    events = sum(value for (name, _), value in values.items() if name == "streamrank_events_total")
    assert dropped > 20
    assert events + dropped == 2500
    assert values["streamrank_feedback_total", 'answer="accepted"'] == 2500
    assert values["streamrank_feedback_total", 'answer="rejected"'] == 1
    assert values["streamrank_rank_seconds_count", 'model="default"'] == 1
    assert 0 < values["streamrank_quality", 'model="default",metric="ndcg@10"'] <= 1
    assert values["streamrank_condition", 'model="default"'] > 1
    assert 0 < values["streamrank_drift", 'model="default",part="pairwise_error_optimal"'] < 0.5


def test_the_dashboard_asks_for_nothing_that_is_not_there(exposed):
    dashboard = json.loads(DASHBOARD.read_text("utf-8"))
    asked = "\n".join(target["expr"] for panel in dashboard["panels"] for target in panel["targets"])
    there = {name for name, *_ in samples(exposed)}
    names = set(re.findall(r"streamrank_\w+", asked))
    assert names <= there
    # and shows everything: a histogram by its parts
    shown = {re.sub(r"_(bucket|sum|count)$", "", name) for name in names}
    assert {f"streamrank_{name}" for name in WATCHED} == shown
    for name, label, value in re.findall(
        r'(streamrank_\w+)\{instance=~"\$instance",(\w+)=~?"([^"]+)"', asked
    ):
        labels = [of or "" for one, of, _ in samples(exposed) if one == name]
        assert any(re.search(f'{label}="(?:{value})"', of) for of in labels), (name, label, value)
