import json

import numpy as np
import pytest

from streamrank.cli import main
from streamrank.errors import ConfigError, SourceError
from streamrank.learners.registry import LEARNERS
from streamrank.metrics.functions import ndcg
from streamrank.pipeline.evaluate import as_batch, evaluate, measures, read_lists

N = 6


@pytest.fixture
def files(tmp_path):
    """Three sets of lists that one linear taste orders, with some noise."""
    rng = np.random.default_rng(3)
    taste = rng.normal(size=N)
    names = []
    for name in ("train", "valid", "test"):
        lines = []
        for q in range(60):
            X = rng.normal(size=(8, N))
            utility = X @ taste + rng.normal(size=8)
            y = np.digitize(utility, [0.5, 2.0])
            for x, label in zip(X, y, strict=True):
                lines.append(f"{label} qid:{q} " + " ".join(f"{j + 1}:{v:.6f}" for j, v in enumerate(x)))
        path = tmp_path / f"{name}.svmlight"
        path.write_text("\n".join(lines) + "\n")
        names.append(str(path))
    return names


@pytest.mark.parametrize(("learner", "params"), [("egdm", {}), ("ranknet", {"rate": 0.1}), ("rankrls", {})])
def test_every_learner_learns_the_taste(files, learner, params):
    train, valid, test = (read_lists([path]) for path in files)
    result = evaluate(train, test, valid=valid, learner=learner, params=params)
    assert result["test"]["pairwise_error"] < 0.25
    assert set(result["test"]) >= {"ndcg@1", "ndcg@3", "ndcg@5", "ndcg@10", "map", "rms", "accuracy"}


def test_the_stream_comes_close_to_the_full_batch_in_one_pass(files):
    train, valid, test = (read_lists([path]) for path in files)
    batch = evaluate(train, test, valid=valid, learner="rankrls", params={"method": "hybrid"})
    stream = evaluate(train, test, learner="egdm", params={"scale": False})
    assert stream["test"]["pairwise_error"] < batch["test"]["pairwise_error"] * 1.05


def test_the_measures_are_means_over_lists_that_have_a_value(files):
    data = read_lists([files[0]])
    scores = np.random.default_rng(0).normal(size=len(data.y))
    values = [ndcg(data.y[a:b], scores[a:b], 3) for a, b in zip(data.lists[:-1], data.lists[1:], strict=True)]
    got = measures(data, scores)
    assert got["ndcg@3"] == pytest.approx(np.nanmean(values))
    assert got["rms"] == pytest.approx(np.sqrt(np.mean((scores - data.y) ** 2)))
    assert got["accuracy"] == pytest.approx(np.mean(np.clip(np.round(scores), 0, 2) == data.y))


def test_a_batch_in_another_order_holds_the_same_lists(files):
    data = read_lists([files[0]])
    order = np.random.default_rng(1).permutation(data.n_lists)
    batch = as_batch(data, order)
    for k, q in enumerate(order[:10]):
        rows, here = slice(data.lists[q], data.lists[q + 1]), slice(batch.lists[k], batch.lists[k + 1])
        np.testing.assert_array_equal(batch.y[here], data.y[rows])
        stored = slice(data.indptr[rows.start], data.indptr[rows.stop])
        kept = slice(batch.indptr[here.start], batch.indptr[here.stop])
        np.testing.assert_array_equal(batch.values[kept], data.data[stored])
        np.testing.assert_array_equal(batch.indices[kept], data.indices[stored])
    assert batch.queries == tuple(data.qids[q] for q in order)


def test_the_command_prints_one_json_object(files, capsys):
    train, valid, test = files
    line = (
        f"evaluate --train {train} --valid {valid} --test {test} --learner rankrls --set method=hybrid --json"
    )
    assert main(line.split()) == 0
    result = json.loads(capsys.readouterr().out.splitlines()[-1])
    assert set(result) == {"learner", "seconds", "iterations", "chosen", "test"}
    assert result["chosen"]["lam"] > 0


def test_every_learner_is_named_in_the_help_and_runs_as_one_command(files, capsys):
    train, _, test = files
    with pytest.raises(SystemExit):
        main(["evaluate", "--help"])
    described = capsys.readouterr().out
    for name in LEARNERS:
        assert f" {name}" in described
        line = f"evaluate --train {train} --test {test} --learner {name} --passes 1 --seed 3 --json"
        assert main(line.split()) == 0
        result = json.loads(capsys.readouterr().out.splitlines()[-1])
        assert result["learner"] == name
        assert result["test"]["ndcg@10"] > 0.5


def test_wrong_names_are_refused_with_what_there_is(files, capsys):
    train, _, test = files
    data = read_lists([train])
    with pytest.raises(ConfigError, match=r"choose one of: .*egdm, .*ranknet, rankrls"):
        evaluate(data, data, learner="lambdamart", params={})
    with pytest.raises(ConfigError, match="rate"):
        evaluate(data, data, learner="ranknet", params={"speed": 1})
    with pytest.raises(ConfigError, match="speed"):
        evaluate(data, data, learner="rankrls", params={"speed": 1})
    with pytest.raises(ConfigError, match="rankrls has no parameter 'metod'; it has: lam, method, solver"):
        evaluate(data, data, learner="rankrls", params={"metod": "hybrid"}, valid=data)
    with pytest.raises(ConfigError, match="rbf has no parameter 'centers'; it has: centres"):
        evaluate(data, data, learner="rbf", params={"centers": 10})
    with pytest.raises(ConfigError, match="--valid FILE"):
        evaluate(data, data, learner="rankrls", params={"method": "hybrid"})
    with pytest.raises(SourceError, match="mixed"):
        read_lists([train, "x.parquet"])
    assert main(["evaluate", "--train", train, "--test", test, "--learner", "egdm", "--set", "lam"]) == 2
    assert "name=value" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("rows", "said"),
    [
        ("", "no lists in the files of --train"),
        ("1 qid:1 1:2\n0 qid:1 1:nan\n", "row 2 of --train holds NaN"),
        ("1 qid:1 1:2\n1 qid:1 1:3\n0 qid:2 1:3\n", "constant in every list of --train"),
    ],
)
@pytest.mark.parametrize("learner", ["egdm", "ranknet", "rankrls", "rbf"])
def test_what_teaches_nothing_is_refused_whoever_should_learn(files, tmp_path, capsys, rows, said, learner):
    path = tmp_path / "rows.svmlight"
    path.write_text(rows)
    assert main(["evaluate", "--train", str(path), "--test", files[2], "--learner", learner]) == 2
    assert said in capsys.readouterr().err
    assert main(["evaluate", "--train", files[0], "--test", str(path), "--learner", learner]) == 2
    assert said.replace("--train", "--test") in capsys.readouterr().err


def test_on_mq2008_one_pass_reaches_the_known_quality(public_data):
    folder = public_data / "letor4-mq2008"
    sets = [read_lists([folder / f"S{k}.svmlight.gz"]) for k in (1, 2, 3, 4)]
    train = read_lists([folder / "S1.svmlight.gz", folder / "S2.svmlight.gz"])
    batch = evaluate(train, sets[3], valid=sets[2], learner="rankrls", params={"method": "hybrid"})
    stream = evaluate(train, sets[3], learner="egdm", params={"scale": False})
    assert batch["test"]["ndcg@10"] > 0.69
    assert stream["test"]["ndcg@10"] > 0.69
    assert stream["test"]["pairwise_error"] < batch["test"]["pairwise_error"] * 1.03
