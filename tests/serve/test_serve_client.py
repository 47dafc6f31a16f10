"""The clients: what the server says arrives as types, what it refuses as an error."""

import asyncio

import pytest

from streamrank import AsyncClient, Client, Local
from streamrank.config import ModelSettings, ServeSettings, Settings
from streamrank.errors import ConfigError, MalformedEvent, ServerRefused
from streamrank.events.types import Field, Item, Preference
from streamrank.serve.server import Server
from streamrank.state.snapshot import read_snapshot

pytestmark = pytest.mark.xdist_group("serve")
TOKEN = "s3cret"
ITEMS = {"low": {"fresh": 0.1, "tags": ["a", "b"]}, "high": {"fresh": 0.9}}
BETTER = Preference(better={"fresh": 1.0}, worse={"fresh": 0.0})
MODELS = [ModelSettings(name="default"), ModelSettings(name="other ü", learner="ranknet")]


def settings(folder):
    return Settings(store=f"sqlite:///{folder}/s.db", serve=ServeSettings(port=0, token=TOKEN), models=MODELS)


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    with Server(settings(tmp_path_factory.mktemp("client"))) as running:
        yield running


def test_a_client_ranks_teaches_and_waits(server, tmp_path):
    with Client(server.url, token=TOKEN) as client:
        receipt = client.feedback(
            [BETTER, {"event": "example", "x": {"fresh": 1.0}, "y": 1.0}, {"event": "x"}]
        )
        assert (receipt.status, receipt.accepted) == ("partial", 2)
        assert [one.index for one in receipt.rejected] == [2]
        assert client.wait_until_learnt(receipt, 120)
        for model in (one.name for one in MODELS):
            answer = client.rank(ITEMS, model=model, explain=True, user="u1", query="q")
            assert [ranked.item for ranked in answer.items] == ["high", "low"]
            assert (answer.model, answer.degraded) == (model, False)
            assert answer.items[0].features[0].name == "fresh"
        listed = [Item("low", [Field("fresh", 0.1)]), "unknown"]
        assert len(client.rank(listed).items) == 2
        assert client.ready() == ""
        client.snapshot(tmp_path / "state.safetensors")
        assert read_snapshot(tmp_path / "state.safetensors")


def test_what_is_refused_is_an_error_with_its_reason(server):
    with Client(server.url, token=TOKEN) as client:
        for status, match, ask in (
            (404, "there are: default", lambda: client.rank(ITEMS, model="none")),
            (400, "unknown event|nonsense", lambda: client.feedback({"event": "nonsense"})),
            (409, "too few|empty", lambda: client.train()),
            (404, "nobody challenges", lambda: client.comparison()),
        ):
            with pytest.raises(ServerRefused, match=match) as refused:
                ask()
            assert refused.value.status == status
    with Client(server.url) as stranger, pytest.raises(ServerRefused, match="Bearer") as refused:
        stranger.rank(ITEMS)
    assert refused.value.status == 401
    with Client("http://127.0.0.1:9") as nowhere:
        assert "no answer" in nowhere.ready()


def test_the_same_awaited(server, tmp_path):
    async def talk():
        async with AsyncClient(server.url, token=TOKEN) as client:
            receipt = await client.feedback(BETTER)
            assert await client.wait_until_learnt(receipt, 120)
            answers = await asyncio.gather(*(client.rank(ITEMS) for _ in range(20)))
            assert {answer.items[0].item for answer in answers} == {"high"}
            assert await client.ready() == ""
            await client.snapshot(tmp_path / "state.safetensors")
            with pytest.raises(ServerRefused, match="too few"):
                await client.train()
            with pytest.raises(ServerRefused, match="no model"):
                await client.rank(ITEMS, model="none")
        async with AsyncClient("http://127.0.0.1:9") as nowhere:
            assert "no answer" in await nowhere.ready()

    asyncio.run(talk())


def test_the_same_without_http(tmp_path):
    with Local(settings(tmp_path)) as ranker:
        assert ranker.rank(ITEMS).degraded
        receipt = ranker.feedback([BETTER, {"event": "nonsense"}])
        assert (receipt.accepted, receipt.rejected[0].index) == (1, 1)
        assert ranker.wait_until_learnt(receipt, 120)
        assert [ranked.item for ranked in ranker.rank(ITEMS).items] == ["high", "low"]
        assert ranker.ready() == ""
        ranker.snapshot(tmp_path / "state.safetensors")
        with pytest.raises(MalformedEvent, match="empty"):
            ranker.rank([])
        with pytest.raises(ConfigError, match="no model"):
            ranker.rank(ITEMS, model="none")
