"""Promotion: on evidence only, seen by servers at once, exact beside a worker, and taken back."""

import json

import pytest

from streamrank.cli import main
from streamrank.config import ModelSettings, ServeSettings, Settings
from streamrank.errors import Fenced
from streamrank.events.types import Item, Ranking, Record
from streamrank.pipeline.champion import KEY, evidence, proclaim, reigning
from streamrank.pipeline.checkpoint import Checkpoint
from streamrank.pipeline.flow import Flow
from streamrank.preferences.contest import Credit
from streamrank.serve.live import Live
from streamrank.state import open_store

MODELS = [ModelSettings(name=name, learner="ranknet") for name in ("old", "new")]
SETTINGS = Settings(models=MODELS, serve=ServeSettings(challenger="new"))
START = 1_700_000_000_000


def events(wins, losses, first=0):
    """Rankings that both shared; the challenger got the click, or the champion."""
    for k in range(first, first + wins + losses):
        items = [{"id": "a", "team": "new"}, {"id": "b", "team": "old"}]
        yield {"event": "ranking", "id": f"r{k}", "timestamp": START + 10 * k, "items": items}
        item = "a" if k - first < wins else "b"
        yield {"event": "interaction", "id": f"c{k}", "timestamp": START + 10 * k + 1, "ranking": f"r{k}",
               "item": item, "type": "click"}  # fmt: skip


def learn(store, records, shard="0"):
    checkpoint = Checkpoint(store, Flow(SETTINGS), shard=shard)
    for offset, event in enumerate(records, checkpoint.flow.offset):
        checkpoint.flow.step(Record(offset, json.dumps(event).encode()))
    checkpoint.commit()
    return checkpoint


@pytest.fixture
def url(tmp_path):
    return f"sqlite:///{tmp_path}/s.db"


@pytest.fixture
def store(url):
    with open_store(url) as opened:
        yield opened


def learnt(store):
    return {s: {k: v for k, v in store.load(s).items() if k != KEY} for s in store.shards()}


def promoted(capsys, url, *options, code=0):
    assert main(["promote", "--store", url, *options, "--json"]) == code
    out, err = capsys.readouterr()
    return json.loads(out.splitlines()[-1]), err


def test_too_little_evidence_is_refused_and_nothing_is_touched(store, url, capsys):
    learn(store, events(12, 8))
    before = store.load("0")
    result, said = promoted(capsys, url, code=1)
    assert "of 20 decided rankings new won 60.0 %" in said
    assert "does not lie above 50 %: not promoted" in said
    assert (result["champion"], result["promoted"], result["evidence"]["wins"]) == ("old", False, 12)
    assert store.load("0") == before
    result, said = promoted(capsys, url, "--force")
    assert "promoted all the same" in said
    assert result["champion"] == "new"


def test_the_champion_answers_in_place_of_the_first_and_goes_back(store, url, capsys):
    learn(store, events(40, 10))
    learn(store, events(30, 10, first=100), shard="1")
    state = learnt(store)
    ranking = Ranking(id="r", timestamp=0, items=[Item("a"), Item("b")])
    with Live(url, SETTINGS) as live:
        assert {one.team for one in live.rank("old", ranking).items} == {"old", "new"}
        assert live.served.credit("new", "old") == Credit(90, 70, 20)
        result, _ = promoted(capsys, url)
        assert (result["before"], result["champion"], result["evidence"]["shown"]) == ("old", "new", 90)
        assert learnt(store) == state
        live.refresh()
        answer = live.rank("old", ranking)
        assert (answer.model, {one.team for one in answer.items}) == ("new", {None})
        # what led to it says nothing of what comes: evidence counts anew
        assert live.served.credit("new", "old") == evidence(store, "old", "new") == Credit()
        assert main(["promote", "--store", url]) == 1  # back to the other one: on what evidence?
        learn(store, events(3, 2, first=200), shard="1")
        assert evidence(store, "old", "new") == Credit(shown=5, wins=2, losses=3)
        result, _ = promoted(capsys, url, "--undo")
        assert result == {"champion": "old", "before": "new", "promoted": True}
        live.refresh()
        assert live.rank("old", ranking).model == "old"
        assert main(["promote", "--store", url, "--undo"]) == 2
        assert "no promotion to take back" in capsys.readouterr().err


def test_a_worker_beside_it_loses_and_doubles_nothing(store):
    stream = list(events(30, 5))
    checkpoint = learn(store, stream[:40])
    for offset, event in enumerate(stream[40:50], 40):
        checkpoint.flow.step(Record(offset, json.dumps(event).encode()))
    proclaim(store, ["old", "new"])
    with pytest.raises(Fenced):
        checkpoint.commit()
    learn(store, stream[40:])  # it opens again, where the store stands
    with open_store("memory://champion-straight") as straight:
        learn(straight, stream)
        assert learnt(store) == learnt(straight)
    assert reigning(store, "old") == ["old", "new"]


@pytest.mark.parametrize("step", [5, 6, 7, 8])
@pytest.mark.parametrize("shard", [0, 1])
def test_one_that_dies_on_the_way_is_finished_by_the_next(store, step, shard):
    for name in ("0", "1"):
        learn(store, events(3, 1), shard=name)
    seen = 0

    def die(at):
        nonlocal seen
        seen += at == step
        if at == step and seen == shard + 1:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        proclaim(store, ["old", "new"], at=die)
    wrote = shard == 1 or step == 8
    assert reigning(store, "old") == (["old", "new"] if wrote else ["old"])
    proclaim(store, ["old", "new"])
    assert reigning(store, "old") == ["old", "new"]
    stored = [store.get(name, KEY) for name in store.shards()]
    assert None not in stored
    assert learn(store, events(1, 0, first=50), shard="0").flow.counts["events"] == 10  # the worker goes on


def test_who_is_meant_must_be_clear(store, url, capsys, tmp_path):
    learn(store, events(3, 1))
    assert main(["promote", "--store", url, "--challenger", "nobody"]) == 2
    assert "there is no model 'nobody'; there are: old, new" in capsys.readouterr().err
    assert main(["promote", "--store", url, "--challenger", "old"]) == 2
    assert "old is champion already" in capsys.readouterr().err
