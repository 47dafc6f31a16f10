"""RankNet as a citizen of river: pipelines, evaluation, clones, frames."""

import copy
import pickle

import numpy as np
import pandas as pd
import pytest
from river import datasets, evaluate, metrics, preprocessing, stream

from streamrank.learners.comparing import frozen
from streamrank.learners.lessons import named_lessons
from streamrank.learners.ranknet import RankNet


def taught(n=60):
    ranker = RankNet(rate=0.05, horizon=100)
    for lesson in named_lessons(n):
        lesson.teach(ranker)
    return ranker


@pytest.mark.parametrize("copied", [copy.deepcopy, lambda ranker: pickle.loads(pickle.dumps(ranker))])
def test_a_copy_goes_on_to_the_same_bits_and_leaves_the_original_alone(copied):
    one = taught()
    before = frozen(one.to_state())
    two = copied(one)
    for lesson in named_lessons(20, seed=3):
        lesson.teach(two)
    assert frozen(one.to_state()) == before
    for lesson in named_lessons(20, seed=3):
        lesson.teach(one)
    assert frozen(one.to_state()) == frozen(two.to_state())


def test_a_clone_has_the_parameters_and_nothing_learnt():
    clone = taught().clone()
    assert (clone.rate, clone.horizon, clone.scale) == (0.05, 100, True)
    assert frozen(clone.to_state()) == frozen(RankNet().to_state())
    assert taught().clone({"rate": 0.5}).rate == 0.5


def test_it_works_behind_a_scaler():
    model = preprocessing.StandardScaler() | RankNet(scale=False)
    rng = np.random.default_rng(0)
    for _ in range(400):
        x = {"price": float(rng.normal(1000, 300)), "fresh": float(rng.random() / 1000)}
        model.learn_one(x, -x["price"] / 300 + 2000 * x["fresh"])
    assert model.predict_one({"price": 900.0, "fresh": 5e-4}) > model.predict_one(
        {"price": 1100.0, "fresh": 5e-4}
    )
    assert model.predict_one({"price": 1e3, "fresh": 9e-4}) > model.predict_one({"price": 1e3, "fresh": 1e-4})


def test_it_works_with_progressive_validation():
    metric = evaluate.progressive_val_score(datasets.TrumpApproval().take(300), RankNet(), metrics.MAE())
    assert np.isfinite(metric.get())
    pipeline = preprocessing.StandardScaler() | RankNet()
    assert np.isfinite(
        evaluate.progressive_val_score(datasets.TrumpApproval(), pipeline, metrics.MAE()).get()
    )


def test_single_examples_of_real_data_are_ranked_well_after_one_pass():
    from sklearn.datasets import load_diabetes

    rows = list(stream.iter_sklearn_dataset(load_diabetes(), shuffle=True, seed=1))
    model = RankNet()
    for x, y in rows[:350]:
        model.learn_one(x, y)
    scores = [model.predict_one(x) for x, _ in rows[350:]]
    labels = [y for _, y in rows[350:]]
    pairs = [(i, j) for i in range(len(labels)) for j in range(len(labels)) if labels[i] > labels[j]]
    assert np.mean([scores[i] <= scores[j] for i, j in pairs]) < 0.3  # least squares on all of it: 0.26


def test_frames_say_the_same_as_dicts():
    xs = [x for lesson in named_lessons(30) for x in lesson.xs]
    frame = pd.DataFrame(xs, columns=list("abcdefgh")).fillna(0.0)
    records, labels = frame.to_dict("records"), pd.Series(np.arange(len(frame)) % 4, dtype=float)
    many, one = RankNet(), RankNet()
    many.learn_many(frame, labels)
    for x, y in zip(records, labels, strict=True):
        one.learn_one(x, y)
    assert frozen(many.to_state()) == frozen(one.to_state())
    predicted = many.predict_many(frame)
    assert predicted.tolist() == [one.predict_one(x) for x in records]
    assert predicted.index.equals(frame.index)


def test_nan_is_a_missing_value():
    nan = float("nan")
    missing, absent = RankNet(), RankNet()
    for lesson in named_lessons(30):
        lesson._replace(xs=[{"never": nan, **dict.fromkeys("abc", nan), **x} for x in lesson.xs]).teach(
            missing
        )
        lesson.teach(absent)
    assert frozen(missing.to_state()) == frozen(absent.to_state())
    assert missing.predict_one({"a": 1.0, "b": nan}) == absent.predict_one({"a": 1.0}) != 0.0
    frame = pd.DataFrame([{"a": 1.0, "b": nan, "never": nan}])
    assert missing.predict_many(frame).tolist() == [absent.predict_one({"a": 1.0})]


def test_ranking_puts_the_best_first_and_keeps_ties_in_order():
    ranker = RankNet()
    assert ranker.rank([{"a": 3.0}, {"a": 1.0}, {}]) == [0, 1, 2]
    for _ in range(5):
        ranker.learn_pair({"a": 1.0}, {"a": 0.0})
    assert ranker.rank([{"a": 1.0}, {"a": 3.0}, {"a": 1.0}, {"a": 2.0}]) == [1, 3, 0, 2]
    assert ranker.rank([]) == []
