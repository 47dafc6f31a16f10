"""Interactions of the stream teach the recommenders beside the feature rankers."""

import json

import msgspec
import numpy as np
import pytest

from streamrank.cli import main
from streamrank.config import RecommenderSettings, Settings, load_settings
from streamrank.errors import ConfigError
from streamrank.events.types import Record
from streamrank.learners.latent import RoBiRankMF
from streamrank.pipeline.checkpoint import Checkpoint
from streamrank.pipeline.flow import Flow
from streamrank.pipeline.memory import changes
from streamrank.state import open_store

PARAMS = {"d": 4, "negatives": 4}
SETTINGS = msgspec.structs.replace(
    Settings(), recommenders=[RecommenderSettings(name="latent", params=PARAMS)], commit_ms=10**9
)


def interaction(k, item, **who):
    event = {"event": "interaction", "id": f"c{k}", "timestamp": 10**12 + 1000 * k, "item": item}
    return {"type": "click", **event, **who}


def ranking(k, items, **who):
    shown = [{"id": item} for item in items]
    return {"event": "ranking", "id": f"r{k}", "timestamp": 10**12 + 1000 * k, "items": shown, **who}


def fed(events, settings=SETTINGS):
    flow = Flow(settings)
    for offset, event in enumerate(events):
        flow.step(Record(offset, json.dumps(event).encode()))
    flow.learn()
    return flow


def learnt(pairs):
    learner = RoBiRankMF(**PARAMS)
    for user, item, grade in pairs:
        learner.learn_one(user, item, grade)
    return learner


def state_of(learner):
    return {key: np.asarray(value).tolist() for key, value in learner.to_state().items()}


def test_every_interaction_teaches_its_user_by_its_grade():
    events = [
        interaction(0, "a", user="u1"),
        interaction(1, "b", user="u1", type="purchase"),
        interaction(2, "a", user="u2", type="rating"),
        interaction(3, "b", session="s1"),
    ]
    flow = fed(events)
    pairs = [("u1", "a", 1.0), ("u1", "b", 3.0), ("u2", "a", 1.0), ("session s1", "b", 1.0)]
    assert state_of(flow.recommenders[0].learner) == state_of(learnt(pairs))
    assert flow.counts["clicks"] == 4


def test_a_click_that_names_a_ranking_is_that_rankings_users():
    events = [
        ranking(0, ["a", "b"], user="u1", session="s1"),
        interaction(1, "a", ranking="r0"),
        interaction(2, "b", session="s1"),
        interaction(3, "c", ranking="r9"),  # nobody's so far
    ]
    flow = fed(events)
    assert state_of(flow.recommenders[0].learner) == state_of(learnt([("u1", "a", 1.0), ("u1", "b", 1.0)]))
    assert flow.counts["judged"] == 1  # and the feature rankers have their list


def test_duplicates_and_late_clicks_are_not_learnt():
    events = [interaction(0, "a", user="u"), interaction(0, "a", user="u"), interaction(1000, "b", user="u")]
    flow = fed([*events, interaction(1, "c", user="u")])
    assert state_of(flow.recommenders[0].learner) == state_of(learnt([("u", "a", 1.0), ("u", "b", 1.0)]))


def test_without_recommenders_nothing_of_it_is_kept():
    flow = fed([interaction(0, "a", user="u")], Settings())
    assert flow.counts["clicks"] == 0
    assert not any(key.startswith("model/latent") for key in changes(flow))


def test_a_commit_writes_only_the_blocks_that_changed():
    # two blocks of users; the clicks of a commit fall into one
    events = [interaction(k, f"i{k % 5}", user=f"u{k}") for k in range(5000)]
    store = open_store("memory://")
    checkpoint = Checkpoint(store, Flow(SETTINGS))
    for offset, event in enumerate(events):
        checkpoint.flow.step(Record(offset, json.dumps(event).encode()))
    checkpoint.commit()
    flow = checkpoint.flow
    flow.step(Record(5000, json.dumps(interaction(5000, "i1", user="u4500")).encode()))
    flow.learn()
    written = [key for key in changes(flow) if key.startswith("model/latent/users")]
    assert "model/latent/users#1" in written
    # the first is written in any case: it may have been the whole until now
    assert set(written) <= {"model/latent/users#0", "model/latent/users#1", "model/latent/users"}
    assert not any(key.startswith("model/latent/user_ids") for key in changes(flow))


