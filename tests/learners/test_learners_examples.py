"""The memory that turns single examples into pairs."""

import numpy as np
import pytest

from streamrank.features.batch import BY_LABEL, EXAMPLE, EXPLICIT, BatchBuilder, sparse_rows
from streamrank.learners.comparing import frozen
from streamrank.learners.examples import RecentExamples


def example(memory, query, label, x, weight=1.0):
    """What one example becomes: labels, rows as dicts, pairs."""
    builder = BatchBuilder()
    builder.add(sparse_rows([x]), [label], [weight], EXAMPLE, query=query)
    batch, positions = memory.expand(builder.build())
    assert positions.tolist() == [0]
    assert batch.mode.tolist() == [EXPLICIT]
    rows = [
        dict(zip(batch.indices[a:b].tolist(), batch.values[a:b].tolist(), strict=True))
        for a, b in zip(batch.indptr[:-1], batch.indptr[1:], strict=True)
    ]
    pairs = zip(batch.better.tolist(), batch.worse.tolist(), batch.pair_c.tolist(), strict=True)
    return batch.y.tolist(), rows, list(pairs)


def test_an_example_is_set_against_the_ones_remembered_of_its_query():
    memory = RecentExamples(depth=3)
    assert example(memory, "q", 1.0, {0: 5.0}) == ([1.0], [{0: 5.0}], [])
    assert example(memory, "other", 9.0, {3: 1.0}) == ([9.0], [{3: 1.0}], [])
    example(memory, "q", 3.0, {1: 2.0})
    labels, rows, pairs = example(memory, "q", 2.0, {}, weight=0.5)
    assert labels == [2.0, 1.0, 3.0]
    assert rows == [{}, {0: 5.0}, {1: 2.0}]
    assert pairs == [(0, 1, 0.5), (2, 0, 0.5)]  # above the first, below the second


def test_equal_labels_make_no_pair():
    memory = RecentExamples()
    example(memory, "q", 1.0, {0: 1.0})
    assert example(memory, "q", 1.0, {0: 2.0})[2] == []


def test_only_the_last_few_of_a_query_are_remembered():
    memory = RecentExamples(depth=2)
    for k in range(5):
        example(memory, "q", float(k), {k: 1.0})
    assert example(memory, "q", 9.0, {9: 1.0})[0] == [9.0, 3.0, 4.0]


def test_the_least_recently_used_query_is_forgotten_first():
    memory = RecentExamples(queries=2)
    for query in ("a", "b", "a"):
        example(memory, query, 1.0, {0: 1.0})
    assert memory.dirty() == ["example/a", "example/b"]
    assert memory.dirty() == []
    example(memory, "c", 1.0, {0: 1.0})  # b is the oldest use
    assert set(memory.to_state()) == {"example/a", "example/c"}
    assert memory.dirty() == ["example/b", "example/c"]


def test_the_order_of_use_survives_a_restart():
    memory = RecentExamples(queries=2)
    for query in ("z", "a", "z"):
        example(memory, query, 1.0, {0: 1.0})
    restored = RecentExamples(queries=2)
    restored.from_state(dict(sorted(memory.to_state().items())))
    for either in (memory, restored):
        example(either, "new", 1.0, {0: 1.0})
    assert set(restored.to_state()) == {"example/z", "example/new"}
    assert frozen(restored.to_state()) == frozen(memory.to_state())


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf, 1e20, -1e300])
def test_an_example_of_an_absurd_value_is_not_remembered(bad):
    memory = RecentExamples()
    example(memory, "q", 1.0, {0: 1.0})
    example(memory, "q", 5.0, {0: 2.0, 1: bad})
    assert example(memory, "q", 2.0, {0: 3.0})[:2] == ([2.0, 1.0], [{0: 3.0}, {0: 1.0}])


def test_lists_pass_unchanged_between_examples():
    memory, builder = RecentExamples(), BatchBuilder()
    builder.add(sparse_rows([{0: 1.0}]), [1.0], [1.0], EXAMPLE, query="q")
    builder.add(sparse_rows([{1: 1.0}, {}, {2: 3.0}]), [1.0, 0.0, 2.0], [1.0, 0.0, 2.0], BY_LABEL, query="l")
    builder.add(sparse_rows([{4: 1.0}, {5: 1.0}]), [1.0, 0.0], [1.0, 1.0], EXPLICIT, [(1, 0, 0.3)], "e")
    builder.add(sparse_rows([{0: 2.0}]), [3.0], [1.0], EXAMPLE, query="q")
    batch, positions = memory.expand(builder.build())
    assert batch.lists.tolist() == [0, 1, 4, 6, 8]
    assert positions.tolist() == [0, 1, 2, 3, 4, 5, 6]
    assert batch.mode.tolist() == [EXPLICIT, BY_LABEL, EXPLICIT, EXPLICIT]
    assert batch.pairs.tolist() == [0, 0, 0, 1, 2]
    assert (batch.better.tolist(), batch.worse.tolist()) == ([1, 0], [0, 1])
    assert batch.pair_c.tolist() == [0.3, 1.0]
    assert batch.c[1:4].tolist() == [1.0, 0.0, 2.0]


@pytest.mark.parametrize("n", [1, 50])
def test_a_remembered_row_does_not_hold_its_batch_in_memory(n):
    memory, builder = RecentExamples(), BatchBuilder()
    for k in range(n):
        builder.add(sparse_rows([{k: 1.0}]), [1.0], [1.0], EXAMPLE, query=f"q{k}")
    memory.expand(builder.build())
    for _, rows in memory.to_state().values():
        for _, columns, values in rows:
            assert columns.base is None or columns.base.nbytes == columns.nbytes
            assert isinstance(values, np.ndarray)
            assert values.base is None
