import math

import numpy as np
import pytest

from streamrank.features.columns import Vocabulary
from streamrank.features.layouts import MAX_FRAMES, Layouts
from streamrank.learners.comparing import expect_same_state
from streamrank.learners.egdm import EGDM
from streamrank.learners.ranknet import RankNet


@pytest.fixture
def layouts():
    columns = Vocabulary()
    for name in ("a", "b", "c"):
        columns.add(name)
    return Layouts(columns)


def test_values_stand_under_their_columns_whatever_the_order_of_the_keys(layouts):
    batch = layouts.batch([{"c": 3.0, "a": 1.0}, {"c": 6.0, "a": 4.0}], y=[1.0, 0.0], query="q")
    assert batch.indices.tolist() == [0, 2, 0, 2]
    assert batch.values.tolist() == [1.0, 3.0, 4.0, 6.0]
    assert (batch.indptr.tolist(), batch.lists.tolist()) == ([0, 2, 4], [0, 2])
    assert (batch.y.tolist(), batch.c.tolist(), batch.queries) == ([1.0, 0.0], [1.0, 1.0], ("q",))


@pytest.mark.parametrize(
    "xs",
    [
        [],
        [{}],
        [{"a": 1.0}, {"b": 1.0}],
        [{"a": 1.0, "b": 1.0}, {"b": 1.0, "a": 1.0}],
        [{"a": 1.0, "new": 2.0}],
        [{"a": math.nan}],
        [{"a": "1.5"}],
    ],
)
def test_what_does_not_fit_goes_the_long_way_round(layouts, xs):
    assert layouts.batch(xs) is None


def test_an_infinite_value_is_a_value(layouts):
    assert layouts.batch([{"a": math.inf}]).values.tolist() == [math.inf]


def test_frames_are_bounded(layouts):
    for n in range(1, 3 * MAX_FRAMES):
        layouts.batch([{"a": 1.0}] * n)
    assert len(layouts._frames) <= MAX_FRAMES


@pytest.mark.parametrize("make", [EGDM, RankNet])
def test_the_quick_way_and_the_long_way_learn_the_same_bits(make):
    rng = np.random.default_rng(3)
    quick, slow = make(), make()
    slow._layouts.batch = lambda *_: None
    for k in range(60):
        names = ["x", "k", "b"] if k % 3 else ["b", "x", "k"]
        xs = [dict(zip(names, map(float, rng.normal(size=3)), strict=True)) for _ in range(5)]
        ys = rng.integers(0, 3, 5).astype(float).tolist()
        for ranker in (quick, slow):
            ranker.learn_list(xs, ys, query="q")
            ranker.learn_one(xs[0], ys[0], query="e")
            ranker.learn_pair(xs[1], xs[2], weight=2.0)
        assert [quick.predict_one(x) for x in xs] == [slow.predict_one(x) for x in xs]
    expect_same_state(quick, slow, "the two ways differ")


def test_names_of_another_state_are_looked_up_anew():
    first, second = RankNet(), RankNet()
    first.learn_list([{"a": 1.0, "b": 0.0}, {"a": 0.0, "b": 1.0}], [1.0, 0.0])
    second.learn_list([{"b": 1.0}, {"b": 0.0}], [1.0, 0.0])  # here b is column 0
    second.learn_list([{"a": 1.0, "b": 0.0}, {"a": 0.0, "b": 1.0}], [0.0, 1.0])
    second.learn_list([{"a": 1.0, "b": 0.0}, {"a": 0.0, "b": 1.0}], [0.0, 1.0])
    first.from_state(second.to_state())
    assert first.predict_one({"b": 1.0}) == second.predict_one({"b": 1.0}) > 0
