"""Radial basis functions against the formula; k-means against scikit-learn and its own fixed point."""

import numpy as np
import pytest
from scipy.sparse import csr_matrix
from sklearn.cluster import KMeans

from streamrank.kernels.basis import gaussians, k_means


def test_phi_is_one_and_the_formula_for_each_centre_also_where_values_are_not_stored():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(20, 6)) * (rng.random((20, 6)) < 0.5)
    used = np.array([0, 2, 3, 5])
    centres, inverse = rng.normal(size=(4, 4)), rng.uniform(0.1, 2.0, 4)
    place = np.full(6, -1, dtype=np.int64)
    place[used] = np.arange(4)
    rows = csr_matrix(X)
    out = np.empty((20, 5))
    from_zero = (centres**2 * inverse).sum(axis=1)
    indptr, indices = rows.indptr.astype(np.int64), rows.indices
    gaussians(indptr, indices, rows.data, place, centres, inverse, from_zero, out)
    expected = np.exp(-0.5 * ((X[:, None, used] - centres) ** 2 * inverse).sum(axis=2))
    np.testing.assert_array_equal(out[:, 0], 1.0)
    np.testing.assert_allclose(out[:, 1:], expected, rtol=1e-12)


def test_a_value_beyond_all_sense_is_far_from_every_centre():
    out = np.empty((1, 2))
    place, centre = np.zeros(1, dtype=np.int64), np.ones((1, 1))
    gaussians(
        np.array([0, 1]), np.zeros(1, np.int32), np.array([1e300]), place, centre, np.ones(1), np.ones(1), out
    )
    assert out.tolist() == [[1.0, 0.0]]


def clustered(seed, k=5, m=300):
    rng = np.random.default_rng(seed)
    return rng.normal(size=(k, 3))[rng.integers(k, size=m)] * 8 + rng.normal(size=(m, 3))


@pytest.mark.parametrize("seed", range(4))
def test_every_centre_is_the_mean_of_the_rows_nearest_to_it(seed):
    X = clustered(seed)
    centres = k_means(X, np.random.default_rng(seed).random(5), 100)
    nearest = ((X[:, None] - centres) ** 2).sum(axis=2).argmin(axis=1)
    for j in range(5):
        np.testing.assert_allclose(centres[j], X[nearest == j].mean(axis=0), rtol=1e-9)


def test_the_best_of_a_few_seeds_is_as_good_as_that_of_scikit_learn():
    X = clustered(7)

    def inertia(centres):
        return ((X[:, None] - centres) ** 2).sum(axis=2).min(axis=1).sum()

    ours = min(inertia(k_means(X, np.random.default_rng(s).random(5), 100)) for s in range(5))
    theirs = KMeans(5, n_init=5, random_state=0).fit(X).inertia_
    assert ours == pytest.approx(theirs, rel=1e-6)


def test_the_second_centre_is_drawn_with_the_squared_distance_for_weight():
    X = np.array([[0.0], [1.0], [3.0]])
    uniforms = np.column_stack([np.zeros(1000), (np.arange(1000) + 0.5) / 1000])
    drawn = [k_means(X, u, 0)[1, 0] for u in uniforms]
    assert [drawn.count(x) for x in (0.0, 1.0, 3.0)] == [0, 100, 900]


def test_there_are_no_more_centres_than_different_rows():
    X = np.repeat(np.array([[0.0, 1.0], [2.0, 2.0]]), 5, axis=0)
    assert sorted(k_means(X, np.random.default_rng(0).random(6), 10).tolist()) == [[0.0, 1.0], [2.0, 2.0]]
