"""Champion and challenger on one list: a valid draft, fair where they are alike, won by the better one."""

import json
import time

import httpx
import msgspec
import numpy as np
import pytest
from hypothesis import given
from hypothesis import settings as examples
from hypothesis import strategies as st

from streamrank import Client
from streamrank.cli import main
from streamrank.config import JudgeSettings, ModelSettings, ServeSettings, Settings
from streamrank.events.types import Field, Item, Ranking, Record
from streamrank.pipeline.checkpoint import Checkpoint
from streamrank.pipeline.flow import Flow
from streamrank.serve.comparison import compared
from streamrank.serve.interleave import NO_ID, draw_of, team_draft
from streamrank.serve.live import Live
from streamrank.serve.server import Server
from streamrank.state import open_store

MODELS = [ModelSettings(name=name, learner="ranknet") for name in ("old", "new")]
SERVE = ServeSettings(challenger="new", port=0)
N = 8


@given(st.integers(1, 40).flatmap(lambda n: st.tuples(st.permutations(range(n)), st.permutations(range(n)))),
       st.integers(0, 2**64 - 1))  # fmt: skip
@examples(max_examples=100)
def test_every_pick_is_the_best_left_of_its_team_and_teams_take_turns(orders, draw):
    drafted = team_draft(*orders, draw)
    left = [list(order) for order in orders]
    for place, (item, team) in enumerate(drafted):
        assert item == left[team][0]
        for one in left:
            one.remove(item)
        if place % 2:
            assert team != drafted[place - 1][1]  # each picks once a round
    assert left == [[], []]
    assert drafted == team_draft(*orders, draw)
    # exchanging the teams exchanges what they pick, and nothing else
    assert len({team for _, team in drafted}) == min(len(drafted), 2)


def test_the_coin_is_fair_at_every_round_and_another_for_each_id():
    same = list(range(6))
    firsts = np.array([[team for _, team in team_draft(same, same, draw_of(f"r{k}"))] for k in range(4000)])
    share = firsts.mean(axis=0)
    assert np.abs(share - 0.5).max() < 3 * 0.5 / np.sqrt(4000)
    rounds = firsts[:, [0, 2, 4]] - 0.5
    assert np.abs(rounds.T @ rounds / 1000 - np.eye(3)).max() < 0.06  # one round says nothing of another
    assert draw_of("r1") == draw_of("r1") != draw_of("r2")
    assert draw_of(NO_ID) != draw_of(NO_ID)


def taught(name, weights, settings):
    """A store whose models serve the weights given."""
    store = open_store(f"memory://{name}")
    flow = Flow(settings)
    checkpoint = Checkpoint(store, flow)
    pair = {"event": "preference", "better": {"x": 1.0, "y": 1.0}, "worse": {"x": 0.0, "y": 0.0}}
    flow.step(Record(0, json.dumps(pair).encode()))
    flow.learn()
    for model in flow.models:
        model.learner.take_weights(np.array(weights[model.name]))
    checkpoint.commit()
    return store


START = 1_700_000_000_000


def click(number, place, item):
    return {"event": "interaction", "id": f"c{number}-{place}", "timestamp": START + 100 * number + place,
            "ranking": f"r{number}", "item": item, "type": "click"}  # fmt: skip


def serve_and_click(live, settings, rankings, seed=1):
    """Users like x, look at rank k with chance 1/k, and click; the flow that takes it all in."""
    rng = np.random.default_rng(seed)
    flow, sent = Flow(settings), []
    for number in range(rankings):
        x, y = rng.random((2, N))
        items = [Item(f"i{k}", [Field("x", x[k]), Field("y", y[k])]) for k in range(N)]
        answer = live.rank("old", Ranking(id=f"r{number}", timestamp=0, items=items))
        sent.append({
            "event": "ranking", "id": f"r{number}", "timestamp": START + 100 * number,
            "items": [{"id": one.item, "team": one.team} for one in answer.items],
        })  # fmt: skip
        for place, one in enumerate(answer.items):
            if rng.random() < x[int(one.item[1:])] ** 2 / (place + 1):
                sent.append(click(number, place, one.item))
    for offset, event in enumerate(sent):
        flow.step(Record(offset, json.dumps(event).encode()))
    return flow