def test_each_click_is_ranked_before_it_is_learnt():
    rng = np.random.default_rng(0)
    users = rng.integers(0, 20, 1500)
    items = 2 * rng.integers(0, 20, 1500) + users % 2
    flow = fed([interaction(k, f"i{items[k]}", user=f"u{users[k]}") for k in range(1500)])
    history = flow.recommenders[0].history
    assert history.n_lists == 1500
    assert history.recent(8)["hr@10"] > 0.45  # ten of forty at random: .25
    assert history.series()[1][0, 0] < history.recent(8)["hr@10"]


FIELDS = ["genre", "club"]
WITH_FIELDS = msgspec.structs.replace(
    SETTINGS, recommenders=[RecommenderSettings(name="latent", params={**PARAMS, "fields": FIELDS})]
)


def metadata(k, kind, key, **fields):
    told = [{"name": name, "value": value} for name, value in fields.items()]
    return {"event": kind, "id": f"m{k}", "timestamp": 10**12 + 1000 * k, kind: key, "fields": told}


def described_stream():
    """Clicks of two tastes; what is known of items and users comes before, between and after them."""
    rng = np.random.default_rng(0)
    events = []
    for k in range(600):
        user = int(rng.integers(0, 20))
        item = 2 * int(rng.integers(0, 20)) + user % 2
        if k % 3 == 0:
            events.append(metadata(k, "item", f"i{item}", genre=["even", "odd"][item % 2], price=float(k)))
        if k % 7 == 0:
            events.append(metadata(1000 + k, "user", f"u{user}", club=f"c{user % 2}"))
        events.append(interaction(k, f"i{item}", user=f"u{user}"))
    return [*events, metadata(9998, "item", "new", genre="odd"), metadata(9999, "user", "nobody", club="c1")]


def test_fields_of_items_and_users_reach_the_recommenders_in_their_place():
    flow, learner = fed(described_stream(), WITH_FIELDS), RoBiRankMF(**PARAMS, fields=FIELDS)
    for event in described_stream():
        if event["event"] == "interaction":
            learner.learn_one(event["user"], event["item"])
        else:
            fields = {field["name"]: field["value"] for field in event["fields"]}
            learner.describe(event["event"] + "s", event[event["event"]], fields)
    assert state_of(flow.recommenders[0].learner) == state_of(learner)
    assert flow.recommenders[0].learner.rank("nobody", ["i2", "new"])[0] == "new"


@pytest.mark.parametrize("every", [1, 7, 250])
def test_described_streams_stop_and_go_on_to_the_same_bits(every):
    events, store = described_stream(), open_store("memory://")
    for start in range(0, len(events), every):
        checkpoint = Checkpoint(store, Flow(WITH_FIELDS))
        for offset in range(start, min(start + every, len(events))):
            checkpoint.flow.step(Record(offset, json.dumps(events[offset]).encode()))
        checkpoint.commit()
    found = Checkpoint(store, Flow(WITH_FIELDS)).flow.recommenders[0].learner
    assert state_of(found) == state_of(fed(events, WITH_FIELDS).recommenders[0].learner)


@pytest.mark.parametrize("every", [1, 3, 100])
def test_what_clicks_before_a_description_evict_is_gone_when_it_is_told(every):
    params = {**PARAMS, "fields": ["genre"], "max_items": 8}
    settings = msgspec.structs.replace(
        SETTINGS, recommenders=[RecommenderSettings(name="latent", params=params)]
    )
    events = [metadata(0, "item", "x", genre="a"), interaction(1, "x", user="u")]
    events += [interaction(2 + k, f"i{k}", user="u") for k in range(8)]
    events.append(metadata(20, "item", "x", genre="a"))
    flow = Flow(settings)
    for offset, event in enumerate(events):
        flow.step(Record(offset, json.dumps(event).encode()))
        if offset % every == 0:
            flow.learn()
    learner = flow.recommenders[0].learner
    assert learner._tables.items.find("x") < 0
    assert learner._tables.traits_of("items", "x") == ["items\tgenre\ta"]


