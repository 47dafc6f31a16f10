"""GaussianBasis as a river transformer and in batch."""

import copy

import numpy as np
import pandas as pd
import pytest
import river.checks
from river import compose, preprocessing
from scipy.sparse import csr_matrix

from streamrank import EGDM, GaussianBasis, LinearRegressionRanker, RankRLS
from streamrank.errors import ConfigError
from streamrank.learners.comparing import frozen

N = 4


def documents(n, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, N)) * [1.0, 100.0, 0.01, 1.0] + [0.0, 1000.0, 0.0, 5.0]
    X[:, 3] = 5.0
    return X


def named(x):
    return {f"f{j}": float(v) for j, v in enumerate(x)}


def taught(X, **params):
    basis = GaussianBasis(**params)
    for x in X:
        basis.learn_one(named(x))
    return basis


def values(basis, x):
    return list(basis.transform_one(named(x)).values())


@pytest.mark.parametrize("basis", [GaussianBasis(), GaussianBasis(M=3, freeze=50), GaussianBasis(keep=True)])
def test_it_passes_the_checks_of_river(basis):
    river.checks.check_estimator(basis)


def test_a_stream_finds_the_centres_that_a_batch_finds_in_its_first_documents():
    X = documents(300)
    stream, batch = taught(X, M=5, freeze=200), GaussianBasis(M=5).fit(X[:200])
    np.testing.assert_allclose([values(stream, x) for x in X], batch.transform(X), rtol=1e-12)
    np.testing.assert_array_equal(batch.transform(csr_matrix(X)), batch.transform(X))


def test_phi_is_that_of_centres_and_of_variances_times_the_scale():
    X = documents(100)
    basis = GaussianBasis(M=3, scale=7.0).fit(X)
    variance = X[:, :3].var(axis=0)  # the constant column is left out
    centres = basis.to_state()["centres"]
    expected = np.exp(-0.5 * (((X[:, None, :3] - centres) ** 2) / (7.0 * variance)).sum(axis=2))
    np.testing.assert_allclose(basis.transform(X)[:, 1:], expected, rtol=1e-9)
    np.testing.assert_array_equal(
        GaussianBasis(M=3).fit(X).transform(X), GaussianBasis(M=3, scale=6.0).fit(X).transform(X)
    )


def test_before_the_centres_are_fixed_phi_is_one_and_nothing_moves_after():
    X = documents(60)
    basis = GaussianBasis(M=2, freeze=50)
    for x in X[:49]:
        basis.learn_one(named(x))
        assert basis.transform_one(named(x)) == {"phi0": 1.0}
    basis.learn_one(named(X[49]))
    assert basis.frozen
    before = frozen(basis.to_state())
    for x in X[50:]:
        basis.learn_one({**named(x), "late": 3.0})
    assert frozen(basis.to_state()) == before
    assert basis.transform_one({**named(X[0]), "late": 3.0}) == basis.transform_one(named(X[0]))


def test_transforming_changes_nothing_and_the_order_of_names_does_not_matter():
    X = documents(80)
    one, two = GaussianBasis(M=3, freeze=60), GaussianBasis(M=3, freeze=60)
    for x in X:
        before = frozen(one.to_state())
        one.transform_one({**named(x), "unseen": 1.0})
        assert frozen(one.to_state()) == before
        one.learn_one(named(x))
        two.learn_one(dict(reversed(named(x).items())))
    assert frozen(one.to_state()) == frozen(two.to_state())


@pytest.mark.parametrize("cut", [0, 20, 59, 60, 75])
def test_a_state_saved_anywhere_goes_on_to_the_same_bits(cut):
    X = documents(80)
    straight, moved = taught(X, M=3, freeze=60), taught(X[:cut], M=3, freeze=60)
    state = copy.deepcopy(moved.to_state())
    moved = GaussianBasis(M=3, freeze=60)
    moved.from_state(state)
    assert frozen(moved.to_state()) == frozen(state)
    for x in X[cut:]:
        moved.learn_one(named(x))
    assert frozen(moved.to_state()) == frozen(straight.to_state())
    assert values(moved, X[0]) == values(straight, X[0])


def test_the_seed_decides():
    X = documents(100)
    same, other = (GaussianBasis(M=5, seed=seed).fit(X).to_state()["centres"] for seed in (0, 1))
    np.testing.assert_array_equal(same, GaussianBasis(M=5).fit(X).to_state()["centres"])
    assert not np.array_equal(same, other)


