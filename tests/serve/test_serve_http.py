"""The server as its users meet it: over HTTP, with the worker as a process of its own."""

import json
import os
import signal
import socket
import time

import httpx
import pytest
from hypothesis import HealthCheck, given
from hypothesis import settings as examples
from hypothesis import strategies as st

from streamrank.cli import main
from streamrank.config import ArchiveSettings, ServeSettings, Settings
from streamrank.errors import ConfigError, SourceError
from streamrank.events.types import Record
from streamrank.pipeline.checkpoint import Checkpoint
from streamrank.pipeline.flow import Flow
from streamrank.pipeline.memory import all_entries
from streamrank.serve.feedback import FeedbackLog
from streamrank.serve.server import Server
from streamrank.simulation import Settings as World
from streamrank.simulation import Simulator
from streamrank.sources import open_source
from streamrank.sources.feedback import SHARD, records
from streamrank.state import open_store

pytestmark = pytest.mark.xdist_group("serve")
TOKEN = "s3cret"


def until(holds, seconds=120.0):  # the first to learn compiles the kernels
    deadline = time.monotonic() + seconds
    while not (found := holds()):
        assert time.monotonic() < deadline, "it did not come to that"
        time.sleep(0.005)
    return found


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    folder = tmp_path_factory.mktemp("serve")
    serve = ServeSettings(port=0, max_bytes=1 << 20)
    with Server(Settings(store=f"sqlite:///{folder}/s.db", serve=serve)) as running:
        yield running


@pytest.fixture(scope="module")
def client(server):
    with httpx.Client(base_url=server.url) as one:
        yield one


def request(*ids):
    fields = [{"name": "price", "value": 3.5}]
    return {"id": "r1", "timestamp": "1700000000000", "user": "u1", "session": "s1", "fields": [],
            "items": [{"id": i, "fields": fields} if i == "a" else {"id": i} for i in ids]}  # fmt: skip


def test_a_recommender_that_is_not_there_is_not_found(client):
    answer = client.post("/recommend/for-you", content=b'{"user": "u1"}')
    assert answer.status_code == 404
    assert "no recommender 'for-you'" in answer.json()["error"]
    assert client.post("/recommend/for-you", content=b"[]").status_code == 400


def test_metarank_requests_get_metarank_answers(client):
    """The payloads of its API documentation, sent without a content type as curl -d does not send JSON's."""
    answer = client.post("/rank/default?explain=true", content=json.dumps(request("a", "b"))).json()
    assert {"items", "took", "model_version", "degraded"} <= set(answer)
    assert [item["item"] for item in answer["items"]] == ["a", "b"]
    event = {"event": "ranking", "id": "id1", "user": "alice", "session": "alice1",
             "timestamp": 1661431894711, "items": [{"id": "72998"}, {"id": "589"}]}  # fmt: skip
    receipt = client.post("/feedback", content=json.dumps(event, indent=1)).json()
    assert (receipt["accepted"], receipt["status"], receipt["rejected"]) == (1, "ok", [])
    assert {"tookMillis", "updated"} <= set(receipt)


def test_a_click_changes_the_order_within_a_second(client):
    def shown(k):
        items = [
            {"id": c, "fields": [{"name": "fresh", "value": v}]} for c, v in (("old", 0.1), ("new", 0.9))
        ]
        return {"event": "ranking", "id": f"k{k}", "timestamp": 1700000000000 + k, "items": items}

    def click(k):
        return {"event": "interaction", "id": f"c{k}", "timestamp": 1700000000500 + k, "ranking": f"k{k}",
                "item": "new", "type": "click"}  # fmt: skip

    client.post("/feedback", json=[shown(0), click(0)])  # the first compiles the kernels
    until(lambda: client.get("/live").json()["now"]["lag"] == 0)
    spent = []
    for k in range(1, 4):  # the best of three, as other tests run beside this one
        version = client.post("/rank/default", json=shown(k)).json()["model_version"]
        began = time.monotonic()
        client.post("/feedback", content=f"{json.dumps(shown(k))}\n{json.dumps(click(k))}")
        answer = until(
            lambda old=version: (
                (a := client.post("/rank/default", json=shown(1)).json())["model_version"] != old and a
            )
        )
        spent.append(time.monotonic() - began)
    assert min(spent) < 1.0
    assert [item["item"] for item in answer["items"]] == ["new", "old"]
    assert answer["degraded"] is False
    explained = client.post("/rank/default?explain=true", json=shown(1)).json()["items"][0]
    assert sum(part["share"] for part in explained["features"]) == pytest.approx(explained["score"])