SETTINGS = Settings(models=MODELS, serve=SERVE)


def test_a_better_challenger_wins_beyond_doubt():
    with (
        taught("better", {"old": [0.3, 1.0], "new": [1.0, 0.0]}, SETTINGS),
        Live("memory://better", SETTINGS) as live,
    ):
        flow = serve_and_click(live, SETTINGS, 500)
    found = compared("old", "new", flow.contests.credit("new", "old"))
    assert found.shown == 500
    assert found.low > 0.5
    assert found.win_rate > 0.6
    turned = compared("new", "old", flow.contests.credit("old", "new"))
    assert turned.high < 0.5


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_of_equal_models_none_wins(seed):
    with (
        taught("equal", {"old": [1.0, 0.0], "new": [1.0, 0.0]}, SETTINGS),
        Live("memory://equal", SETTINGS) as live,
    ):
        flow = serve_and_click(live, SETTINGS, 500, seed)
    found = compared("old", "new", flow.contests.credit("new", "old"))
    assert found.decided > 150
    assert found.low < 0.5 < found.high


def test_who_asks_again_is_shown_the_same_and_who_has_no_rival_is_left_alone():
    items = [Item(f"i{k}", [Field("x", k / N), Field("y", -k / N)]) for k in range(N)]
    with (
        taught("again", {"old": [1.0, 0.0], "new": [0.0, 1.0]}, SETTINGS),
        Live("memory://again", SETTINGS) as live,
    ):

        def shown(name, **of):
            return [
                (one.item, one.team) for one in live.rank(name, Ranking(timestamp=0, items=items, **of)).items
            ]

        assert shown("old", id="r7") == shown("old", id="r7")
        assert len({tuple(shown("old", id=f"r{k}")) for k in range(20)}) > 5
        assert len({tuple(shown("old", id=NO_ID)) for k in range(20)}) > 5
        assert shown("new", id="r7") == [(f"i{k}", None) for k in range(N)]  # asked for by name
        explained = live.rank("old", Ranking(id="r7", timestamp=0, items=items), explain=True)
        for one in explained.items:
            assert sum(part.share for part in one.features) == pytest.approx(one.score)
            place = int(one.item[1:]) / N
            feature = "x" if one.team == "old" else "y"
            assert {part.name for part in one.features if part.share} <= {feature}, place
    alone = Settings(models=MODELS)
    with (
        taught("alone", {"old": [1.0, 0.0], "new": [0.0, 1.0]}, alone),
        Live("memory://alone", alone) as live,
    ):
        assert [one.team for one in live.rank("old", Ranking(id="r", timestamp=0, items=items)).items] == [
            None
        ] * N


def test_places_carry_their_propensity_where_it_is_known():
    settings = Settings(models=MODELS, judge=JudgeSettings(theta=[1.0, 0.5]))
    items = [Item(f"i{k}", [Field("x", float(k))]) for k in range(4)]
    with (
        taught("theta", {"old": [1.0, 0.0], "new": [0.0, 1.0]}, settings),
        Live("memory://theta", settings) as live,
    ):
        answer = live.rank("old", Ranking(id="r", timestamp=0, items=items))
    assert [one.propensity for one in answer.items] == [1.0, 0.5, 0.5, 0.5]