def test_ratings_alone_are_learnt_by_a_replay(tmp_path, capsys):
    rng = np.random.default_rng(0)
    rows = [f"{u}\t{2 * rng.integers(0, 15) + u % 2}\t5\t{880_000_000 + k}"
            for k, u in enumerate(rng.integers(0, 30, 400).tolist())]  # fmt: skip
    (tmp_path / "u.data").write_text("\n".join(rows))
    config = tmp_path / "s.toml"
    config.write_text('[[recommenders]]\nname = "latent"\nparams = { d = 4 }\n')
    command = ["replay", str(tmp_path / "u.data"), "--config", str(config), "--json"]
    url = f"sqlite:///{tmp_path / 's.db'}"
    assert main([*command, "--store", url, "--report", str(tmp_path / "out.html")]) == 0
    answer = capsys.readouterr()
    assert "ndcg@10 of clicks" in (tmp_path / "out.html").read_text("utf-8")
    result = json.loads(answer.out.splitlines()[-1])
    assert result["clicks"] == 400
    assert 0 < result["recommenders"]["latent"]["ndcg@10"] < 1
    assert "nothing was learnt" not in answer.err
    assert main(["state", "show", "--store", url, "--json"]) == 0
    shown = json.loads(capsys.readouterr().out)["shards"]["0"]["recommenders"]["latent"]
    assert shown == {"learner": "robirank-mf", **result["recommenders"]["latent"]}
    assert main(["state", "show", "--store", url]) == 0
    assert "recommenders, each click" in capsys.readouterr().out
    assert main(["replay", str(tmp_path / "u.data"), "--store", "memory://"]) == 0
    assert "recommenders" in capsys.readouterr().err


def test_a_store_that_was_learnt_with_another_recommender_is_refused():
    store = open_store("memory://")
    checkpoint = Checkpoint(store, Flow(SETTINGS))
    checkpoint.flow.step(Record(0, json.dumps(interaction(0, "a", user="u")).encode()))
    checkpoint.commit()
    with pytest.raises(ConfigError, match="recommenders"):
        Checkpoint(store, Flow(Settings()))


@pytest.mark.parametrize("params", [{"d": 16}, {"d": 2}, {"recent": 0}, {"recent": 20}], ids=str)
def test_settings_that_what_was_learnt_does_not_fit_are_not_adopted(params):
    store = open_store("memory://")
    checkpoint = Checkpoint(store, Flow(SETTINGS))
    for k in range(20):
        checkpoint.flow.step(Record(k, json.dumps(interaction(k, f"i{k}", user=f"u{k}")).encode()))
    checkpoint.commit()
    before = store.load("0")
    other = [RecommenderSettings(name="latent", params={**PARAMS, **params})]
    with pytest.raises(ConfigError, match="another shape"):
        Checkpoint(store, Flow(msgspec.structs.replace(SETTINGS, recommenders=other)), adopt_config=True)
    assert store.load("0") == before


@pytest.mark.parametrize(
    ("settings", "says"),
    [
        ({"recommenders": [RecommenderSettings(name="x", params={"dd": 1})]}, "no parameter 'dd'"),
        ({"recommenders": [RecommenderSettings(name="x", params={"d": 0})]}, "d is 0: a whole number"),
    ],
)
def test_wrong_parameters_are_said_at_once(settings, says):
    with pytest.raises(ConfigError, match=says):
        Flow(msgspec.structs.replace(Settings(), **settings))


def test_a_model_and_a_recommender_cannot_share_a_name(tmp_path):
    (tmp_path / "s.toml").write_text('[[models]]\nname = "a"\n[[recommenders]]\nname = "a"\n')
    with pytest.raises(ConfigError, match="each its own"):
        load_settings(tmp_path / "s.toml", {})