def test_events_are_told_apart_however_they_are_strung_together(client):
    two = [json.dumps({**GOOD, "id": name}) for name in ("ü{", 'b"}')]
    for body in (
        "\n".join(two),
        "".join(two),
        " ".join(two),
        f"[{','.join(two)}]",
        "\r\n\r\n".join(two) + "\n",
    ):
        receipt = client.post("/feedback", content=body).json()
        assert (receipt["accepted"], receipt["rejected"]) == (2, []), body
    cut = client.post("/feedback", content="".join(two) + two[0][:-3]).json()
    assert (cut["accepted"], [r["index"] for r in cut["rejected"]]) == (2, [2])
    for torn in ("[{}", "[" * 100_000, "{" * 10, '{"a":' * 100_000, f"{two[0]}\n[{two[1]}"):
        assert client.post("/feedback", content=torn).json()["rejected"], torn[:20]


def test_what_is_wrong_with_a_request_is_said(client):
    assert client.post("/rank/other", json=request("a")).status_code == 404
    bad = client.post("/rank/default", json={"items": [{"id": 7}]})
    assert (bad.status_code, "$.items[0].id" in bad.json()["error"]) == (400, True)
    assert client.post("/feedback", content=b"").status_code == 400
    assert client.post("/feedback", content=b"\xff\xfe").status_code == 400
    assert client.post("/rank/default", content=b"x" * (1 << 21)).status_code == 413
    assert client.get("/live?since=yesterday").status_code == 400
    assert client.get("/nowhere").status_code == 404
    assert client.get("/rank/default").status_code == 405


GOOD = {"event": "example", "x": {"a": 1.0}, "y": 1.0}
JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=5,
)
BAD = st.dictionaries(st.sampled_from(["event", "id", "items", "x", "y"]), JSON).map(
    lambda event: {**event, "event": "nonsense"}
)


