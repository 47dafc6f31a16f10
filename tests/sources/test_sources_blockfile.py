import json
import pickle

import numpy as np
import pytest
from scipy.sparse import csr_matrix
from scipy.sparse import random as random_sparse

from streamrank.errors import SourceError
from streamrank.kernels.blocked import BlockedOperator
from streamrank.kernels.operators import ScoreOperator
from streamrank.sources.blockfile import BlockWriter, read_blocks, write_blocks

M, N = 400, 30


def chunk(seed, density=0.2, m=M, n=N, dtype=np.float64):
    rng = np.random.default_rng(seed)
    X = random_sparse(m, n, density, "csr", rng=rng).astype(dtype)
    lists = np.unique(np.concatenate([[0, m], rng.integers(0, m, 40)]))
    return X, rng.standard_normal(m), lists, rng.uniform(0.5, 2.0, len(lists) - 1)


def whole(*chunks):
    """All chunks in one operator, and its b."""
    n = max(X.shape[1] for X, *_ in chunks)
    X = np.concatenate([np.pad(X.toarray(), ((0, 0), (0, n - X.shape[1]))) for X, *_ in chunks])
    sizes = np.concatenate([np.diff(lists) for _, _, lists, _ in chunks])
    operator = ScoreOperator(
        X, np.concatenate([[0], np.cumsum(sizes)]), np.concatenate([c[3] for c in chunks])
    )
    return operator, operator.rhs(np.concatenate([y for _, y, _, _ in chunks]))


@pytest.mark.parametrize("size", [1, 3000, 1 << 20])
@pytest.mark.parametrize("density", [0.2, 1.0])
def test_what_was_written_is_the_same_problem(tmp_path, size, density):
    chunks = [chunk(1, density), chunk(2, density), chunk(3, density)]
    n, blocks = write_blocks(tmp_path / "rows", chunks, size)
    operator, b = whole(*chunks)
    stored = BlockedOperator(blocks, n)
    v = np.random.default_rng(0).standard_normal(N)
    np.testing.assert_allclose(stored(v), operator(v), rtol=1e-12, atol=1e-12)
    np.testing.assert_allclose(stored.rhs(), b, rtol=1e-12, atol=1e-12)
    assert len(blocks) == {1: sum(len(c[2]) - 1 for c in chunks), 1 << 20: 1}.get(size, len(blocks))
    assert sum(len(block().y) for block in blocks) == 3 * M


def test_blocks_keep_to_their_size_unless_one_list_is_larger(tmp_path):
    X, y, lists, weights = chunk(1)
    _, blocks = write_blocks(tmp_path / "rows", [(X, y, lists, weights)], 3000)
    sizes = [12 * len(block().matrix.data) for block in blocks]
    longest = 12 * np.diff(X.indptr[lists]).max()
    assert max(sizes) <= max(3000, longest)
    assert min(sizes[:-1]) > 3000 - longest


def test_how_chunks_fell_does_not_change_a_bit(tmp_path):
    X, y, lists, weights = chunk(1)
    at = len(lists) // 2
    row = lists[at]
    halves = [
        (X[:row], y[:row], lists[: at + 1], weights[:at]),
        (X[row:], y[row:], lists[at:] - row, weights[at:]),
    ]
    v = np.random.default_rng(0).standard_normal(N)
    one, two = (
        BlockedOperator(write_blocks(tmp_path / name, chunks)[1], N)(v)
        for name, chunks in (("one", [(X, y, lists, weights)]), ("two", halves))
    )
    assert (one == two).all()


def test_full_rows_are_stored_without_their_columns(tmp_path):
    X = csr_matrix(np.random.default_rng(0).standard_normal((50, 4)))
    _, (block,) = write_blocks(tmp_path / "rows", [(X, np.arange(50.0))])
    assert block().matrix.dense is not None
    assert "indices" not in block.arrays


def test_float32_stays_float32(tmp_path):
    _, (block,) = write_blocks(tmp_path / "rows", [chunk(1, dtype=np.float32)])
    assert block().matrix.data.dtype == np.float32


