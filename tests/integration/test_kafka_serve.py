"""Feedback by way of Kafka: acknowledged once the broker has it, and in rankings once it is learnt."""

import httpx
import msgspec
import pytest

from streamrank import Client
from streamrank.config import ServeSettings
from streamrank.errors import ServerRefused, SourceDown
from streamrank.serve.server import Server
from streamrank.sources.topics import open_topic
from streamrank.state import open_store
from tests.integration.live import click, learn, ranking, wait_for


@pytest.fixture
def served(new_topic, settings, tmp_path):
    serve = ServeSettings(port=0, feedback="kafka", max_lag_ms=500)
    url = f"sqlite:///{tmp_path}/s.db"
    asked = msgspec.structs.replace(settings(new_topic(partitions=3)), store=url, serve=serve)
    with Server(asked) as server, Client(server.url) as client:
        yield asked, server, client


def test_what_is_accepted_is_in_the_topic_by_user_and_is_served_once_learnt(served):
    settings, server, client = served
    assert client.ready() == ""
    sent = [{**event, "user": f"u{n % 5}"} for n in range(40) for event in (ranking(n), click(n, n % 4))]
    receipt = client.feedback([*sent, {"event": "item", "id": "m", "timestamp": 1.7e12, "item": "i1"}])
    assert (receipt.accepted, receipt.offset) == (81, 0)
    topic = open_topic(settings.kafka, settings.kafka.topic)
    users = [set() for _ in topic.partitions]
    n = 0
    for partition in topic.partitions:
        for messages in topic.read(partition, 0, topic.bounds(partition).end):
            n += len(messages)
            decoded = [msgspec.json.decode(message.value) for message in messages]
            users[partition] |= {event["user"] for event in decoded if event["event"] != "item"}
    topic.close()
    assert n == 80 + 3  # metadata goes to every partition
    assert sum(map(len, users)) == 5  # and a user to one
    wait_for(lambda: "lags" in client.ready())
    assert httpx.get(f"{server.url}/live").json()["now"]["lag"] == 83
    with open_store(settings.store) as store:
        learn(settings, store)
    wait_for(lambda: client.ready() == "")
    answer = client.rank({"a": {"price": 1}, "b": {"price": 9}})
    assert (answer.degraded, httpx.get(f"{server.url}/live").json()["now"]["events"]["judged"]) == (False, 40)
    with pytest.raises(ServerRefused, match=r"set archive\.folder"):
        client.train()


def test_what_the_broker_does_not_take_is_not_acknowledged_to_anyone(served, monkeypatch):
    _, server, client = served
    outbox = server.service.feed._outbox

    def fails():
        raise SourceDown("it is away")

    with monkeypatch.context() as patch:
        patch.setattr(outbox, "flush", fails)
        with pytest.raises(ServerRefused, match="it is away") as refused:
            client.feedback([ranking(1)])
        assert refused.value.status == 503
    assert client.feedback([ranking(1)]).accepted == 1  # the sender tries again; its id tells it apart
