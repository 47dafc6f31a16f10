"""The pieces of a step without H, against plain sums and finite differences."""

import numpy as np
import pytest

from streamrank.features.batch import BY_LABEL, EVERY_OTHER, EXAMPLE, EXPLICIT, SCORED
from streamrank.kernels.microbatch import Open, grouped, residuals, worth
from streamrank.kernels.microslopes import Part, longest, product, slopes
from streamrank.kernels.resting import Weights, score, weights_now

N = 5


def opened(lists):
    """Lists of (X, y, c, mode, pairs) as an open batch, every list centred by itself."""
    sizes = [len(y) for _, y, _, _, _ in lists]
    rows = sum(sizes)
    pairs = [pair for *_, some in lists for pair in some]
    ends = np.cumsum([0, *(len(some) for *_, some in lists)])
    return Open(
        indptr=np.arange(0, rows * N + 1, N),
        indices=np.tile(np.arange(N, dtype=np.int32), rows),
        values=np.concatenate([X.ravel() for X, *_ in lists]),
        lists=np.cumsum([0, *sizes]),
        y=np.concatenate([y for _, y, *_ in lists]),
        c=np.concatenate([c for _, _, c, *_ in lists]),
        mode=np.array([mode for *_, mode, _ in lists], dtype=np.int8),
        pairs=ends,
        better=np.array([i for i, _, _ in pairs], dtype=np.int32),
        worse=np.array([j for _, j, _ in pairs], dtype=np.int32),
        pair_c=np.array([c for _, _, c in pairs], dtype=float),
    )


def lists_of(rng, mode, uniform=False):
    X, y = rng.normal(size=(6, N)), rng.integers(0, 3, 6).astype(float)
    c = np.full(6, 0.7) if uniform else rng.uniform(0.5, 2.0, 6)
    return X, y, c, mode, [(0, 3, 0.5), (4, 1, 2.0), (2, 3, 1.5)] if mode == EXPLICIT else []


def loss(lists, w):
    """Half the squares, as written down: of a list's centred scores, or of each preference against 1."""
    total = 0.0
    for X, y, c, mode, pairs in lists:
        s = X @ w
        if mode == SCORED or (mode == BY_LABEL and len(set(c)) == 1):
            e = s - (y * c if mode == SCORED else y)
            total += 0.5 * (1.0 if mode == SCORED else c[0]) * ((e - e.mean()) ** 2).sum()
            continue
        if mode == BY_LABEL:
            pairs = [(i, j, c[i]) for i in range(6) for j in range(6) if y[i] > y[j]]
        elif mode == EVERY_OTHER:
            pairs = [(i, j, c[i]) for i in range(6) for j in range(6) if i != j and y[i] > 0]
        total += 0.5 * sum(weight * (s[i] - s[j] - 1.0) ** 2 for i, j, weight in pairs)
    return total


def parted(lists):
    batch = opened(lists)
    order, borders, heads = grouped(batch.lists, np.arange(len(lists)), len(lists))
    local = batch.indices
    part = Part(batch, batch.indptr, batch.values, order, borders, heads, np.arange(N, dtype=np.int32), local)
    return batch, order, borders, heads, part


@pytest.mark.parametrize(
    ("mode", "uniform"),
    [(BY_LABEL, True), (BY_LABEL, False), (EVERY_OTHER, False), (EXPLICIT, False), (SCORED, False)],
)
def test_the_slope_is_the_derivative_of_the_squares(mode, uniform):
    rng = np.random.default_rng(mode)
    lists = [lists_of(rng, mode, uniform), lists_of(rng, BY_LABEL, True)]
    batch, order, borders, heads, part = parted(lists)
    w = rng.normal(size=N)
    R = np.empty(12)
    mass = residuals(batch, order, borders, heads, batch.values.reshape(-1, N) @ w, True, R)
    steps = 1e-5 * np.eye(N)
    expected = [(loss(lists, w + e) - loss(lists, w - e)) / 2e-5 for e in steps]
    np.testing.assert_allclose(12 * slopes(part, R), expected, rtol=1e-6, atol=1e-8)
    counted = sum(
        worth(y, c, mode, np.array([weight for *_, weight in pairs])) for _, y, c, mode, pairs in lists
    )
    assert mass == pytest.approx(counted)


@pytest.mark.parametrize("mode", [BY_LABEL, EVERY_OTHER, EXPLICIT, SCORED])
def test_the_product_is_that_of_the_second_derivative(mode):
    rng = np.random.default_rng(mode)
    lists = [lists_of(rng, mode), lists_of(rng, BY_LABEL, True)]
    *_, part = parted(lists)
    v, q = rng.normal(size=N), rng.uniform(0.5, 2.0, N)
    z = q * v
    twice = [
        (loss(lists, z + e) - loss(lists, e) - loss(lists, z) + loss(lists, 0 * z)) / 12 for e in np.eye(N)
    ]
    np.testing.assert_allclose(product(part, q, v), q * np.array(twice), rtol=1e-10, atol=1e-12)


def test_examples_of_one_query_are_centred_together_and_one_alone_says_nothing():
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(5, N)), rng.normal(size=5)
    batch = opened([(X[k : k + 1], y[k : k + 1], np.ones(1), EXAMPLE, []) for k in range(5)])
    group = np.array([0, 1, 0, 2, 0])  # rows 0, 2 and 4 are of one query
    order, borders, heads = grouped(batch.lists, group, 3)
    R = np.empty(5)
    assert residuals(batch, order, borders, heads, np.zeros(5), True, R) == 3.0
    expected = np.zeros(5)
    expected[[0, 2, 4]] = y[[0, 2, 4]].mean() - y[[0, 2, 4]]
    np.testing.assert_allclose(R, expected, atol=1e-15)


def test_the_longest_row_is_measured_from_the_mean_of_its_list():
    rng = np.random.default_rng(1)
    lists = [lists_of(rng, BY_LABEL, True), lists_of(rng, EVERY_OTHER)]
    *_, part = parted(lists)
    q = rng.uniform(0.5, 2.0, N)
    expected = max(((X * q - (X * q).mean(axis=0)) ** 2).sum(axis=1).max() for X, *_ in lists)
    assert longest(part, q) == pytest.approx(expected)


def test_a_column_that_is_constant_in_every_list_has_a_slope_of_exactly_zero():
    rng = np.random.default_rng(2)
    lists = [lists_of(rng, BY_LABEL, True) for _ in range(3)]
    for X, *_ in lists:
        X[:, 2] = 0.1
    batch, order, borders, heads, part = parted(lists)
    R = np.empty(18)
    residuals(batch, order, borders, heads, rng.normal(size=18), True, R)
    assert slopes(part, R)[2] == 0.0


def test_a_weight_at_rest_shrinks_by_its_rate_when_it_is_asked_for():
    w, rest, mark = (
        np.array([1.0, -2.0, 3.0, 0.0]),
        np.array([0.5, 0.1, 0.0, 1.0]),
        np.array([2.0, 5.0, 1.0, 0.0]),
    )
    weights = Weights(w, rest, mark, *np.zeros((3, 4)))
    expected = w * np.exp(-rest * (5.0 - mark))
    np.testing.assert_allclose(weights_now(weights, 5.0), expected)
    out = np.empty(1)
    score(np.array([0, 5]), np.array([0, 1, 2, 3, 99], dtype=np.int32), np.ones(5), weights, 5.0, out)
    assert out[0] == pytest.approx(expected.sum())