@pytest.mark.parametrize("density", [0.2, 1.0])
def test_columns_may_be_added_later(tmp_path, density):
    chunks = [chunk(1, density, n=N - 5), chunk(2, density)]
    operator, b = whole(*chunks)
    for size in (2000, 1 << 20):
        n, blocks = write_blocks(tmp_path / "rows", chunks, size)
        np.testing.assert_allclose(BlockedOperator(blocks, n).rhs(), b, rtol=1e-12, atol=1e-12)
        np.testing.assert_allclose(BlockedOperator(blocks, n).gram(), operator.gram(), rtol=1e-12, atol=1e-12)


def test_a_block_goes_to_another_process_as_a_path(tmp_path):
    n, blocks = write_blocks(tmp_path / "rows", [chunk(1)], 3000)
    assert len(pickle.dumps(blocks[0])) < 1000
    v = np.ones(n)
    sent = pickle.loads(pickle.dumps(blocks))
    assert (BlockedOperator(sent, n)(v) == BlockedOperator(blocks, n)(v)).all()


def test_a_file_that_was_not_finished_is_refused(tmp_path):
    write_blocks(tmp_path / "rows", [chunk(1)])

    def cut_short():
        yield chunk(2)
        raise RuntimeError("power cut")

    with pytest.raises(RuntimeError):
        write_blocks(tmp_path / "rows", cut_short())
    with pytest.raises(SourceError, match="no table of contents"):
        read_blocks(tmp_path / "rows")


def test_another_format_is_refused(tmp_path):
    write_blocks(tmp_path / "rows", [chunk(1)])
    (tmp_path / "rows.json").write_text(json.dumps({"format": 99}))
    with pytest.raises(SourceError, match="format 99"):
        read_blocks(tmp_path / "rows")


def test_bad_chunks_are_refused_when_they_are_written(tmp_path):
    X, y, lists, weights = chunk(1)
    with BlockWriter(tmp_path / "rows") as writer:
        with pytest.raises(SourceError, match="one finite label"):
            writer.add(X, y[1:], lists, weights)
        with pytest.raises(SourceError, match="one finite label"):
            writer.add(X, np.where(y > 0, y, np.nan), lists, weights)
        with pytest.raises(ValueError, match="lists must start with 0"):
            writer.add(X, y, lists[1:], weights[1:])
        X.data[3] = np.inf
        with pytest.raises(ValueError, match="NaN or infinity"):
            writer.add(X, y, lists, weights)
    assert read_blocks(tmp_path / "rows")[1] == []


def test_preferences_stay_with_their_lists_whatever_the_blocks(tmp_path):
    rng = np.random.default_rng(4)
    X = rng.standard_normal((60, 5))
    y, lists, weights = rng.standard_normal(60), np.arange(0, 61, 6), np.array([1.0, 0.0] * 5)
    # none in the last list, several in the others, in the order of the lists
    better = np.concatenate([6 * q + rng.permutation(6)[:3] for q in range(9)])
    worse = (better // 6) * 6 + (better + 2) % 6
    c = rng.random(27)
    chunks = [
        (X[:36], y[:36], lists[:7], weights[:6], (better[:18], worse[:18], c[:18])),
        (X[36:], y[36:], lists[6:] - 36, weights[6:], (better[18:] - 36, worse[18:] - 36, c[18:])),
    ]
    n, blocks = write_blocks(tmp_path / "rows", chunks, 8 * 5 * 13)
    assert len(blocks) > 3
    D, v = X[better] - X[worse], rng.standard_normal(n)
    score = ScoreOperator(X, lists, weights)
    operator = BlockedOperator(blocks, n)
    np.testing.assert_allclose(operator(v), score(v) + D.T @ (c * (D @ v)), rtol=1e-12)
    np.testing.assert_allclose(operator.rhs(), score.rhs(y) + D.T @ c, rtol=1e-12)
    np.testing.assert_allclose(operator.gram(), score.gram() + (D.T * c) @ D, rtol=1e-12)
