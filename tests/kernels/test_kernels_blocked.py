import itertools
import weakref

import numpy as np
import pytest
from scipy.sparse import random as random_sparse

from streamrank.kernels.blocked import Block, BlockedOperator
from streamrank.kernels.csr import Matrix
from streamrank.kernels.operators import ScoreOperator
from streamrank.learners.rankrls import GRID, RankRLS

M, N = 600, 40


@pytest.fixture(params=["sparse", "dense"])
def problem(request):
    rng = np.random.default_rng(3)
    X = random_sparse(M, N, 0.2, "csr", rng=rng)
    lists = np.unique(np.concatenate([[0, M], rng.integers(0, M, 50)]))
    weights, y = rng.uniform(0.0, 2.0, len(lists) - 1), rng.integers(0, 3, M).astype(float)
    return Matrix(X if request.param == "sparse" else X.toarray(), form=request.param), lists, weights, y


def in_blocks(problem, at):
    """Blocks that end at the lists `at`, held in memory."""
    matrix, lists, weights, y = problem
    X, cuts, blocks = matrix.rows(np.arange(M)), [0, *at, len(weights)], []
    for first, end in itertools.pairwise(cuts):
        a, b = lists[first], lists[end]
        part = Matrix(X[a:b], form="dense" if matrix.dense is not None else "sparse")
        block = Block(part, lists[first : end + 1] - a, weights[first:end], y[a:b])
        blocks.append(lambda block=block: block)
    return blocks


def test_blocks_add_up_to_the_whole(problem):
    matrix, lists, weights, y = problem
    whole, blocked = (
        ScoreOperator(matrix, lists, weights),
        BlockedOperator(in_blocks(problem, [3, 20, 21]), N),
    )
    v = np.random.default_rng(0).standard_normal(N)
    for mine, expected in (
        (blocked(v), whole(v)),
        (blocked.rhs(), whole.rhs(y)),
        (blocked.scores(v), whole.scores(v)),
        (blocked.gram(), whole.gram()),
    ):
        np.testing.assert_allclose(mine, expected, rtol=1e-12, atol=1e-12)


def test_one_block_is_the_operator_itself_bit_for_bit(problem):
    matrix, lists, weights, _ = problem
    v = np.random.default_rng(0).standard_normal(N)
    whole = ScoreOperator(matrix, lists, weights)
    assert (BlockedOperator(in_blocks(problem, []), N)(v) == whole(v)).all()


@pytest.mark.parametrize("n_threads", [2, 3, 9])
def test_threads_do_not_change_a_bit(problem, n_threads):
    blocks = in_blocks(problem, [1, 8, 17, 30])
    v = np.random.default_rng(0).standard_normal(N)
    one, more = BlockedOperator(blocks, N), BlockedOperator(blocks, N, n_threads=n_threads)
    assert (one(v) == more(v)).all()
    assert (one.scores(v) == more.scores(v)).all()


@pytest.mark.parametrize("n_threads", [1, 2])
def test_no_more_blocks_are_held_than_threads_work(problem, n_threads):
    held, most = weakref.WeakSet(), []

    def counted(fetch):
        block = fetch()
        matrix = Matrix(block.matrix.rows(np.arange(len(block.y))))
        held.add(matrix)
        most.append(len(held))
        return block._replace(matrix=matrix)

    fetched = [lambda fetch=fetch: counted(fetch) for fetch in in_blocks(problem, range(1, 20))]
    BlockedOperator(fetched, N, n_threads=n_threads)(np.ones(N))
    assert len(most) == 20
    assert max(most) <= n_threads


def test_a_block_from_before_a_column_was_known_counts_as_zeros_there(problem):
    narrow = in_blocks(problem, [10])
    wider = BlockedOperator(narrow, N + 2)
    v = np.random.default_rng(0).standard_normal(N + 2)
    assert (wider(v)[:N] == BlockedOperator(narrow, N)(v[:N])).all()
    assert not wider(v)[N:].any()
    assert wider.gram().shape == (N + 2, N + 2)


def test_an_error_of_a_block_comes_through(problem):
    def broken():
        raise OSError("disk gone")

    blocks = [*in_blocks(problem, [5]), broken]
    for n_threads in (1, 2):
        with pytest.raises(OSError, match="disk gone"):
            BlockedOperator(blocks, N, n_threads=n_threads)(np.ones(N))


@pytest.mark.parametrize("options", [{}, {"solver": "cg"}, {"method": "hybrid", "lam": GRID}])
def test_rankrls_learns_the_same_from_blocks(problem, options):
    matrix, lists, _, y = problem
    problem = (matrix, lists, np.ones(len(lists) - 1), y)
    X, queries = matrix.rows(np.arange(M)), np.repeat(np.arange(len(lists) - 1), np.diff(lists))
    valid = (X, y + X[:, 0], queries)
    options = {"rtol": 1e-10} | options
    whole = RankRLS(**options).fit(X, y, queries, valid=valid)
    blocked = RankRLS(**options).fit_blocks(BlockedOperator(in_blocks(problem, [9, 22]), N), valid=valid)
    assert blocked.report.lam == whole.report.lam
    np.testing.assert_allclose(blocked.weights, whole.weights, rtol=1e-7, atol=1e-9)


def test_rankrls_refuses_blocks_with_nothing_to_rank(problem):
    matrix, lists, weights, _ = problem
    blocks = in_blocks((matrix, lists, weights, np.ones(M)), [9])
    with pytest.raises(ValueError, match="constant in every query"):
        RankRLS().fit_blocks(BlockedOperator(blocks, N))