def test_frames_say_the_same_as_dicts():
    X = documents(90)
    frame = pd.DataFrame(X, columns=[f"f{j}" for j in range(N)], index=range(5, 95))
    many, one = GaussianBasis(M=3, freeze=60, keep=True), taught(X, M=3, freeze=60, keep=True)
    many.learn_many(frame)
    assert frozen(many.to_state()) == frozen(one.to_state())
    shown = many.transform_many(frame)
    assert list(shown.columns) == [*frame.columns, "phi0", "phi1", "phi2", "phi3"]
    assert shown.index.equals(frame.index)
    np.testing.assert_array_equal(shown.to_numpy()[7], values(one, X[7]))


def test_missing_texts_and_nan_count_as_nothing():
    basis = taught(documents(50), M=2, freeze=50)
    x = {"f0": 1.0, "f1": 900.0}
    assert basis.transform_one({**x, "f2": float("nan"), "colour": "red"}) == basis.transform_one(x)
    kept = taught(documents(50), M=2, freeze=50, keep=True)
    assert kept.transform_one({"f0": 1.0, "colour": "red"})["colour"] == "red"


@pytest.mark.parametrize("X", [np.ones((10, 3)), np.zeros((5, 2)), np.array([[1.0, 2.0]])])
def test_documents_that_are_all_alike_have_no_centres(X):
    assert GaussianBasis(M=3).fit(X).transform(X).tolist() == [[1.0]] * len(X)


def test_values_beyond_all_sense_are_left_out():
    X = documents(50)
    X[7, 0] = 1e300
    phi = GaussianBasis(M=3).fit(X).transform(X)
    assert np.isfinite(phi).all()
    assert phi.shape == (50, 4)


def test_in_a_pipeline_it_learns_what_no_line_can():
    rng = np.random.default_rng(3)
    ring = [(x, float(np.hypot(*x) < 1.0)) for x in rng.normal(size=(1500, 2))]
    rbf = GaussianBasis(M=20, scale=1.0, freeze=300) | LinearRegressionRanker(lam=1e-6)
    line = preprocessing.StandardScaler() | LinearRegressionRanker(lam=1e-6)
    for x, y in ring[:1000]:
        for model in (rbf, line):
            model.learn_one(named(x), y)

    def rms(model):
        return np.sqrt(np.mean([(model.predict_one(named(x)) - y) ** 2 for x, y in ring[1000:]]))

    assert rms(rbf) < 0.75 * rms(line)


def test_beside_x_it_helps_a_ranker_behind_it():
    rng = np.random.default_rng(4)
    model = GaussianBasis(M=15, scale=2.0, freeze=200, keep=True) | EGDM(lam=1e-3)
    alone = compose.Select("f0", "f1") | EGDM(lam=1e-3)
    X = rng.normal(size=(2500, 2))
    y = X[:, 0] + 3.0 * (np.hypot(*X.T) < 1.0)
    for x, label in zip(X[:2000], y, strict=False):
        for ranker in (model, alone):
            ranker.learn_one(named(x), float(label))

    def error(ranker):
        scores = np.array([ranker.predict_one(named(x)) for x in X[2000:]])
        better = y[2000:, None] > y[None, 2000:]
        return (scores[:, None] <= scores)[better].mean()

    assert error(model) < 0.75 * error(alone)
    with_phi = GaussianBasis(M=15, scale=2.0, keep=True).fit(X[:200])
    batch = RankRLS(lam=1.0).fit(with_phi.transform(X[:2000]), y[:2000])
    better = y[2000:, None] > y[None, 2000:]
    scores = batch.predict(with_phi.transform(X[2000:]))
    assert (scores[:, None] <= scores)[better].mean() < 0.75 * error(alone)


@pytest.mark.parametrize(
    "params", [{"M": 0}, {"M": 2.5}, {"scale": 0.0}, {"freeze": 0}, {"keep": "yes"}, {"scale": float("inf")}]
)
def test_bad_parameters_are_refused_at_construction(params):
    with pytest.raises(ConfigError, match=next(iter(params))):
        GaussianBasis(**params)


def test_too_many_columns_are_refused_in_batch_and_left_out_on_a_stream():
    with pytest.raises(ValueError, match="4096"):
        GaussianBasis().fit(csr_matrix((3, 5000)))
    with pytest.raises(ValueError, match="not finite"):
        GaussianBasis().fit(np.array([[np.nan]]))
    basis = GaussianBasis(M=2, freeze=10)
    for k in range(10):
        basis.learn_one({f"w{k * 1000 + j}": 1.0 + k for j in range(1000)})
    assert basis.to_state()["centres"].shape[1] <= 4096
