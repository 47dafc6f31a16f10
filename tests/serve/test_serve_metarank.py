"""Metarank's quickstart, request by request as its documentation has them, gets the answers documented."""

import json
import socket

import httpx
import pytest

from streamrank.config import ModelSettings, ServeSettings, Settings
from streamrank.serve.server import Server

pytestmark = pytest.mark.xdist_group("serve")
# of its "First query": a hundred popular films, a model called xgboost
FILMS = [str(film) for film in (
    72998, 67197, 77561, 68358, 79132, 103228, 72378, 85131, 94864, 68791, 93363, 112623, 109487, 59315,
    120466, 90405, 122918, 70286, 117529, 130490, 92420, 122882, 87306, 82461, 113345, 2571, 122900, 88744,
    111360, 134130, 95875, 60069, 2021, 135567, 103253, 111759, 122902, 104243, 112852, 102880, 56174,
    107406, 96610, 741, 166528, 164179, 187595, 589, 71057, 3527, 6365, 6934, 1270, 6502, 114935, 8810,
    173291, 1580, 182715, 166635, 1917, 135569, 106920, 1240, 5502, 316, 85056, 780, 1527, 5459, 94018,
    33493, 8644, 60684, 7254, 44191, 101864, 132046, 97752, 2628, 541, 106002, 1200, 5378, 2012, 79357,
    6283, 113741, 90345, 2011, 27660, 34048, 1882, 1748, 2985, 104841, 34319, 1097, 115713, 2916,
)]  # fmt: skip
SHOWN = [str(film) for film in (
    72998, 589, 134130, 5459, 1917, 2571, 1527, 97752, 1270, 1580, 109487, 79132,
)]  # fmt: skip
WHO = {"user": "alice", "session": "alice1"}
RANK = {"event": "ranking", "id": "id1", "items": [{"id": film} for film in FILMS], **WHO}
RANKING = {"event": "ranking", "id": "id1", "items": [{"id": film} for film in SHOWN], **WHO}
CLICK = {"event": "interaction", "type": "click", "id": "id2", "ranking": "id1", "item": "1580", **WHO}
METADATA = {
    "id": "b4951b85-a87f-4fdc-b2af-9ff06783def4",
    "item": "3114",
    "timestamp": "1636907100000",
    "fields": [
        {"name": "title", "value": "Toy Story 2"},
        {"name": "popularity", "value": 112.767},
        {"name": "vote_cnt", "value": 11025.0},
        {"name": "genres", "value": ["animation", "comedy", "family"]},
        {"name": "director", "value": "john lasseter"},
    ],
    "event": "item",
}


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    serve = ServeSettings(port=0, timeout_ms=500)
    store = f"sqlite:///{tmp_path_factory.mktemp('metarank')}/s.db"
    with Server(Settings(store=store, serve=serve, models=[ModelSettings(name="xgboost")])) as running:
        yield running


@pytest.fixture(scope="module")
def curl(server):
    """As `curl -d` sends it: pretty-printed, with the content type of a form."""
    form = {"Content-Type": "application/x-www-form-urlencoded"}
    with httpx.Client(base_url=server.url, headers=form, timeout=120) as client:

        def post(path, body=None):
            answer = client.post(path, content=json.dumps(body, indent=4) if body else b"")
            assert answer.status_code == 200, answer.text
            return answer.json()

        yield post


def genre(film):
    return "space" if film in ("1580", "5459", "2571") else "history"


def test_the_quickstart(curl, server):
    first = curl("/rank/xgboost", RANK | {"timestamp": 1661431892711})
    assert [item["item"] for item in first["items"]] == FILMS  # nothing is learnt yet
    assert all(set(item) == {"item", "score"} and isinstance(item["score"], float) for item in first["items"])
    assert isinstance(first["took"], int)
    known = [METADATA] + [
        METADATA | {"id": f"m{film}", "item": film, "fields": [{"name": "genres", "value": [genre(film)]}]}
        for film in FILMS
    ]
    sent = curl("/feedback", known)
    assert (sent["accepted"], sent["status"]) == (101, "ok")
    for event in (RANKING | {"timestamp": 1661431894711}, CLICK | {"timestamp": 1661431896711}):
        sent = curl("/feedback", event)
        assert (sent["accepted"], sent["status"]) == (1, "ok")
        assert isinstance(sent["tookMillis"], int)
        assert isinstance(sent["updated"], int)
    for _ in range(240):  # the first time, the kernels are compiled
        if (answer := httpx.post(f"{server.url}/flush")).status_code == 200:
            break
    assert answer.json().keys() >= {"accepted", "status", "tookMillis", "updated"}
    second = curl("/rank/xgboost?explain=true", RANK | {"timestamp": 1661431898711})
    assert {genre(item["item"]) for item in second["items"][:3]} == {"space"}
    assert {item["item"] for item in second["items"]} == set(FILMS)
    explained = second["items"][0]["features"][0]
    assert explained["name"] == "genres=space"
    assert isinstance(explained["value"], float)


def test_the_request_of_its_interface(curl):
    items = [{"id": f"item{k}", "fields": [{"name": "relevancy", "value": 0.5 * k}]} for k in (3, 1, 2)]
    fields = [{"name": "query", "value": "jeans"}, {"name": "source", "value": "search"}]
    asked = {"id": "81f46c34-a4bb-469c-8708-f8127cd67d27", "timestamp": "1599391467000", "user": "user1",
             "session": "session1", "fields": fields, "items": items}  # fmt: skip
    assert sorted(item["item"] for item in curl("/rank/xgboost", asked)["items"]) == [
        "item1",
        "item2",
        "item3",
    ]


def test_a_body_that_does_not_come_is_not_waited_for(server):
    host, port = server.url.removeprefix("http://").split(":")
    with socket.create_connection((host, int(port)), timeout=30) as slow:
        slow.sendall(b"POST /rank/xgboost HTTP/1.1\r\nHost: x\r\nContent-Length: 100\r\n\r\n{")
        assert slow.recv(200).startswith(b"HTTP/1.1 408")
