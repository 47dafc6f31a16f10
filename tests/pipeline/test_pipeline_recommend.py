import json

import numpy as np
import pyarrow.csv
import pyarrow.parquet
import pytest

from streamrank.cli import main
from streamrank.errors import ConfigError
from streamrank.pipeline.recommend import evaluate_interactions, measures, popularity_ranks, split
from streamrank.sources.ratings import read_interactions


@pytest.fixture
def ratings(tmp_path):
    rng = np.random.default_rng(0)
    path = tmp_path / "ratings.csv"
    rows = {(u, 2 * int(rng.integers(0, 15)) + u % 2) for u in range(40) for _ in range(12)}
    lines = [f"{u},{i},5,{1_000_000_000 + k}" for k, (u, i) in enumerate(sorted(rows))]
    path.write_text("\n".join(["userId,movieId,rating,timestamp", *lines]))
    return path


def test_measures_of_a_ranking_worked_by_hand():
    U, V = np.ones((1, 1)), np.array([[5.0], [4.0], [3.0], [2.0], [-np.inf]])
    # item 0 was trained on; 1, 2, 3 are ranked so; wanted are 2 and 4, which cannot be found
    got = measures(U, V, (np.array([0]), np.array([0])), (np.array([0, 0]), np.array([2, 4])))
    ndcg = (1 / np.log2(3)) / (1 + 1 / np.log2(3))
    assert got == pytest.approx({"precision@1": 0, "precision@10": 0.1, "recall@10": 0.5, "ndcg@10": ndcg})


def test_splits_train_on_what_they_say(ratings):
    data = read_interactions([ratings])
    last = split(data, "leave-last", 0)
    assert np.bincount(data.user[~last]).tolist() == [1] * 40
    assert all(data.time_ms[~last][u] == data.time_ms[data.user == u].max() for u in range(40))
    early = split(data, "time:0.5", 0)
    assert data.time_ms[early].max() < data.time_ms[~early].min()
    assert (split(data, "ratio:0.8", 3) == split(data, "ratio:0.8", 3)).all()
    with pytest.raises(ConfigError, match="leave-last"):
        split(data, "ratio:8", 0)


def evaluated(capsys, path, how, learner, *more):
    command = ["evaluate", "--interactions", str(path), "--learner", learner, "--split", how, "--seed", "3"]
    assert main([*command, "--json", *more]) == 0
    return json.loads(capsys.readouterr().out.splitlines()[-1])


@pytest.mark.parametrize(
    ("how", "passes"), [("leave-last", 5), ("ratio:0.8", 5), ("time:0.8", 5), ("prequential", 1)]
)
def test_the_command_ranks_better_than_popularity(ratings, how, passes, capsys):
    ours, bpr, popular = (
        evaluated(capsys, ratings, how, learner, "--passes", str(passes))
        for learner in ("robirank-mf", "bpr", "popularity")
    )
    assert {"seconds", "us_per_click", "test"} <= set(ours)
    assert ours["us_per_click"] > 0
    if how == "ratio:0.8":  # the other splits of so few rows leave too little to compare
        assert min(ours["test"]["ndcg@10"], bpr["test"]["ndcg@10"]) > popular["test"]["ndcg@10"] + 0.1
    again = evaluated(capsys, ratings, how, "robirank-mf", "--passes", str(passes))
    assert again["test"] == ours["test"]


def test_parquet_is_read_as_text_is(ratings, tmp_path, capsys):
    table = pyarrow.csv.read_csv(ratings)
    pyarrow.parquet.write_table(table, tmp_path / "ratings.parquet")
    text = evaluated(capsys, ratings, "time:0.8", "robirank-mf")
    assert evaluated(capsys, tmp_path / "ratings.parquet", "time:0.8", "robirank-mf")["test"] == text["test"]


@pytest.mark.parametrize(
    ("options", "says"),
    [
        (["--learner", "egdm"], "bpr, robirank-mf"),
        (["--learner", "bpr", "--set", "rat=1"], "no parameter 'rat'"),
        (["--learner", "bpr", "--split", "time"], "time:0.8"),
        (["--learner", "bpr", "--split", "prequential", "--passes", "2"], "--passes"),
        (["--learner", "bpr", "--test", "x"], "--split"),
    ],
)
def test_what_cannot_be_done_is_said(ratings, options, says, capsys):
    assert main(["evaluate", "--interactions", str(ratings), *options]) == 2
    assert says in capsys.readouterr().err


@pytest.mark.parametrize("how", ["leave-last", "ratio:0.8", "time:0.8", "prequential"])
@pytest.mark.parametrize("text", ["", "userId,movieId,rating,timestamp\n"], ids=["empty", "header"])
def test_a_file_without_rows_is_said(how, text, tmp_path, capsys):
    path = tmp_path / "ratings.csv"
    path.write_text(text)
    options = ["--learner", "robirank-mf", "--split", how, "--json"]
    assert main(["evaluate", "--interactions", str(path), *options]) == 2
    assert "no row" in capsys.readouterr().err


def test_popularity_click_by_click_is_the_count_of_what_is_above():
    rng = np.random.default_rng(1)
    users, items = rng.integers(0, 5, 80), rng.integers(0, 9, 80)
    ranked = popularity_ranks(users, items)
    for t in range(80):
        counts = np.bincount(items[:t], minlength=9)
        had = set(items[:t][users[:t] == users[t]])
        others = [counts[i] for i in range(9) if counts[i] and i not in had and i != items[t]]
        above = sum(c > counts[items[t]] for c in others) + sum(c == counts[items[t]] for c in others) // 2
        assert ranked[t] == (above if counts[items[t]] else -1)


@pytest.mark.parametrize("how", ["ratio:0.8", "time:0.8"])
def test_more_items_than_there_may_be_are_said_as_a_setting(how, tmp_path):
    path = tmp_path / "u.data"
    path.write_text("".join(f"{k % 7}\t{k}\t5\t{k}\n" for k in range(50)))
    with pytest.raises(ConfigError, match=r"more items than max_items = 9: raise it$"):
        evaluate_interactions(
            read_interactions([path]),
            learner="bpr",
            params={"d": 2, "max_items": 9},
            passes=2,
            how=how,
            seed=1,
        )
