"""Credits of two models that share lists: each ranking counted once, whatever came when."""

import json

import pytest
from hypothesis import given
from hypothesis import settings as examples
from hypothesis import strategies as st

from streamrank.config import ModelSettings, Settings
from streamrank.errors import MalformedEvent
from streamrank.events.codec import Decoder, encode_msgpack
from streamrank.events.packed import pack
from streamrank.events.types import Field, Item, Ranking, Record
from streamrank.pipeline.checkpoint import Checkpoint
from streamrank.pipeline.flow import Flow
from streamrank.pipeline.memory import all_entries, restore
from streamrank.preferences.contest import Credit
from streamrank.state import open_store

MODELS = [ModelSettings(name=name, learner="ranknet") for name in ("old", "new", "third")]
SETTINGS = Settings(models=MODELS)
START = 1_700_000_000_000


def ranking(number, teams):
    items = [{"id": f"i{k}", "team": team} if team else {"id": f"i{k}"} for k, team in enumerate(teams)]
    return {"event": "ranking", "id": f"r{number}", "timestamp": START + 10 * number, "items": items}


def click(number, place, kind="click"):
    return {"event": "interaction", "id": f"c{number}-{place}-{kind}", "timestamp": START + 10 * number + 5,
            "ranking": f"r{number}", "item": f"i{place}", "type": kind}  # fmt: skip


def taken(events, settings=SETTINGS):
    flow = Flow(settings)
    for offset, event in enumerate(events):
        flow.step(Record(offset, json.dumps(event).encode()))
    return flow


def by_hand(events, one, other):
    """From all clicks of each ranking, in the end."""
    clicked = {}
    for event in events:
        if event["event"] == "interaction":
            clicked.setdefault(event["ranking"], set()).add(event["item"])
    credit = Credit()
    for event in events:
        teams = [item.get("team") for item in event.get("items", ())]
        if event["event"] == "ranking" and set(teams) == {one, other}:
            mine, theirs = (
                sum(i["id"] in clicked.get(event["id"], ()) for i in event["items"] if i["team"] == name)
                for name in (one, other)
            )
            credit = credit.plus(Credit(1, mine > theirs, mine < theirs, mine == theirs > 0))
    return credit


TEAMS = st.lists(st.sampled_from(["old", "new"]), min_size=2, max_size=6)


@given(
    st.lists(st.tuples(TEAMS, st.sets(st.integers(0, 5)), st.booleans()), min_size=1, max_size=12),
    st.randoms(use_true_random=False),
)
@examples(max_examples=40)
def test_each_ranking_counts_once_by_all_its_clicks(rankings, shuffle):
    events = []
    for number, (teams, places, bought) in enumerate(rankings):
        events.append(ranking(number, teams))
        for place in places:
            if place < len(teams):
                events += [click(number, place)] + [click(number, place, "purchase")] * bought
    flow = taken(events)
    expected = by_hand(events, "new", "old")
    assert flow.contests.credit("new", "old") == expected
    assert flow.contests.credit("old", "new") == expected.reversed()
    shuffle.shuffle(events)  # clicks before their rankings, too; and every event twice
    assert taken(events + events).contests.credit("new", "old") == expected


def test_a_replay_and_a_restart_anywhere_give_the_same_credits():
    teams = ["new", "old", "old", "new"]
    events = [
        e
        for n in range(40)
        for e in (ranking(n, teams), *(click(n, p) for p in range(n % 5 - 1, 4, 2) if p >= 0))
    ]
    straight = taken(events)
    assert straight.contests.credit("new", "old") == by_hand(events, "new", "old")
    for cut in range(1, len(events), 7):
        first = taken(events[:cut])
        first.learn()  # as a commit does
        entries = all_entries(first)
        second = Flow(SETTINGS)
        restore(second, entries, cut)
        for offset, event in enumerate(events[cut:], cut):
            second.step(Record(offset, json.dumps(event).encode()))
        straight.learn()
        second.learn()
        assert all_entries(second) == all_entries(straight)


def test_a_commit_carries_the_credits_and_a_snapshot_of_them_is_read_back():
    events = [ranking(1, ["new", "old"]), click(1, 0), ranking(2, ["old", "new"])]
    store = open_store("memory://contest")
    checkpoint = Checkpoint(store, Flow(SETTINGS))
    for offset, event in enumerate(events):
        checkpoint.flow.step(Record(offset, json.dumps(event).encode()))
        checkpoint.commit()
    again = Checkpoint(store, Flow(SETTINGS)).flow
    assert again.contests.credit("new", "old") == Credit(shown=2, wins=1)
    again.step(Record(3, json.dumps(click(2, 0)).encode()))
    assert again.contests.credit("new", "old") == Credit(shown=2, wins=1, losses=1)


@pytest.mark.parametrize(
    "teams",
    [
        ["old", None],
        ["old", "old"],
        ["old", "new", "third"],
        ["old", "stranger"],
        [None, None],
    ],
)
def test_rankings_that_name_other_than_two_models_count_nothing(teams):
    flow = taken([ranking(1, teams), click(1, 0)])
    assert flow.contests.to_state() == {}


def test_without_teams_a_state_is_as_it_was():
    plain = all_entries(taken([ranking(1, [None, None]), click(1, 0)]))
    assert not [key for key in plain if key.startswith("contest")]


def test_a_packed_ranking_carries_its_teams():
    items = [Item(f"i{k}", [Field("x", float(k))], team=team) for k, team in enumerate(("old", "new"))]
    packed = pack(Ranking(id="r1", timestamp=START, items=items))
    assert packed.teams == ["old", "new"]
    flow = Flow(SETTINGS)
    flow.step(Record(0, encode_msgpack(packed)))
    flow.step(Record(1, json.dumps({**click(1, 1), "timestamp": START + 1}).encode()))
    assert flow.contests.credit("new", "old") == Credit(shown=1, wins=1)
    packed.teams = ["old"]
    assert isinstance(Decoder().decode(encode_msgpack(packed))[0], MalformedEvent)
    packed.teams = ["old", "x" * 5000]
    assert isinstance(Decoder().decode(encode_msgpack(packed))[0], MalformedEvent)


def test_a_team_of_endless_length_is_refused():
    (refused,) = Decoder().decode(json.dumps(ranking(1, ["x" * 5000, "old"])).encode())
    assert isinstance(refused, MalformedEvent)
    assert "$.items[0].team" in str(refused)
