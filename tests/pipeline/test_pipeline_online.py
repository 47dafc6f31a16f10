"""A learner that serves simulated users learns their taste from clicks, judged as in the live flow."""

import json

import numpy as np
import pytest

from streamrank.cli import main
from streamrank.cli import online as cli_online
from streamrank.errors import ConfigError
from streamrank.metrics.functions import ndcg
from streamrank.pipeline import online as module
from streamrank.pipeline.online import Users, online
from streamrank.simulation.clicks import CLICK_MODELS
from streamrank.sources.dataset import Dataset
from streamrank.sources.letor import read_letor

N = 6


def taste(lists, seed, size=14):
    """Lists that one linear taste orders, with some noise; labels 0, 1, 2."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(lists * size, N))
    y = np.digitize(X @ np.linspace(-1.0, 1.0, N) + 0.5 * rng.normal(size=len(X)), [1.0, 2.0])
    return Dataset(
        indptr=np.arange(len(X) + 1, dtype=np.int64) * N,
        indices=np.tile(np.arange(N, dtype=np.int32), len(X)),
        data=X.ravel().copy(),
        y=y.astype(np.float64),
        lists=np.arange(0, len(X) + 1, size, dtype=np.int64),
        qids=[str(q) for q in range(lists)],
        docs=[str(r) for r in range(len(X))],
        names=[f"f{j}" for j in range(N)],
    )


@pytest.fixture(scope="module")
def sets():
    return taste(40, 1), taste(40, 2)


@pytest.mark.parametrize("click_model", ["perfect", "navigational", "informational", "pbm"])
@pytest.mark.parametrize("learner", ["egdm", "pdgd", "ranknet"])
def test_the_taste_is_learnt_from_clicks_alone(sets, learner, click_model):
    train, test = sets
    result = online(Users(train, click_model, 1500, seed=3), test, learner=learner, params={})
    assert result["test"]["pairwise_error"] < 0.2
    assert result["online"]["ndcg@10"] > 0.6
    assert result["rounds"] == 1500


def test_a_run_is_a_function_of_its_seed(sets):
    train, test = sets

    def run(seed):
        found = online(Users(train, "pbm", 400, seed=seed), test, learner="ranknet", params={})
        return found["test"], found["online"]

    assert run(3) == run(3)
    assert run(3) != run(4)


def test_looking_and_telling_change_nothing(sets):
    train, test = sets
    users, seen, told = Users(train, "navigational", 1200, seed=1), [], []
    plain = online(users, test, learner="egdm", params={})
    looked = online(
        users,
        test,
        learner="egdm",
        params={},
        looks=[1200, 1, 77],
        look=lambda _, rounds: seen.append(rounds),
        tell=told.append,
    )
    assert seen == [1, 77, 1200]
    assert told == [1, 77, 500, 1000, 1200]
    assert plain["test"] == looked["test"]
    assert plain["online"] == looked["online"]


def test_what_is_counted_online_is_the_ndcg_of_what_was_shown(sets, monkeypatch):
    train, test = sets
    shown = []
    clicked = module._clicked

    def spy(users, judge, query, top, shuffled):
        shown.append((query, top, shuffled))
        return clicked(users, judge, query, top, shuffled)

    monkeypatch.setattr(module, "_clicked", spy)
    result = online(Users(train, "pbm", 300, seed=5), test, learner="egdm", params={}, shuffled=0.2)
    values = []
    for query, top, _ in shown:
        y, scores = train.y[int(query.batch.queries[0]) * 14 :][:14], np.full(14, -1.0)
        scores[top] = np.arange(len(top), 0, -1)
        values.append(ndcg(y, scores, 10))
    values = np.array(values)
    assert result["online"]["ndcg@10"] == pytest.approx(np.nanmean(values))
    discounted = np.nansum(values * 0.9995 ** np.arange(300))
    assert result["online"]["cumulative_ndcg@10"] == pytest.approx(discounted)
    shuffled = [how for _, _, how in shown]
    assert all(shuffled[:30])  # a tenth measures the position bias
    assert 0.1 < np.mean(shuffled[40:]) < 0.3


def test_the_users_are_the_same_for_every_learner(sets):
    train, _ = sets
    users = Users(train, "pbm", 50, seed=2)
    asked = [[(r.query.batch.queries, r.chance, r.shuffled.tolist()) for r in users] for _ in range(2)]
    assert asked[0] == asked[1]


def test_the_command_compares_learners_in_one_table_and_one_figure(tmp_path, capsys, monkeypatch):
    rng, paths = np.random.default_rng(3), []
    for name in ("train", "test"):
        lines = [
            f"{int(x[0] > 0.5)} qid:{q} 1:{x[0]:.4f} 2:{x[1]:.4f}"
            for q in range(20)
            for x in rng.random((6, 2))
        ]
        paths.append(tmp_path / name)
        paths[-1].write_text("\n".join(lines) + "\n")
    page = tmp_path / "o.html"
    line = f"evaluate --online --train {paths[0]} --test {paths[1]} --rounds 300 --seed 3"
    assert main([*line.split(), "--learner", "ranknet,egdm", "--plot", str(page), "--json"]) == 0
    result = json.loads(capsys.readouterr().out.splitlines()[-1])
    assert set(result["learners"]) == {"ranknet", "egdm"}
    for name, one in result["learners"].items():
        assert one["test"]["ndcg@10"] == pytest.approx(result["figures"]["ndcg@10"][name][-1])
    assert result["figures"]["rounds"][-1] == 300
    text = page.read_text()
    assert '"name":"ranknet"' in text
    assert '"name":"egdm"' in text
    assert main([*line.split(), "--learner", "egdm", "--click-model", "navigational", "--json"]) == 0
    single = json.loads(capsys.readouterr().out.splitlines()[-1])
    assert {"test", "online", "rounds", "seconds"} <= set(single)
    assert main([*line.split(), "--learner", "egdm,ranknet"]) == 0
    assert "shown ndcg@10" in capsys.readouterr().out
    for wrong, why in {
        "--learner egdm --passes 2": "--rounds",
        "--learner egdm,,egdm": "once",
        "--learner egdm,ranknet --set rate=1": "--set",
        "--learner lambdamart": "lambdamart",
        f"--learner egdm --off-policy {paths[0]}": "--off-policy",
        f"--learner egdm --interactions {paths[0]}": "--interactions",
    }.items():
        assert main([*line.split(), *wrong.split()]) == 2
        assert why in capsys.readouterr().err
    for lost in ("--rounds 300", "--click-model pbm", "--shuffled 0"):
        offline = f"evaluate --train {paths[0]} --test {paths[1]} --learner egdm {lost}"
        assert main(offline.split()) == 2
        assert "add that, or leave it out" in capsys.readouterr().err
    with monkeypatch.context() as patched:  # the last of several is looked at before the first begins
        patched.setattr(cli_online, "online", lambda *_, **__: pytest.fail("it began"))
        assert main([*line.split(), "--learner", "egdm,lambdamart"]) == 2
    with pytest.raises(ConfigError, match="click model"):
        Users(read_letor([paths[0]]), "psychic", 10)
    paths[0].write_text("1 qid:1 1:2\n1 qid:1 1:3\n")
    assert main([*line.split(), "--learner", "egdm"]) == 2
    assert "nothing to rank" in capsys.readouterr().err
    assert set(CLICK_MODELS) >= {"perfect", "navigational", "informational", "pbm"}


@pytest.mark.slow
def test_on_mq2007_clicks_teach_nearly_what_labels_would(public_data):
    folder = public_data / "letor4-mq2007-partial"
    train = read_letor([folder / "S1.svmlight.gz", folder / "S2.svmlight.gz"])
    test = read_letor([folder / "S4.svmlight.gz"])
    result = online(Users(train, "pbm", 10_000, seed=3), test, learner="egdm", params={})
    assert result["test"]["ndcg@10"] > 0.49
