"""What is recommended is what the recommenders of all shards learnt."""

import json

import pytest

from streamrank.config import RecommenderSettings, Settings
from streamrank.errors import ConfigError, MalformedEvent
from streamrank.events.types import Record
from streamrank.pipeline.checkpoint import Checkpoint
from streamrank.pipeline.flow import Flow
from streamrank.pipeline.memory import all_entries
from streamrank.serve.answers import RecommendRequest
from streamrank.serve.live import Live
from streamrank.serve.openapi import description
from streamrank.serve.service import Service
from streamrank.state import open_store

SETTINGS = Settings(recommenders=[RecommenderSettings(name="for-you", params={"d": 4, "negatives": 4})])


def interaction(name, user, item):
    event = {"event": "interaction", "id": name, "timestamp": 10**12, "type": "click"}
    return {**event, "user": user, "item": item}


def learn(store, pairs, shard):
    checkpoint = Checkpoint(store, Flow(SETTINGS), shard=shard)
    for k, (user, item) in enumerate(pairs):
        checkpoint.flow.step(Record(k, json.dumps(interaction(f"{shard}{k}", user, item)).encode()))
    checkpoint.commit()
    return checkpoint.flow


ANN = [("ann", item) for _ in range(30) for item in ("jazz", "blues", "soul")]
BOB = [("bob", item) for _ in range(30) for item in ("rock", "punk", "jazz")]


def test_one_shard_recommends_as_it_learnt_and_asking_changes_nothing():
    flow = learn(open_store("memory://recommend-one"), ANN + BOB, "0")
    learner, before = flow.recommenders[0].learner, all_entries(flow)
    with Live("memory://recommend-one", SETTINGS) as live:
        answer = live.recommend("for-you", RecommendRequest("ann", 2, ["jazz"]))
        assert [one.item for one in answer.items] == learner.recommend("ann", 2, ["jazz"])
        assert [one.score for one in answer.items] == learner.scores("ann", answer_items(answer)).tolist()
        assert not answer.degraded
        assert len(live.recommend("for-you", RecommendRequest("stranger", 3)).items) == 3
        with pytest.raises(ConfigError, match="for-you"):
            live.recommend("default", RecommendRequest("ann"))
    assert all_entries(flow) == before


def answer_items(answer):
    return [one.item for one in answer.items]


def test_shards_are_merged_users_from_where_they_are_items_from_all():
    store = open_store("memory://recommend-two")
    learn(store, ANN, "0")
    learn(store, BOB, "1")
    with Live("memory://recommend-two", SETTINGS) as live:
        for user in ("ann", "bob"):
            items = answer_items(live.recommend("for-you", RecommendRequest(user, 10)))
            assert sorted(items) == ["blues", "jazz", "punk", "rock", "soul"]


def test_what_a_shard_that_stands_still_took_in_of_others_is_served():
    store, items = open_store("memory://recommend-still"), ["jazz", "blues", "soul", "rock"]
    learn(store, [("ann", item) for _ in range(50) for item in items], "0")
    learn(store, [("bob", item) for item in items], "1")
    still, moving = (Checkpoint(store, Flow(SETTINGS), shard=shard) for shard in "01")
    learners = [checkpoint.flow.recommenders[0].learner for checkpoint in (still, moving)]

    def pool():
        said = [learner.taught() for learner in learners]
        for k, checkpoint in enumerate((still, moving)):
            assert learners[k].pool([said[1 - k]])
            checkpoint.touch()
            checkpoint.commit()

    pool()
    with Live("memory://recommend-still", SETTINGS) as live:
        live.refresh()
        for k in range(60):
            event = interaction(f"more{k}", "bob", "rock")
            moving.flow.step(Record(moving.flow.offset, json.dumps(event).encode()))
        moving.commit()
        pool()
        live.refresh()
        scores = {one.item: one.score for one in live.recommend("for-you", RecommendRequest("ann")).items}
        mine = dict(zip(items, learners[0].scores("ann", items).tolist(), strict=True))
        assert len({round(scores[item] - mine[item], 9) for item in items}) == 1  # one vector in all items


def test_with_nothing_learnt_it_says_so():
    with Live("memory://recommend-none", SETTINGS) as live:
        answer = live.recommend("for-you", RecommendRequest("ann"))
    assert (answer.items, answer.degraded) == ([], True)


def test_a_request_that_cannot_be_read_is_refused_with_what_to_send():
    class Asked(Service):
        def __init__(self) -> None:  # the request is refused before anything is asked
            pass

    for body in (b"{", b"{}", b'{"user": "a", "count": 0}', b'{"user": "a", "limit": 3}'):
        refusal = Asked().recommend("for-you", body)
        assert isinstance(refusal, MalformedEvent)
        assert '"user"' in str(refusal)
    assert "/recommend/{name}" in description()["paths"]
