"""A learner that explores is shown as it samples: by the request's id, and not where the settings say so."""

import json
from collections import Counter

import msgspec
import numpy as np
import pytest

from streamrank.config import JudgeSettings, ModelSettings, ServeSettings, Settings
from streamrank.events.types import Field, Item, Ranking, Record
from streamrank.kernels.sampling import plackett_luce
from streamrank.pipeline.checkpoint import Checkpoint
from streamrank.pipeline.flow import Flow
from streamrank.serve.interleave import NO_ID, draw_of
from streamrank.serve.live import Live
from streamrank.state import open_store

SETTINGS = Settings(
    models=[ModelSettings(name="explorer", learner="pdgd"), ModelSettings(name="plain", learner="ranknet")],
    judge=JudgeSettings(theta=[1.0, 0.5, 0.25]),
)
ITEMS = [Item(f"i{k}", [Field("x", k / 3)]) for k in range(3)]


@pytest.fixture
def store():
    with open_store("memory://explore") as opened:
        checkpoint = Checkpoint(opened, Flow(SETTINGS))
        pair = {"event": "preference", "better": {"x": 1.0}, "worse": {"x": 0.0}}
        checkpoint.flow.step(Record(0, json.dumps(pair).encode()))
        checkpoint.flow.learn()
        for model in checkpoint.flow.models:
            model.learner.take_weights(np.array([2.0]))
        checkpoint.commit()
        yield opened


def test_the_order_is_drawn_from_the_scores_by_the_id(store):
    with Live("memory://explore", SETTINGS) as live:

        def answer(model, request):
            return live.rank(model, Ranking(id=request, timestamp=0, items=ITEMS))

        first = answer("explorer", "r1")
        assert first.items == answer("explorer", "r1").items  # who asks again is shown the same
        scores = {one.item: one.score for one in first.items}
        values = np.array([scores[item.id] for item in ITEMS])
        counts = Counter()
        for k in range(3000):
            shown = [one.item for one in answer("explorer", f"r{k}").items]
            assert shown == [ITEMS[i].id for i in plackett_luce(values, draw_of(f"r{k}"))]
            counts[shown[0]] += 1
        # the chance of the first place, by the definition
        odds = np.exp(values) / np.exp(values).sum()
        for item, chance in zip(ITEMS, odds, strict=True):
            error = np.sqrt(chance * (1 - chance) / 3000)
            assert abs(counts[item.id] / 3000 - chance) < 4 * error
        assert len({tuple(one.item for one in answer("explorer", NO_ID).items) for _ in range(50)}) > 1
        assert [one.item for one in answer("plain", "r1").items] == ["i2", "i1", "i0"]
        # what to send back: the place's propensity, whoever stands there
        assert [one.propensity for one in first.items] == [1.0, 0.5, 0.25]


def test_exploration_can_be_turned_off(store):
    best = msgspec.structs.replace(SETTINGS, serve=ServeSettings(explore=False))
    with Live("memory://explore", best) as live:
        for k in range(30):
            answer = live.rank("explorer", Ranking(id=f"r{k}", timestamp=0, items=ITEMS))
            assert [one.item for one in answer.items] == ["i2", "i1", "i0"]


def test_an_explorer_may_share_its_lists(store):
    shared = msgspec.structs.replace(SETTINGS, serve=ServeSettings(challenger="plain"))
    with Live("memory://explore", shared) as live:
        answers = [live.rank("explorer", Ranking(id=f"r{k}", timestamp=0, items=ITEMS)) for k in range(50)]
    assert all({one.team for one in answer.items} == {"explorer", "plain"} for answer in answers)
    # the plain one always picks its best that is left
    for answer in answers:
        left = ["i2", "i1", "i0"]
        for one in answer.items:
            assert one.team == "explorer" or one.item == left[0]
            left.remove(one.item)


def test_what_was_shown_comes_back_and_is_learnt(store):
    """The ranking event made of the answer: PDGD learns from it, and its clicks count by the propensities."""
    with Live("memory://explore", SETTINGS) as live:
        answer = live.rank("explorer", Ranking(id="r9", timestamp=0, items=ITEMS))
    fields = {item.id: msgspec.to_builtins(item.fields) for item in ITEMS}
    shown = {
        "event": "ranking", "id": "r9", "timestamp": 1_700_000_000_000, "model": answer.model,
        "items": [{"id": o.item, "propensity": o.propensity, "fields": fields[o.item]} for o in answer.items],
    }  # fmt: skip
    click = {"event": "interaction", "id": "c9", "timestamp": 1_700_000_000_001, "ranking": "r9",
             "type": "click", "item": answer.items[-1].item}  # fmt: skip
    checkpoint = Checkpoint(store, Flow(SETTINGS))
    before = [model.learner.served_weights().copy() for model in checkpoint.flow.models]
    for offset, event in enumerate((shown, click), 1):
        checkpoint.flow.step(Record(offset, json.dumps(event).encode()))
    checkpoint.flow.learn()
    for model, was in zip(checkpoint.flow.models, before, strict=True):
        assert (model.learner.served_weights() != was).any()
