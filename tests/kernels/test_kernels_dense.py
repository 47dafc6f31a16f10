"""Lists with the same columns in every row: found, and learnt to the same bits as any other."""

import numpy as np
import pytest

from streamrank.features.batch import BatchBuilder, sparse_rows
from streamrank.kernels.dense import same_columns
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
