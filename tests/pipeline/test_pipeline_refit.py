"""A recommender refitted from its clicks: judged on later ones, put in by one commit, and taken back."""

import json

import msgspec
import numpy as np
import pytest

from streamrank.cli import main
from streamrank.config import ArchiveSettings, RecommenderSettings, ReconcileSettings, Settings
from streamrank.errors import ConfigError, SourceError
from streamrank.events.types import Record
from streamrank.learners.latent import RoBiRankMF
from streamrank.pipeline.checkpoint import Checkpoint
from streamrank.pipeline.datasets import ArchiveData, LogData
from streamrank.pipeline.flow import Flow
from streamrank.pipeline.guard import Guard
from streamrank.pipeline.reconcile import reconcile
from streamrank.pipeline.refit import standing_refit, take_back
from streamrank.pipeline.upkeep import reconcile_all
from streamrank.sources import open_source
from streamrank.state import open_store
from streamrank.state.digest import digest

pytest.importorskip("pyarrow")
PARAMS = {"d": 8, "negatives": 8, "rate": 0.3, "recent": 0}  # too slow to get there in one pass
N = 2400


def pairs():
    """Users of six tastes, each over ten items."""
    rng = np.random.default_rng(3)
    users = rng.integers(0, 120, N)
    return [(f"u{u}", f"i{10 * (u % 6) + k}") for u, k in zip(users, rng.integers(0, 10, N), strict=True)]


PAIRS = pairs()
LOG = [
    json.dumps(
        {
            "event": "interaction",
            "id": f"c{k}",
            "timestamp": 10**12 + k,
            "type": "click",
            "user": u,
            "item": i,
        }
    ).encode()
    for k, (u, i) in enumerate(PAIRS)
]


@pytest.fixture
def settings(tmp_path):
    return Settings(
        recommenders=[RecommenderSettings(name="latent", params=PARAMS)],
        archive=ArchiveSettings(folder=str(tmp_path / "archive")),
        reconcile=ReconcileSettings(rollback=0.05),
    )


@pytest.fixture
def store():
    with open_store("memory://") as store:
        yield store


def learn(store, settings, end):
    checkpoint = Checkpoint(store, Flow(settings))
    for offset in range(checkpoint.flow.offset, end):
        checkpoint.flow.step(Record(offset, LOG[offset]))
    checkpoint.commit()
    return checkpoint.flow


def state_of(learner):
    return {key: np.asarray(value).tolist() for key, value in learner.to_state().items()}


def served(store, settings):
    return state_of(Checkpoint(store, Flow(settings)).flow.recommenders[0].learner)


def test_a_slow_learner_is_refitted_and_finds_later_clicks_better(store, settings, tmp_path):
    learn(store, settings, 2000)
    before = served(store, settings)
    path = tmp_path / "log.jsonl"
    path.write_bytes(b"\n".join(LOG) + b"\n")
    log = LogData(open_source([path]), settings)
    tried = [
        reconcile(store, data, settings, model="latent", swap=False) for data in (ArchiveData(settings), log)
    ]
    for report in tried:
        report.pop("seconds")
    assert tried[0] == tried[1]
    assert served(store, settings) == before
    curve = []
    report = reconcile(
        store,
        ArchiveData(settings),
        settings,
        model="latent",
        watch=lambda k, error: curve.append((k, error)),
    )
    assert (report["swapped"], report["chosen"], report["retraced"]) == (True, "replace", True)
    assert report["drift"]["ndcg@10_optimal"] > report["drift"]["ndcg@10_online"] + 0.1
    assert report["clicks"] == {"fit": 1400, "validation": 300, "later": 300}
    assert report["passes"] > 0
    assert curve == [(k, 1.0 - value) for k, value in enumerate(report["validation"]["ndcg@10"])]
    # the figures of the online learner by hand: one pass in order, ranked without what a user had
    live = RoBiRankMF(**PARAMS)
    live.learn_batch(*zip(*PAIRS[:1700], strict=True))
    gains = []
    for k in range(1700, 2000):
        user, item = PAIRS[k]
        had = {i for u, i in PAIRS[:k] if u == user}
        others = {f"i{j}" for j in range(60)} - (set() if item in had else had)
        place = live.rank(user, others | {item}).index(item)
        gains.append(1 / np.log2(place + 2) if place < 10 else 0.0)
        live.learn_one(user, item)
    assert report["drift"]["ndcg@10_online"] == pytest.approx(np.mean(gains), abs=1e-12)
    again = reconcile(store, ArchiveData(settings), settings, model="latent")
    assert (again["already"], again["swapped"]) == (True, False)
    assert take_back(store, "0", "latent").id == report["model"] + "@2000"
    assert served(store, settings) == before
    assert take_back(store, "0", "latent") is None


def test_clicks_that_come_meanwhile_are_learnt_once_and_it_is_led_on_from_there(store, settings):
    learn(store, settings, 2000)

    def meanwhile(step):
        if step == 4:
            learn(store, settings, 2050)

    with open_store("memory://") as quiet:
        learn(quiet, settings, 2000)
        reconcile(quiet, ArchiveData(settings), settings, model="latent")
        expected = Checkpoint(quiet, Flow(settings)).flow.recommenders[0].learner
    reconcile(store, ArchiveData(settings), settings, model="latent", at=meanwhile)
    expected.learn_batch(*zip(*PAIRS[2000:2050], strict=True))
    assert served(store, settings) == state_of(expected)
    learn(store, settings, N)
    report = reconcile(store, ArchiveData(settings), settings, model="latent", swap=False)
    assert report["retraced"]
    assert report["clicks"]["later"] == N - 2050


