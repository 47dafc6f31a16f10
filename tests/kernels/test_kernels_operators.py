"""Products with X, X'LX and X'MM'X against the matrices they never form."""

import itertools
from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.sparse import csc_matrix, csr_matrix, random_array

from streamrank.kernels import csr, operators
from streamrank.kernels.csr import Matrix
from streamrank.kernels.operators import PairOperator, ScoreOperator

FORMS = ("sparse", "dense")


def rows(m=60, n=13, density=0.3, seed=0, dtype=np.float64):
    rng = np.random.default_rng(seed)
    X = csr_matrix(random_array((m, n), density=density, rng=rng, data_sampler=rng.standard_normal))
    X.data += 0.5  # columns with a mean: centring must matter
    return X.astype(dtype)


def borders(m, sizes):
    lists = np.cumsum([0, *sizes])
    assert lists[-1] == m
    return lists


def centring(lists, weights=None):
    L = np.zeros((lists[-1], lists[-1]))
    for q, (a, b) in enumerate(itertools.pairwise(lists)):
        c = 1.0 if weights is None else weights[q]
        L[a:b, a:b] = c * (np.eye(b - a) - np.full((b - a, b - a), 1 / (b - a)))
    return L


@pytest.fixture(params=["whole lists", "cut lists"])
def cache(request, monkeypatch):
    """A tiny cache sends long lists through the pieces with a known mean."""
    if request.param == "cut lists":
        monkeypatch.setattr(operators, "CACHE", 20)
        monkeypatch.setattr(csr, "CACHE", 20)


LISTS = {
    "one global list": [400],
    "short lists": [1, 7, 30, 2, 20] * 6 + [40],
    "long and short": [3, 250, 1, 5, 130, 11],
}


@pytest.mark.parametrize("n_threads", [1, 2, 3])
@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("sizes", LISTS.values(), ids=LISTS)
@pytest.mark.parametrize("weighted", [False, True])
def test_the_score_operator_equals_the_explicit_matrix(cache, form, sizes, weighted, n_threads):
    X, lists = rows(m=400, seed=3), borders(400, sizes)
    rng = np.random.default_rng(4)
    weights = rng.random(len(sizes)) if weighted else None
    L, D = centring(lists, weights), X.toarray()
    H = ScoreOperator(X, lists, weights, n_threads=n_threads, form=form)
    v, y = rng.standard_normal(13), rng.standard_normal(400)
    np.testing.assert_allclose(H(v), D.T @ (L @ (D @ v)), rtol=1e-10, atol=1e-10)
    np.testing.assert_allclose(H.rhs(y), D.T @ (L @ y), rtol=1e-10, atol=1e-10)
    np.testing.assert_allclose(H.gram(), D.T @ L @ D, rtol=1e-10, atol=1e-10)
    np.testing.assert_allclose(H.scores(v), D @ v, rtol=1e-10, atol=1e-10)


@settings(max_examples=40)
@given(
    st.integers(1, 40),
    st.integers(1, 9),
    st.floats(0, 1),
    st.lists(st.integers(1, 39)),
    st.integers(0, 10**6),
)
def test_sparse_dense_and_explicit_agree_for_any_shape(m, n, density, cuts, seed):
    X = rows(m, n, density, seed)
    lists = np.unique([0, *(c for c in cuts if c < m), m])
    v = np.random.default_rng(seed).standard_normal(n)
    explicit = X.toarray().T @ (centring(lists) @ (X.toarray() @ v))
    for form in FORMS:
        np.testing.assert_allclose(ScoreOperator(X, lists, form=form)(v), explicit, rtol=1e-10, atol=1e-10)


def test_columns_far_from_zero_keep_their_spread(cache):
    # sums of squares of the raw values would lose all 12 digits of the spread
    rng = np.random.default_rng(0)
    noise = rng.standard_normal((400, 3))
    H = ScoreOperator(1e6 + noise, form="sparse")
    expected = (noise - noise.mean(0)).T @ (noise - noise.mean(0))
    np.testing.assert_allclose(H(np.array([1.0, -1.0, 0.0])), expected @ [1.0, -1.0, 0.0], rtol=1e-5)
    np.testing.assert_allclose(H.gram(), expected, rtol=1e-7, atol=1e-6)


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("n_threads", [1, 2])
def test_the_pair_operator_equals_the_explicit_graph(form, n_threads):
    X, rng = rows(seed=5), np.random.default_rng(6)
    better, worse = rng.integers(60, size=(2, 200))
    c, d = rng.random(200), rng.standard_normal(200)
    M = np.zeros((60, 200))
    np.add.at(M, (better, np.arange(200)), 1.0)
    np.add.at(M, (worse, np.arange(200)), -1.0)
    D, v = X.toarray(), rng.standard_normal(13)
    H = PairOperator(X, better, worse, c, d, n_threads=n_threads, form=form)
    np.testing.assert_allclose(H(v), D.T @ M @ (c * (M.T @ D @ v)), rtol=1e-10, atol=1e-10)
    np.testing.assert_allclose(H.rhs(), D.T @ M @ (c * d), rtol=1e-10, atol=1e-10)
    np.testing.assert_allclose(H.gram(), D.T @ M @ np.diag(c) @ M.T @ D, rtol=1e-10, atol=1e-10)
    plain = PairOperator(X, better, worse, form=form)
    np.testing.assert_allclose(plain.rhs(), D.T @ M @ np.ones(200), rtol=1e-10, atol=1e-10)


def all_pairs(y, lists, *, ties):
    found = [
        (i, j, 1.0 / (b - a), y[i] - y[j])
        for a, b in itertools.pairwise(lists)
        for i in range(a, b)
        for j in range(a, b)
        if y[i] > y[j] or (ties and y[i] == y[j] and i < j)
    ]
    better, worse, c, d = zip(*found, strict=True)
    return np.array(better), np.array(worse), np.array(c), np.array(d)


