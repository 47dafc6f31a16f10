"""The demo is the product: people come over HTTP, it learns, taste changes, it recovers; Ctrl-C ends it."""

import json
import signal
import socket
import subprocess
import sys

import numpy as np
import pytest

from streamrank.cli.crowd import shop_ndcg
from streamrank.cli.demo import HALF_LIFE, MIN_SHUFFLED, SHUFFLED
from streamrank.config import JudgeSettings, ModelSettings, Settings
from streamrank.events.codec import Decoder
from streamrank.events.types import Record
from streamrank.features.batch import BatchBuilder
from streamrank.metrics.functions import ndcg
from streamrank.pipeline.flow import Flow
from streamrank.simulation.visitors import Visitors

pytestmark = pytest.mark.xdist_group("serve")
NOW_MS = 1_700_000_000_000


def test_the_demo_serves_learns_and_ends_on_ctrl_c(tmp_path):
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        command = [sys.executable, "-m", "streamrank", "demo", "--headless", "--seconds", "60", "--json"]
        with subprocess.Popen(
            [*command, "--port", str(port)],
            cwd=tmp_path,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        ) as running:
            said = []
            for line in running.stderr:
                said.append(line)
                if line.strip().startswith("3."):
                    running.send_signal(signal.SIGINT)
                    break
            out, err = running.communicate(timeout=120)
    assert running.returncode == 0, "".join(said) + err
    assert "Traceback" not in err
    assert "taking another port" in said[0]
    result = json.loads(out)
    assert result["url"].endswith(f":{port}") is False
    assert {"order_shown", "start", "end"} <= set(result["ndcg@10"])
    assert result["ndcg@10"]["start"] == result["ndcg@10"]["order_shown"]
    assert result["events"] > result["visits"] > 10
    assert result["failed"] == 0
    assert result["rank_ms"]["p99"] > result["rank_ms"]["p50"] > 0
    assert result["click_to_ranking_ms"]["n"] > 0
    assert (tmp_path / "streamrank-demo" / "report.html").stat().st_size > 1000


class Shop:
    """The demo's visitors and its learner, without a server between them."""

    def __init__(self):
        self.visitors, self.decoder = Visitors(7, SHUFFLED), Decoder()
        model = ModelSettings(name="default", params={"half_life": HALF_LIFE})
        self.flow = Flow(Settings(judge=JudgeSettings(min_shuffled=MIN_SHUFFLED), models=[model]))
        self._take(self.visitors.catalogue(NOW_MS))

    def _take(self, events):
        for event in events:
            self.flow.step(Record(self.flow.offset, json.dumps(event, default=vars_of).encode()))

    def scores(self, ranking):
        self.flow.learn()
        rows = self.flow.features.rows(ranking, learn=False)
        builder = BatchBuilder()
        builder.add(rows, [0.0] * rows.n, [0.0] * rows.n)
        return self.flow.models[0].learner.scores(builder.build())

    def serve(self, n):
        for _ in range(n):
            visit = self.visitors.arrive()
            ranking = self.decoder.ranking(json.dumps(visit.request, default=vars_of).encode())
            order = np.argsort(-self.scores(ranking), kind="stable")
            names = [ranking.items[k].id for k in order]
            self._take(self.visitors.look(visit, names, NOW_MS + 1000 * visit.number))

    def quality(self):
        cases = self.visitors.world.heldout(60, seed=8)
        learnt = np.nanmean([ndcg(np.asarray(r, dtype=float), self.scores(c), 10) for c, r in cases])
        return float(learnt), shop_ndcg(cases)


def vars_of(field):
    return {"name": field.name, "value": field.value}


def test_what_the_demo_shows_is_learning_a_fall_and_a_recovery():
    """By visits instead of seconds, so that a busy machine changes nothing."""
    shop = Shop()
    shop.serve(700)
    before, own = shop.quality()
    shop.visitors.world.drift()
    after, _ = shop.quality()
    shop.serve(700)
    end, _ = shop.quality()
    assert before > own + 0.1
    assert after < before - 0.4
    assert end > after + 0.4


def test_the_same_seed_brings_the_same_people():
    def events(seed):
        visitors = Visitors(seed, SHUFFLED)
        seen = []
        for _ in range(20):
            visit = visitors.arrive()
            names = [item["id"] for item in visit.request["items"]]
            seen += visitors.look(visit, names, NOW_MS)
        return json.dumps(seen, default=vars_of)

    assert events(1) == events(1) != events(2)
