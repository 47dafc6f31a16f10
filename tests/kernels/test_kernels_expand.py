"""Lists of dense and sparse rows to one CSR, against scipy-free plain loops."""

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from streamrank.features.batch import BatchBuilder, Rows, expand, sparse_rows

columns = st.lists(st.integers(0, 50), unique=True, max_size=4)
sparse = st.lists(st.dictionaries(st.integers(0, 50), st.floats(-9, 9), max_size=4), max_size=4)
dense = st.tuples(columns, st.integers(0, 4))


@settings(deadline=None)  # the first call compiles
@given(st.lists(st.one_of(sparse, dense), max_size=6))
def test_every_row_keeps_its_columns_and_values(lists):
    builder, expected, sizes = BatchBuilder(), [], []
    for k, made in enumerate(lists):
        if isinstance(made, tuple):
            names, n = made
            values = np.arange(n * len(names), dtype=np.float64) + k
            rows = Rows(n, np.array(names, np.int32), values)
            expected += [list(zip(names, row, strict=True)) for row in values.reshape(n, len(names)).tolist()]
        else:
            rows = sparse_rows(made)
            expected += [list(row.items()) for row in made]
        builder.add(rows, [0.0] * rows.n, [1.0] * rows.n)
        sizes.append(rows.n)
    batch = builder.build()
    got = [
        list(zip(batch.indices[a:b].tolist(), batch.values[a:b].tolist(), strict=True))
        for a, b in zip(batch.indptr[:-1], batch.indptr[1:], strict=True)
    ]
    assert got == expected
    assert np.diff(batch.lists).tolist() == sizes
    assert batch.n_columns == max((j for row in expected for j, _ in row), default=-1) + 1


def test_a_dense_list_repeats_its_columns_for_each_row():
    indptr, indices = expand(
        np.array([2, 2]),
        np.array([True, False]),
        np.array([2, 3]),
        np.array([7, 4, 1, 2, 3], np.int32),
        np.array([0, 1, 3]),
        7,
    )
    assert indptr.tolist() == [0, 2, 4, 5, 7]
    assert indices.tolist() == [7, 4, 7, 4, 1, 2, 3]
