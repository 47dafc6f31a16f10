"""Lists with the same columns in every row: found, and learnt to the same bits as any other."""

import numpy as np
import pytest
from numba.core.errors import TypingError

from streamrank.features.batch import BatchBuilder, Rows, sparse_rows
from streamrank.kernels.dense import same_columns
from streamrank.kernels.lanes import dot
from streamrank.learners.comparing import frozen
from streamrank.learners.registry import build


def batch_of(tables, *, ragged):
    """Lists of rows; ragged: the first row of each holds one column more, whose value is 0."""
    builder = BatchBuilder()
    for X, y, c in tables:
        rows = [dict(enumerate(x)) for x in X.tolist()]
        if ragged:
            rows[0][X.shape[1]] = 0.0
        builder.add(sparse_rows(rows), y.tolist(), c.tolist(), query="q")
    return builder.build()


@pytest.mark.parametrize("learner", ["ranknet", "song"])
@pytest.mark.parametrize("scale", [True, False])
def test_a_table_is_learnt_to_the_same_bits_as_scattered_rows(learner, scale):
    rng = np.random.default_rng(4)
    tables = []
    for k in range(120):
        X = rng.normal(size=(rng.integers(2, 20), 11)) * 10.0 ** np.arange(-5, 6)
        X[:, 3] = 0.0 if k < 40 else X[:, 3]  # a column that comes to life
        X[:, 4] = 7.0  # and one that never does
        X[0, 5] *= 1e6 if k == 60 else 1.0  # an outlier
        tables.append((X, rng.integers(0, 3, len(X)).astype(float), rng.uniform(0.5, 2, len(X))))
    states = []
    for ragged in (False, True):
        ranker = build(learner, {"scale": scale, "rate": 0.05})
        scores = ranker.learn_batch(batch_of(tables, ragged=ragged))
        state = {name: value for name, value in ranker.to_state().items() if not name.startswith("u/")}
        states.append(frozen({**{k: v[:11] for k, v in state.items() if np.ndim(v)}, "scores": scores}))
    assert states[0] == states[1]


@pytest.mark.parametrize(
    ("rows", "n"),
    [
        ([[0, 2, 5], [0, 2, 5]], 3),
        ([[3]], 1),
        ([[0, 2, 5], [0, 2, 6]], 0),
        ([[0, 2], [0, 2, 5]], 0),
        ([[2, 0], [2, 0]], 0),  # not in order
        ([[1, 1], [1, 1]], 0),  # twice
        ([[], []], 0),
        ([], 0),
    ],
)
def test_rows_with_the_same_columns_are_told_from_others(rows, n):
    indptr = np.concatenate([[0], np.cumsum([len(row) for row in rows])]).astype(np.int64)
    indices = np.array([j for row in rows for j in row], dtype=np.int32)
    assert same_columns(indptr, indices, 0, len(rows)) == n


@pytest.mark.parametrize("dtype", [np.float32, np.int64])
def test_values_of_any_type_are_learnt_as_float64(dtype):
    X, y = np.arange(1, 22).reshape(7, 3) % 5, [0.0, 1.0, 2.0, 0.0, 1.0, 0.0, 2.0]
    given, wanted = build("ranknet", {}), build("ranknet", {})
    for ranker, values in ((given, X.astype(dtype)), (wanted, X.astype(float))):
        for _ in range(4):
            builder = BatchBuilder()
            builder.add(Rows(7, np.arange(3, dtype=np.int32), values.ravel()), y, [1.0] * 7)
            ranker.learn_batch(builder.build())
    assert given._scorer.refused == 0
    assert frozen(given.to_state()) == frozen(wanted.to_state())


def test_values_that_do_not_adjoin_are_refused_by_the_sum_of_products():
    with pytest.raises(TypingError, match="float64"):
        dot(np.ones(8)[::2], 0, np.ones((1, 4)), 0, 4)


def test_a_state_that_did_not_count_zeros_knows_of_columns_that_hold_nothing_else():
    rng = np.random.default_rng(6)
    zeros = [(np.zeros((8, 2)), np.arange(8.0), np.ones(8)) for _ in range(9)]
    values = [(1000.0 + rng.normal(size=(8, 2)), np.arange(8.0), np.ones(8)) for _ in range(9)]
    states = []
    for ragged in (False, True):
        ranker = build("ranknet", {})
        ranker.learn_batch(batch_of(zeros, ragged=True))
        state = dict(ranker.to_state())
        del state["filled"]
        ranker.from_state(state)
        ranker.learn_batch(batch_of(values, ragged=ragged))
        states.append([ranker.to_state()[name][:2].tolist() for name in ("w", "total", "square", "filled")])
    assert states[0] == states[1]
    assert states[0][-1] == [72, 72]