@examples(max_examples=40, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(bad=st.lists(st.tuples(st.integers(0, 4), BAD), min_size=1, max_size=4), lines=st.booleans())
def test_bad_events_are_rejected_by_index_and_the_good_ones_beside_them_taken(client, bad, lines):
    body = [GOOD] * 3
    for place, event in bad:
        body.insert(place, event)
    text = "\n".join(json.dumps(e) for e in body) if lines else json.dumps(body)
    receipt = client.post("/feedback", content=text).json()
    wrong = [k for k, event in enumerate(body) if event is not GOOD]
    assert receipt["accepted"] == 3
    assert [r["index"] for r in receipt["rejected"]] == wrong
    assert all(r["reason"] for r in receipt["rejected"])


@examples(max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(value=JSON, path=st.sampled_from(["/rank/default", "/rank/default?explain=true", "/feedback"]))
def test_no_body_of_any_shape_breaks_it(client, value, path):
    assert client.post(path, json=value).status_code in (200, 400)


@pytest.mark.parametrize("archive", ["", "archive"])
def test_train_reconciles_and_answers_as_metarank_does(tmp_path, archive):
    settings = Settings(
        store=f"sqlite:///{tmp_path}/s.db",
        serve=ServeSettings(port=0),
        archive=ArchiveSettings(folder=str(tmp_path / archive) if archive else ""),
    )
    with Server(settings) as server, httpx.Client(base_url=server.url, timeout=60) as client:
        early = client.post("/train/default")
        assert (early.status_code, "empty" in early.json()["error"]) == (409, True)
        assert client.post("/train/other").status_code == 404
        log = b"\n".join(Simulator(World(events=3000, seed=3, shuffled=0.2)).records())
        offset = client.post("/feedback", content=log).json()["offset"]
        until(lambda: client.get("/live").json()["now"]["shards"].get(SHARD, {}).get("offset") == offset)
        done = client.post("/train/default").json()
        assert {"features", "iterations", "sizeBytes", "drift", "chosen"} <= set(done)
        assert {"price", "rating"} <= {feature["name"] for feature in done["features"]}
        assert all(0 < step["testMetric"] < 1 for step in done["iterations"])
        assert client.get("/live").json()["now"]["reconciled"][-1]["drift"] == done["drift"]
        assert 'streamrank_drift{model="default",part="cosine"}' in client.get("/metrics").text
        # the worker, fenced by the swap or not, goes on from where it stood
        offset = client.post("/feedback", json=GOOD).json()["offset"]
        until(lambda: client.get("/live").json()["now"]["shards"][SHARD]["offset"] == offset)
        # the command line does the same from the same log
        command = ["reconcile", "--store", settings.store, "--shard", SHARD, "--json"]
        assert main([*command, "--data", str(server.service.feed.folder)]) == 0


def test_what_it_says_of_itself(client, server):
    assert client.get("/health").json() == {"status": "ok"}
    until(lambda: client.get("/ready").status_code == 200)
    text = client.get("/metrics").text
    for name in (
        "events_total",
        "lag_seconds",
        "quality",
        "condition",
        "rank_seconds_bucket",
        "worker_up 1.0",
    ):
        assert f"streamrank_{name}" in text, name
    described = client.get("/openapi.json").json()
    routes = {route.path for route in server._server.config.app.routes}
    assert set(described["paths"]) <= routes
    for path in ("/", "/app.js", "/plotly.js", "/docs", "/docs.js"):
        assert client.get(path).status_code == 200, path
    offset = client.post("/feedback", json=GOOD).json()["offset"]
    until(lambda: client.get("/live").json()["now"]["shards"].get(SHARD, {}).get("offset") == offset)
    snapshot = client.post("/snapshot")
    assert snapshot.status_code == 200
    assert len(snapshot.content) > 1000


def running(server) -> int:
    """The worker's pid. Never 0, which a signal would take for the whole group of processes."""
    seen = []
    until(lambda: seen.append(server.service.feed.worker.pid) or seen[-1])
    return seen[-1]


def test_a_killed_worker_is_started_again_and_learns_each_event_once(client, server, tmp_path):
    feed = server.service.feed
    for k in range(6):
        events = [{**GOOD, "id": f"e{k}-{n}", "x": {"a": n / 7, "b": k / 5}} for n in range(20)]
        assert client.post("/feedback", json=events).json()["accepted"] == 20
        if k in (1, 3):
            pid = running(server)
            os.kill(pid, signal.SIGKILL)
            until(lambda gone=pid: feed.worker.pid not in (0, gone))
    until(lambda: feed.worker.last and feed.worker.last.offset == feed.log.end)
    with open_store(server.service.settings.store) as store:
        stored, offset = store.read(SHARD)
    flow = Flow(server.service.settings)
    for record in records(feed.log.folder, 0):
        flow.step(record)
    flow.learn()
    assert offset == feed.log.end
    assert all_entries(flow) == stored


def test_the_token_is_asked_for_and_the_rate_is_limited(tmp_path):
    with pytest.raises(ConfigError, match="token"):
        Server(Settings(store=f"sqlite:///{tmp_path}/s.db", serve=ServeSettings(host="0.0.0.0", port=0)))
    serve = ServeSettings(port=0, token=TOKEN, max_per_second=5)
    with (
        Server(Settings(store=f"sqlite:///{tmp_path}/s.db", serve=serve)) as server,
        httpx.Client(base_url=server.url) as client,
    ):
        assert client.post("/rank/default", json=request("a")).status_code == 401
        assert client.get("/health").status_code == 200
        known = {"Authorization": f"Bearer {TOKEN}"}
        codes = [
            client.post("/rank/default", json=request("a"), headers=known).status_code for _ in range(20)
        ]
        assert set(codes) == {200, 429}


def test_the_log_survives_a_torn_line_and_a_store_that_is_ahead(tmp_path):
    log = FeedbackLog(tmp_path / "log")
    assert log.append([b"one", b"two"]) == 8
    log.close()
    with next((tmp_path / "log").iterdir()).open("ab") as file:
        file.write(b"tor")
    log = FeedbackLog(tmp_path / "log")
    log.append([b"three"])
    log.close()
    assert [r.value for r in records(tmp_path / "log", 0)] == [b"one", b"two", b"three"]
    assert [r.value for r in records(tmp_path / "log", 4)] == [b"two", b"three"]
    log = FeedbackLog(tmp_path / "log", at_least=100)
    log.append([b"four"])
    log.close()
    assert [(r.offset, r.value) for r in records(tmp_path / "log", 100)] == [(104, b"four")]


def test_old_segments_go_once_they_are_learnt(tmp_path, monkeypatch):
    monkeypatch.setattr("streamrank.serve.feedback.SEGMENT_BYTES", 10)
    log = FeedbackLog(tmp_path / "log", keep_mb=0)
    for k in range(5):
        log.append([b"%010d" % k], learnt=22)
    log.close()
    assert [r.value for r in records(tmp_path / "log", 22)] == [b"%010d" % k for k in (2, 3, 4)]
    assert len(list((tmp_path / "log").iterdir())) == 3
    with pytest.raises(SourceError, match="keep_mb"):
        next(open_source([tmp_path / "log"]).records(0))


def test_the_log_is_a_source_that_is_read_from_any_record_on(tmp_path):
    log = FeedbackLog(tmp_path / "log")
    log.append([b"%d" % k * (k + 1) for k in range(30)])
    log.close()
    source = open_source([tmp_path / "log"])
    whole = list(source.records())
    assert source.progress() == (log.end, log.end)
    for k, record in enumerate(whole):
        assert next(source.records(record.offset)) == record
        assert list(source.records(record.offset + 1)) == whole[k + 1 :]


def test_a_store_that_a_replay_filled_is_served(tmp_path):
    url = f"sqlite:///{tmp_path}/s.db"
    with open_store(url) as store:
        checkpoint = Checkpoint(store, Flow(Settings()), shard="0")
        for k in range(20):
            event = b'{"event":"preference","better":{"a":%d},"worse":{"a":0}}' % (k + 1)
            checkpoint.flow.step(Record(k, event))
        checkpoint.commit()
    with Server(Settings(store=url, serve=ServeSettings(port=0))) as server:
        items = [{"id": f"i{v}", "fields": [{"name": "a", "value": v}]} for v in (1, 3)]
        answer = httpx.post(f"{server.url}/rank/default", json={"items": items}).json()
        assert [item["item"] for item in answer["items"]] == ["i3", "i1"]


def test_the_command_refuses_the_world_without_a_token(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    assert main(["serve", "--store", "sqlite:///s.db", "--host", "0.0.0.0", "--port", "0"]) == 2
    assert "token" in capsys.readouterr().err


def test_the_worker_gives_way_to_who_asks_and_ctrl_c_is_not_for_it(server):
    pid = running(server)
    until(lambda: os.getpriority(os.PRIO_PROCESS, pid) > os.getpriority(os.PRIO_PROCESS, 0))
    assert os.getsid(pid) == os.getsid(0)  # Linux weighs niceness within a session alone (autogroup)
    assert os.getpgid(pid) != os.getpgid(0)


def test_an_unknown_path_or_method_is_refused_as_json_like_everything_else(client):
    for answer, status in ((client.get("/nope"), 404), (client.get("/rank/default"), 405)):
        assert answer.status_code == status
        assert "/docs" in answer.json()["error"]
    assert "POST" in client.get("/rank/default").headers["allow"]


def test_a_page_of_another_site_cannot_teach_the_ranker_through_its_visitors_browser(client):
    sites = {"cross-site": 403, "same-site": 403, "same-origin": 200, "none": 200}  # none: typed by the user
    for site, status in sites.items():
        answer = client.post("/feedback", json={**GOOD, "id": site}, headers={"Sec-Fetch-Site": site})
        assert answer.status_code == status, site


def test_who_begins_a_request_and_does_not_go_on_is_dropped(tmp_path):
    serve = ServeSettings(port=0, timeout_ms=300)
    with Server(Settings(store=f"sqlite:///{tmp_path}/s.db", serve=serve)) as server:
        at = httpx.URL(server.url)
        for said in (b"", b"GET /health HTTP/1.1\r\nHo", b"GET /health HTTP/1.1\r\nHost: a\r\n\r\nGET /he"):
            with socket.create_connection((at.host, at.port), timeout=60) as link:
                link.sendall(said)
                while link.recv(1 << 16):
                    pass
        assert httpx.get(f"{server.url}/health").status_code == 200