def test_all_pairs_with_ties_are_the_scored_form_and_without_ties_are_not():
    X, lists = rows(seed=7), borders(60, [10, 1, 25, 24])
    rng = np.random.default_rng(8)
    y, v = rng.integers(0, 3, 60).astype(float), rng.standard_normal(13)
    scored = ScoreOperator(X, lists)
    pairs = PairOperator(X, *all_pairs(y, lists, ties=True))
    np.testing.assert_allclose(pairs(v), scored(v), rtol=1e-10, atol=1e-10)
    np.testing.assert_allclose(pairs.rhs(), scored.rhs(y), rtol=1e-10, atol=1e-10)
    untied = PairOperator(X, *all_pairs(y, lists, ties=False))
    assert np.linalg.norm(untied(v) - scored(v)) > 0.1 * np.linalg.norm(scored(v))


@pytest.mark.parametrize("form", FORMS)
def test_float32_rows_stay_float32_and_their_products_are_close(form):
    exact, single = rows(seed=9), rows(seed=9, dtype=np.float32)
    lists, v = borders(60, [30, 30]), np.random.default_rng(1).standard_normal(13)
    H = ScoreOperator(single, lists, form=form)
    expected = ScoreOperator(exact, lists)(v)
    assert np.linalg.norm(H(v) - expected) < 1e-4 * np.linalg.norm(expected)
    if form == "sparse":
        assert H.matrix.data.dtype == np.float32
        assert np.shares_memory(H.matrix.data, single.data)


def test_two_threads_equal_one_up_to_rounding_and_repeat_to_the_bit(cache):
    X = rows(m=5000, n=300, density=0.05, seed=2)
    lists = np.unique(np.r_[0, np.random.default_rng(0).integers(1, 5000, 90), 1000, 4000, 5000])
    v = np.random.default_rng(3).standard_normal(300)
    one, two = (ScoreOperator(X, lists, n_threads=k, form="sparse") for k in (1, 2))
    first = two(v)
    assert np.linalg.norm(first - one(v)) < 1e-12 * np.linalg.norm(first)
    assert not np.array_equal(first, one(v))  # else the second thread did nothing
    for _ in range(20):
        assert np.array_equal(two(v), first)
        assert np.array_equal(one(v), one(v))
    again = ScoreOperator(X, lists, n_threads=2, form="sparse")
    assert np.array_equal(again(v), first)


def test_the_form_follows_density_and_full_rows_become_dense_without_a_copy(monkeypatch):
    full = rows(density=1.0)
    assert np.shares_memory(Matrix(full).dense, full.data)
    assert Matrix(rows(density=0.5)).dense is not None
    assert Matrix(rows(density=0.1)).dense is None
    assert Matrix(rows(density=0.01).toarray()).dense is None
    assert Matrix(rows(density=0.5).toarray()).dense is not None
    monkeypatch.setattr(csr, "COPY", 100)
    assert Matrix(rows(density=0.5)).dense is None
    assert Matrix(rows(density=0.5), form="dense").dense is not None
    shuffled = rows(density=1.0)
    shuffled.indices, shuffled.data = shuffled.indices[::-1].copy(), shuffled.data[::-1].copy()
    np.testing.assert_allclose(Matrix(shuffled).scores(np.ones(13)), shuffled @ np.ones(13))


def test_other_sparse_formats_plain_arrays_and_repeated_columns_are_understood():
    X, v = rows(), np.arange(13.0)
    plain = SimpleNamespace(indptr=X.indptr, indices=X.indices, data=X.data, shape=X.shape)
    for given_ in (csc_matrix(X), plain, X.toarray()):
        np.testing.assert_allclose(Matrix(given_).scores(v), X @ v)
    twice = csr_matrix((np.ones(2), np.array([0, 0]), np.array([0, 2])), shape=(1, 9))
    assert (
        Matrix(twice, form="sparse").scores(np.ones(9)) == Matrix(twice, form="dense").scores(np.ones(9)) == 2
    )
    integers = Matrix(np.array([[1, 2], [3, 4]]))
    assert integers.scores(np.ones(2)).tolist() == [3.0, 7.0]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"lists": [0, 5]}, "end with 6"),
        ({"lists": [0, 3, 3, 6]}, "list 1 is empty"),
        ({"weights": [1.0, 2.0]}, "one for each list"),
        ({"weights": [-1.0]}, "none below 0"),
        ({"X": np.full((6, 2), np.nan)}, "NaN"),
        ({"X": np.ones(6)}, "dimension"),
        ({"X": SimpleNamespace(indptr=[0, 1], indices=[9], data=np.ones(1), shape=(1, 2))}, "not a CSR"),
        ({"n_threads": 0}, "n_threads"),
        ({"form": "thin"}, "form"),
    ],
)
def test_what_cannot_be_multiplied_is_refused_with_the_reason(change, message):
    arguments = {"X": np.eye(6, 2), "lists": [0, 6]} | change
    with pytest.raises(ValueError, match=message):
        ScoreOperator(**arguments)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"worse": [1]}, "worse has 1"),
        ({"better": [0, 9]}, "outside"),
        ({"worse": [0, -1]}, "outside"),
        ({"weights": [1.0, -1.0]}, "below 0"),
        ({"magnitudes": [1.0, np.inf]}, "finite"),
    ],
)
def test_preferences_that_make_no_sense_are_refused(change, message):
    arguments = {"better": [0, 1], "worse": [1, 0], "weights": None, "magnitudes": None} | change
    with pytest.raises(ValueError, match=message):
        PairOperator(np.eye(2), **arguments)