def test_what_shards_measured_of_the_position_bias_adds_up():
    """600 shuffled rankings a shard, 1000 needed: together they are enough, and the clicks of both count."""
    settings = Settings(models=MODELS, judge=JudgeSettings(min_shuffled=1000))
    clicked = {"0": (300, 100), "1": (300, 200)}  # at ranks 1 and 2
    with open_store("memory://bias") as store:
        for shard, (first, second) in clicked.items():
            checkpoint = Checkpoint(store, Flow(settings), shard=shard)
            events = []
            for k in range(600):
                items = [{"id": "a"}, {"id": "b"}]
                events.append({"event": "ranking", "id": f"r{k}", "timestamp": START + 100 * k,
                               "shuffled": True, "items": items})  # fmt: skip
                events += [click(k, 0, "a")] * (k < first) + [click(k, 1, "b")] * (k < second)
            for offset, event in enumerate(events):
                checkpoint.flow.step(Record(offset, json.dumps(event).encode()))
            assert checkpoint.flow.judge.measured() is None
            checkpoint.commit()
        with Live("memory://bias", settings) as live:
            items = [Item("a"), Item("b"), Item("c")]
            answer = live.rank("old", Ranking(id="r", timestamp=0, items=items))
    assert [one.propensity for one in answer.items] == [
        1.0,
        0.5,
        0.5,
    ]  # 300 of 600 clicks, and below as there


@pytest.mark.xdist_group("serve")
def test_over_http_the_credits_are_read_as_json_and_by_prometheus(tmp_path):
    url = f"sqlite:///{tmp_path}/s.db"
    settings = Settings(store=url, models=MODELS, serve=SERVE)
    with Server(settings) as server, httpx.Client(base_url=server.url) as client:
        now = client.get("/comparison").json()
        assert (now["champion"], now["challenger"], now["shown"], now["win_rate"]) == ("old", "new", 0, None)
        shown = {"event": "ranking", "id": "r1", "timestamp": START,
                 "items": [{"id": "a", "team": "new"}, {"id": "b", "team": "old"}]}  # fmt: skip
        client.post("/feedback", json=[shown, *2 * [click(1, 0, "a")]])
        deadline = time.monotonic() + 60
        while (now := client.get("/comparison").json())["win_rate"] is None:  # shown first, then clicked
            assert time.monotonic() < deadline
        assert (now["shown"], now["wins"], now["losses"], now["win_rate"]) == (1, 1, 0, 1.0)
        assert client.get("/live").json()["now"]["comparison"] == now
        with Client(server.url) as typed:
            assert msgspec.to_builtins(typed.comparison()) == now
        text = client.get("/metrics").text
        assert 'streamrank_interleaved_total{champion="old",challenger="new",outcome="wins"} 1' in text
        assert 'streamrank_challenger_win_rate{champion="old",challenger="new",bound=""} 1.0' in text
        items = [{"id": "a"}, {"id": "b"}]
        answer = client.post("/rank/old", json={"id": "r2", "timestamp": 0, "items": items}).json()
        assert {one["team"] for one in answer["items"]} == {"old", "new"}


def test_a_challenger_that_is_no_model_is_refused_before_anybody_is_served(tmp_path, monkeypatch, capsys):
    url = f"sqlite:///{tmp_path}/s.db"
    assert main(["serve", "--store", url, "--port", "0", "--challenger", "nobody"]) == 2
    assert "'nobody': there is no such model; there are: default" in capsys.readouterr().err
    # by the environment it is a model of the store, which a command that opens it does not know at once
    with open_store(url) as store:
        checkpoint = Checkpoint(store, Flow(SETTINGS))
        checkpoint.flow.step(Record(0, json.dumps(click(1, 0, "a")).encode()))
        checkpoint.commit()
    monkeypatch.setenv("STREAMRANK_SERVE_CHALLENGER", "new")
    assert main(["promote", "--store", url]) == 1
    assert "of 0 decided rankings new won none" in capsys.readouterr().err
    monkeypatch.setenv("STREAMRANK_SERVE_HOST", "0.0.0.0")  # goes no further than that
    assert main(["serve", "--store", url]) == 2
    assert "Give a token" in capsys.readouterr().err