def test_a_refit_keeps_what_is_known_of_items_and_hears_what_is_told_meanwhile(store, settings):
    one = RecommenderSettings(name="latent", params={**PARAMS, "fields": ["taste"]})
    settings = msgspec.structs.replace(settings, recommenders=[one])

    def told(item, taste):
        fields = [{"name": "taste", "value": taste}]
        event = {"event": "item", "id": f"m{item}{taste}", "timestamp": 10**12, "item": item}
        return json.dumps({**event, "fields": fields}).encode()

    log = [told(f"i{k}", f"t{k % 7}") for k in range(60)] + LOG[:2000]

    def fed(records):
        checkpoint = Checkpoint(store, Flow(settings))
        for offset, record in enumerate(records, checkpoint.flow.offset):
            checkpoint.flow.step(Record(offset, record))
        checkpoint.commit()

    fed(log)
    told_late = [told("i3", "t9"), told("new", "t2")]
    report = reconcile(
        store,
        ArchiveData(settings),
        settings,
        model="latent",
        at=lambda step: fed(told_late) if step == 4 else None,
    )
    assert report["swapped"]
    learner = Checkpoint(store, Flow(settings)).flow.recommenders[0].learner
    for item, taste in [("i0", "t0"), ("i59", "t3"), ("i3", "t9"), ("new", "t2")]:
        assert not learner.is_news("items", item, {"taste": taste})
    assert np.abs(learner.to_state()["traits"]).sum() > 1


def test_of_two_at_once_one_is_put_in(store, settings):
    learn(store, settings, 1000)
    before, others = served(store, settings), []

    def meanwhile(step):
        if step == 4:
            others.append(reconcile(store, ArchiveData(settings), settings, model="latent"))

    report = reconcile(store, ArchiveData(settings), settings, model="latent", at=meanwhile)
    assert (others[0]["swapped"], report["swapped"]) == (True, False)
    assert take_back(store, "0", "latent") is not None
    assert served(store, settings) == before


@pytest.mark.parametrize("step", range(1, 9))
def test_killed_at_any_step_the_old_or_the_new_factors_stand_and_a_rerun_completes(store, settings, step):
    class Killed(BaseException):
        pass

    def kill(now):
        if now == step:
            raise Killed

    learn(store, settings, 1000)
    before = served(store, settings)
    with pytest.raises(Killed):
        reconcile(store, ArchiveData(settings), settings, model="latent", at=kill)
    assert (served(store, settings) == before) == (step < 8)
    reconcile(store, ArchiveData(settings), settings, model="latent")
    with open_store("memory://") as quiet:
        learn(quiet, settings, 1000)
        reconcile(quiet, ArchiveData(settings), settings, model="latent")
        assert digest(store) == digest(quiet)


def test_too_few_clicks_and_several_shards_are_named(store, settings):
    learn(store, settings, 300)
    with pytest.raises(SourceError, match="there are 300 clicks, 45 to decide by"):
        reconcile(store, ArchiveData(settings), settings, model="latent")
    Checkpoint(store, Flow(settings), shard="1").commit()
    store.commit("1", store.acquire("1"), {"x": b""}, start=0, end=1)
    with pytest.raises(ConfigError, match="store of one shard"):
        reconcile(store, ArchiveData(settings), settings, model="latent")
    with pytest.raises(ConfigError, match="there are: default, latent"):
        reconcile(store, ArchiveData(settings), settings, model="other")


def test_one_that_does_harm_is_taken_back_by_itself(store, settings, caplog):
    guard = Guard(settings, store)
    flow = learn(store, settings, 2000)
    guard.opened("0", flow)
    flow.recommenders[0].watch(np.tile([0.6, 0.8], 200))
    before = served(store, settings)
    reconcile_all(settings, store)
    assert standing_refit(store.read("0")[0], "latent") is not None
    guard.opened("0", flow)
    flow.recommenders[0].watch(np.tile([0.4, 0.6], 200))
    assert [one.id for one in guard.act()] == ["latent@2000"]
    assert "was taken back" in caplog.text
    assert served(store, settings) == before


def test_the_commands_refit_and_go_back(tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "log.jsonl").write_bytes(b"\n".join(LOG) + b"\n")
    (tmp_path / "c.toml").write_text(
        '[[recommenders]]\nname = "latent"\nparams = { d = 8, negatives = 8, rate = 0.3, recent = 0 }\n'
    )
    options = ["--store", "sqlite:///s.db", "--config", "c.toml"]
    assert main(["replay", "log.jsonl", *options, "--json"]) == 0
    capsys.readouterr()
    told = ["reconcile", "--data", "log.jsonl", *options, "--model", "latent", "--report", "page.html"]
    assert main([*told, "--json"]) == 0
    report = json.loads(capsys.readouterr().out)
    assert report["swapped"]
    assert report["drift"].keys() == {"ndcg@10_online", "ndcg@10_optimal", "hr@10_online", "hr@10_optimal"}
    assert "HR@10" in (tmp_path / "page.html").read_text()
    assert main(told) == 0
    assert "passes in strata" in capsys.readouterr().out
    assert main(["rollback", *options, "--model", "latent"]) == 0
    assert f"latent@{N} was taken back" in capsys.readouterr().out
    assert main(["rollback", *options, "--model", "latent"]) == 1
    assert main(["rollback", *options, "--model", "lent"]) == 2
    assert "there is no model 'lent'; there are: default, latent" in capsys.readouterr().err
