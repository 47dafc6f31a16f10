"""Columns in units that differ by ten million, as raw LTR features do, break no learner that steps."""

import numpy as np
import pytest

from streamrank.features.batch import BatchBuilder, Rows
from streamrank.learners.linear import LinearRanker
from streamrank.learners.ranknet import RankNet
from streamrank.learners.registry import LEARNERS

N = 8
DECIMAL = 10.0 ** np.array([4, -3, 1, 2, -1, 0, 3, -2])  # counts in tens of thousands beside rates
BINARY = 2.0 ** np.array([13, -10, 3, 7, -3, 0, 10, -7])  # as far apart, and exact
STEPPING = [name for name, learner in LEARNERS.items() if issubclass(learner, LinearRanker)]


def lists(n, seed, units):
    rng, builder = np.random.default_rng(seed), BatchBuilder()
    for q in range(n):
        X = rng.normal(size=(8, N))
        y = np.digitize(X @ np.linspace(-1, 1, N), [0.5, 2.0]).astype(float).tolist()
        rows = Rows(8, np.arange(N, dtype=np.int32), (X * units).ravel())
        builder.add(rows, y, [1.0] * 8, query=f"q{q}")
    return builder.build()


def learnt(ranker, units):
    ranker.learn_batch(lists(250, 1, units))
    test = lists(50, 2, units)
    scores, y = ranker.scores(test).reshape(50, 8), test.y.reshape(50, 8)
    better = y[:, :, None] > y[:, None, :]
    return scores, float((scores[:, :, None] < scores[:, None, :])[better].mean())


@pytest.mark.parametrize("hidden", [0, 4])
@pytest.mark.parametrize("name", STEPPING)
def test_units_change_what_is_learnt_by_rounding_at_most(name, hidden):
    plain, error = learnt(LEARNERS[name](hidden=hidden), 1.0)
    assert error < 0.15
    np.testing.assert_array_equal(learnt(LEARNERS[name](hidden=hidden), BINARY)[0], plain)
    _, in_decimal = learnt(LEARNERS[name](hidden=hidden), DECIMAL)
    assert in_decimal == pytest.approx(error, abs=0.01)


def test_without_scales_such_columns_do_break_a_learner():
    _, error = learnt(RankNet(scale=False), 1.0)
    _, in_decimal = learnt(RankNet(scale=False), DECIMAL)
    assert in_decimal > error + 0.1
