"""EGDM without H: the contract in every mode, a plain twin, and how it goes over."""

import copy
import gzip
import logging

import msgspec
import numpy as np
import pytest
from scipy.sparse import csr_matrix, diags
from scipy.stats import rankdata

from streamrank.config import ModelSettings, Settings
from streamrank.errors import ConfigError
from streamrank.events.types import Record
from streamrank.features.batch import EXAMPLE, Batch, BatchBuilder, Rows
from streamrank.learners.checks import yield_checks
from streamrank.learners.comparing import frozen
from streamrank.learners.egdm import EGDM
from streamrank.learners.rankrls import RankRLS
from streamrank.pipeline.checkpoint import Checkpoint
from streamrank.pipeline.flow import Flow
from streamrank.simulation import Settings as SimulationSettings
from streamrank.simulation import Simulator
from streamrank.state import open_store
from streamrank.state.digest import digest

N = 12
# a square counts an outlier with its square: in H, and in the longest row that the plain step goes by
SQUARED = ["check_one_outlier_does_no_lasting_harm"]
CASES = {
    "adagrad": ({"mode": "adagrad", "batch": 8}, []),
    "adagrad-raw": ({"mode": "adagrad", "batch": 8, "scale": False}, []),
    "adagrad-forgets": ({"mode": "adagrad", "batch": 8, "half_life": 50.0}, []),
    # 40 lists do not fill a batch of 200 rows, so there is nothing to merge yet
    "adagrad-200": ({"mode": "adagrad"}, ["check_merging_laws"]),
    "power": ({"mode": "power", "batch": 8}, SQUARED),
    "power-raw": ({"mode": "power", "batch": 8, "scale": False}, SQUARED),
    "power-forgets": ({"mode": "power", "batch": 8, "half_life": 50.0}, SQUARED),
    "statistics": ({"mode": "statistics"}, SQUARED),
    # which list is the first beyond 16 columns depends on how they are numbered
    "auto-16": ({"columns": 16, "batch": 8}, [*SQUARED, "check_merging_by_columns"]),
}
CHECKS = [
    pytest.param(check, id=f"{case}-{name}")
    for case, (params, skip) in CASES.items()
    for name, check in yield_checks(lambda params=params: EGDM(**params), skip=skip)
]


@pytest.mark.parametrize("check", CHECKS)
def test_the_contract_of_rankers(check):
    check()


def lists(seed=0, n_lists=60, n=N):
    rng = np.random.default_rng(seed)
    taste = rng.normal(size=n)
    for _ in range(n_lists):
        X = rng.normal(size=(int(rng.integers(2, 9)), n)) * (rng.random(n) < 0.6)
        yield X, np.round(X @ taste / 2 + rng.normal(size=len(X)))


def batch_of(data, **more):
    builder = BatchBuilder()
    for X, y in data:
        n = X.shape[1]
        indptr = np.arange(0, X.size + 1, n)
        kept = X.ravel() != 0
        rows = Rows(
            len(X),
            np.tile(np.arange(n, dtype=np.int32), len(X))[kept],
            X.ravel()[kept],
            np.concatenate([[0], np.cumsum(kept)])[indptr],
        )
        builder.add(rows, y.tolist(), [1.0] * len(X), **more)
    return builder.build()


def plain_adagrad(data, n, rows, lam, c, scale):
    """The twin: dense arrays, one list after the other, the ridge of a column at rest by its closed form."""
    w, G, rest, mark, square, held = np.zeros((6, n))
    seen = clock = 0
    pending = []
    for X, y in data:
        if len(set(y)) > 1:
            pending.append((X, y))
        m = sum(len(y) for _, y in pending)
        if m < rows:
            continue
        now = w * np.exp(-rest * (clock - mark))
        centred = [X - X.mean(axis=0) for X, _ in pending]
        g = sum(Z.T @ (Z @ now - (y - y.mean())) for Z, (_, y) in zip(centred, pending, strict=True)) / m
        touched = np.any([np.any(X != 0, axis=0) for X, _ in pending], axis=0)
        for Z, (X, _) in zip(centred, pending, strict=True):
            many = held >= 32
            usual = np.divide(square, held, out=np.full(n, 1e300), where=many) * 100 * (X != 0).sum(axis=0)
            square, held = square + np.minimum((Z**2).sum(axis=0), usual), held + (X != 0).sum(axis=0)
        seen += m
        q = np.sqrt(np.divide(held, square, out=np.zeros(n), where=square > 0) * seen / held.sum())
        q = q if scale else np.where(square > 0, 1.0, 0.0)
        j = np.flatnonzero(touched & (q > 0))
        ridge = (
            lam * (held**2).sum() / held.sum() / seen * square[j] / held[j] if scale else np.full(len(j), lam)
        )
        g = g[j] + ridge * now[j]
        reach = np.where(G[j] > 0, 3 * np.sqrt(G[j]), np.inf)
        g = np.clip(g, -reach, reach)
        G[j] += g**2
        w[j] = now[j] - c * q[j] * g / np.sqrt(G[j])
        rest[j] = c * q[j] * ridge / np.sqrt(G[j])
        clock += 1
        mark[j] = clock
        pending = []
    return w * np.exp(-rest * (clock - mark))


@pytest.mark.parametrize("scale", [False, True])
def test_adagrad_is_its_plain_twin(scale):
    ranker = EGDM(mode="adagrad", batch=20, lam=0.01, scale=scale)
    ranker.learn_batch(batch_of(lists()))
    expected = plain_adagrad(lists(), N, 20, 0.01, 0.1, scale)
    np.testing.assert_allclose(ranker.served_weights()[:N], expected, rtol=1e-9, atol=1e-12)


def test_the_plain_step_knows_the_largest_eigenvalue_and_arrives():
    spread = np.geomspace(2.0, 0.3, N)
    data = [(X * spread, y) for X, y in lists(1, n_lists=3000)]
    ranker = EGDM(mode="power", batch=50, scale=False, lam=1e-6)
    ranker.learn_batch(batch_of(data))
    centred = [(X - X.mean(axis=0), y - y.mean()) for X, y in data if len(set(y)) > 1]
    rows = sum(len(y) for _, y in centred)
    H = sum(Z.T @ Z for Z, _ in centred) / rows
    b = sum(Z.T @ e for Z, e in centred) / rows
    assert ranker.spectrum().kappa_1 == pytest.approx(np.linalg.eigvalsh(H)[-1], rel=0.15)
    best, w = np.linalg.solve(H, b), ranker.served_weights()[:N]
    assert np.linalg.norm(w - best) < 0.15 * np.linalg.norm(best)


@pytest.mark.parametrize("mode", ["adagrad", "power"])
@pytest.mark.parametrize("scale", [False, True])
def test_a_feature_that_is_suddenly_thirty_times_as_large_does_not_make_it_diverge(mode, scale):
    ranker = EGDM(mode=mode, batch=20, scale=scale)
    data = [*lists(2, n_lists=400)]
    for k, (X, _) in enumerate(data):
        X[:, 3] *= 30.0 if k > 200 else 1.0
    ranker.learn_batch(batch_of(data))
    assert np.abs(ranker.served_weights()).max() < 10.0


@pytest.mark.parametrize("mode", ["adagrad", "power"])
def test_units_do_not_matter_where_columns_are_scaled(mode):
    units = np.geomspace(1e-6, 1e6, N)
    one, two = (EGDM(mode=mode, batch=20) for _ in range(2))
    data = [*lists(3)]
    one.learn_batch(batch_of(data))
    two.learn_batch(batch_of([(X * units, y) for X, y in data]))
    np.testing.assert_allclose(two.served_weights()[:N] * units, one.served_weights()[:N], rtol=1e-6)


@pytest.mark.parametrize("mode", ["adagrad", "power"])
def test_to_forget_within_a_list_is_still_finite(mode):
    ranker = EGDM(mode=mode, batch=40, half_life=0.01)
    ranker.learn_batch(batch_of(lists(8, n_lists=200)))
    assert np.isfinite(ranker.served_weights()).all()
    assert ranker.served_weights().any()


def test_a_list_is_never_cut_and_the_border_falls_behind_the_one_that_reaches_the_count():
    rng = np.random.default_rng(0)
    ranker = EGDM(mode="adagrad", batch=10)

    def teach(n):
        ranker.learn_batch(batch_of([(rng.normal(size=(n, N)), np.arange(n) % 3.0)]))
        return ranker.to_state()["open_lists"][-1]

    assert [teach(n) for n in (4, 4, 4, 9, 1, 25, 3)] == [4, 8, 0, 9, 9, 0, 3]  # a list of one says nothing


def test_only_the_columns_of_the_batch_are_touched():
    ranker = EGDM(mode="adagrad", batch=4)
    wide = Rows(
        4, np.array([7, 5000, 999_999] * 4, dtype=np.int32), np.arange(12.0) ** 2, np.arange(0, 13, 3)
    )
    builder = BatchBuilder()
    builder.add(wide, [1.0, 0.0, 2.0, 0.0], [1.0] * 4)
    ranker.learn_batch(builder.build())
    ranker.dirty()
    ranker.learn_batch(builder.build())
    assert ranker.dirty()["w"] == [0, 1, 244]
    assert set(np.flatnonzero(ranker.served_weights())) == {7, 5000, 999_999}


# -- going over ----------------------------------------------------------------------------------------------


def wide_at(k, data):
    """The lists, with a column beyond 16 from the k-th on."""
    rng = np.random.default_rng(9)
    return [
        (np.column_stack([X, np.zeros((len(X), 8)), (i >= k) * rng.random(len(X))]), y)
        for i, (X, y) in enumerate(data)
    ]


def test_it_goes_over_at_the_first_list_that_holds_a_column_beyond_and_says_so_once(caplog):
    data = wide_at(40, lists(4))
    ranker, exact = EGDM(columns=16, batch=20), EGDM(columns=16, batch=20)
    with caplog.at_level(logging.WARNING):
        ranker.learn_batch(batch_of(data))
        state = copy.deepcopy(ranker.to_state())
        restored = EGDM(columns=16, batch=20)
        restored.from_state(state)
        restored.learn_batch(batch_of(data))
    assert [record.getMessage()[:20] for record in caplog.records] == ["egdm met column 20, "]
    exact.learn_batch(batch_of(data[:40]))
    exact._go_over()
    exact.learn_batch(batch_of(data[40:]))
    assert frozen(exact.to_state()) == frozen(ranker.to_state())
    assert not {"H", "b", "omega"} & set(ranker.to_state())
    with pytest.raises(ValueError, match="RankRLS"):
        ranker.solve()


def test_what_was_learnt_is_not_shaken_when_it_goes_over():
    data = wide_at(300, lists(5, n_lists=380))
    ranker = EGDM(columns=16)
    ranker.learn_batch(batch_of(data[:300]))
    before = ranker.served_weights()[:N].copy()
    ranker.learn_batch(batch_of(data[300:]))
    after = ranker.served_weights()[:N]
    assert 0.0 < np.linalg.norm(after - before) < 0.1 * np.linalg.norm(before)


@pytest.mark.parametrize("swap", [False, True])
def test_a_shard_that_went_over_takes_the_other_along(swap):
    data = [*lists(6, n_lists=400)]
    narrow, wide = EGDM(columns=16, batch=20), EGDM(columns=16, batch=20)
    narrow.learn_batch(batch_of(data[::2]))
    wide.learn_batch(batch_of(wide_at(150, data[1::2])))
    one, two = (wide, narrow) if swap else (narrow, wide)
    weights = [ranker.served_weights()[:N].copy() for ranker in (one, two)]
    before = frozen(two.to_state())
    one.merge(two)
    merged = one.served_weights()[:N]
    assert frozen(two.to_state()) == before
    assert "sums" in one.to_state()
    low, high = np.minimum(*weights), np.maximum(*weights)
    assert ((merged >= low - 1e-12) & (merged <= high + 1e-12)).all()
    one.learn_batch(batch_of(wide_at(0, data[:40])))
    assert np.isfinite(one.served_weights()).all()


def test_statistics_whose_columns_do_not_fit_together_go_over():
    one, two = EGDM(columns=4, batch=4), EGDM(columns=4, batch=4)
    for ranker, names in ((one, "abc"), (two, "def")):
        for k in range(20):
            ranker.learn_list([dict.fromkeys(names, 1.0 + k), {names[0]: 2.0}, {}], [1.0, 0.0, 0.0])
    one.merge(two)
    assert "sums" in one.to_state()
    assert one.predict_one({"e": 1.0}) == pytest.approx(two.predict_one({"e": 1.0}))


def test_open_batches_of_two_shards_are_put_together_and_closed_by_the_next_list():
    data = [*lists(7, n_lists=9)]
    one, two = EGDM(mode="adagrad", batch=20), EGDM(mode="adagrad", batch=20)
    one.learn_batch(batch_of(data[:3]))
    two.learn_batch(batch_of(data[3:6]))
    rows = [ranker.to_state()["open_lists"][-1] for ranker in (one, two)]
    one.merge(two)
    assert one.to_state()["open_lists"][-1] == sum(rows)
    assert not one.served_weights().any()
    one.learn_batch(batch_of(data[6:]))
    assert one.served_weights().any()


def test_shards_of_different_modes_are_refused():
    with pytest.raises(ConfigError, match="power"):
        EGDM(mode="adagrad").merge(EGDM(mode="power"))


@pytest.mark.parametrize("params", [{"mode": "newton"}, {"rate": 0.0}, {"batch": 0}])
def test_bad_parameters_are_refused_at_construction(params):
    with pytest.raises(ConfigError, match=next(iter(params))):
        EGDM(**params)


def test_entries_that_were_stored_in_blocks_are_gone_by_block():
    ranker = EGDM(columns=4100)
    ranker._grow(4100)
    ranker._go_over()
    assert {"H", "H#0", "H#1", "omega#1", "b"} <= set(ranker.dirty()) - set(ranker.to_state())


def test_the_commit_interval_does_not_matter_where_it_goes_over_in_a_flow():
    log = [*Simulator(SimulationSettings(events=1500, seed=3)).records()]
    model = ModelSettings(name="m", learner="egdm", params={"columns": 24, "batch": 30})
    digests = set()
    for every in (7, 400, 10**9):
        settings = msgspec.structs.replace(Settings(), models=[model], commit_ms=10**9, commit_every=every)
        store = open_store("memory://")
        checkpoint = Checkpoint(store, Flow(settings))
        for offset, record in enumerate(log):
            checkpoint.flow.step(Record(offset, record))
            checkpoint.maybe_commit()
        checkpoint.commit()
        digests.add(digest(store))
        assert "sums" in checkpoint.flow.models[0].learner.to_state()
    assert len(digests) == 1


# -- quality -------------------------------------------------------------------------------------------------


def examples(X, y):
    m = len(y)
    return Batch(
        indptr=X.indptr.astype(np.int64),
        indices=X.indices.astype(np.int32),
        values=X.data,
        lists=np.arange(m + 1),
        y=y,
        c=np.ones(m),
        mode=np.full(m, EXAMPLE, dtype=np.int8),
        pairs=np.zeros(m + 1, dtype=np.int64),
        better=np.zeros(0, dtype=np.int32),
        worse=np.zeros(0, dtype=np.int32),
        pair_c=np.zeros(0),
        queries=("",) * m,
    )


def error(y, scores):
    ranks, good = rankdata(scores), y > 0
    n, m = good.sum(), (~good).sum()
    return 1 - (ranks[good].sum() - n * (n + 1) / 2) / (n * m)


def tf_idf(X, n_train):
    seen = np.bincount(X[:n_train].indices, minlength=X.shape[1])
    X = (X @ diags(np.log(n_train / np.maximum(seen, 1)) * (seen > 0))).tocsr()
    X.eliminate_zeros()
    X.sort_indices()
    length = np.sqrt(np.asarray(X.multiply(X).sum(axis=1)).ravel())
    return (diags(1 / np.maximum(length, 1e-12)) @ X).tocsr()


def newswire(m, n=20_000, n_topics=60, seed=0):
    """Documents of about 60 words, frequent ones often, some from the lists of their topic."""
    rng = np.random.default_rng(seed)
    cumulated = np.cumsum(1 / np.arange(1, n + 1))
    topical = np.stack([rng.choice(np.arange(100, 5000), 200, replace=False) for _ in range(n_topics)])
    topic, good = rng.integers(n_topics, size=m), rng.random(n_topics) < 0.45
    words = np.searchsorted(cumulated, rng.random((m, 70)) * cumulated[-1])
    own = rng.random((m, 70)) < 0.3 * rng.random((m, 1))
    words = np.where(own, topical[topic[:, None], (rng.random((m, 70)) ** 2 * 200).astype(int)], words)
    X = csr_matrix((np.ones(words.size), words.ravel(), np.arange(0, words.size + 1, 70)), shape=(m, n))
    X.sum_duplicates()
    X.data = 1 + np.log(X.data)
    return X, (good[topic] ^ (rng.random(m) < 0.03)).astype(float)


def one_pass(X, y, n_train, **params):
    ranker = EGDM(**params)
    ranker.learn_batch(examples(X[:n_train], y[:n_train]))
    return error(y[n_train:], ranker.scores(examples(X[n_train:], y[n_train:])))


def test_one_pass_comes_near_the_full_batch_on_sparse_text():
    X, y = newswire(24_000)
    X = tf_idf(X, 16_000)
    full = RankRLS(lam=4.8, solver="cg", rtol=1e-4).fit(X[:16_000], y[:16_000])  # 3e-4 a row
    batch = error(y[16_000:], full.predict(X[16_000:]))
    for mode, most in (("adagrad", 1.1), ("auto", 1.1), ("power", 1.2)):
        assert one_pass(X, y, 16_000, mode=mode, scale=False, lam=3e-4) < most * batch
    assert one_pass(X, y, 16_000) < 1.1 * batch  # every default


def test_a_column_at_rest_shrinks_about_as_if_the_ridge_had_pulled_at_every_step():
    X, y = newswire(6000, n=6000)
    X = tf_idf(X, 6000)
    w, G = np.zeros((2, 6000))
    for a in range(0, 6000, 200):
        rows = X[a : a + 200]
        e = rows @ w - y[a : a + 200]
        g = rows.T @ (e - e.mean()) / 200 + 3e-4 * w
        G += g * g
        w -= 0.1 * np.divide(g, np.sqrt(G), out=np.zeros_like(g), where=G > 0)
    ranker = EGDM(mode="adagrad", scale=False, lam=3e-4)
    ranker.learn_batch(examples(X, y))
    lazy = ranker.served_weights()[:6000]
    assert np.linalg.norm(lazy - w) < 0.07 * np.linalg.norm(w)


def test_one_pass_on_newswire_reaches_the_known_error(public_data):
    folder = public_data / "reuters21578-counts"
    indptr, indices, counts = [0], [], []
    with gzip.open(folder / "first80.counts.svmlight.gz", "rt") as lines:
        for line in lines:
            for part in line.split()[1:]:
                column, _, count = part.partition(":")
                indices.append(int(column))
                counts.append(float(count))
            indptr.append(len(indices))
    X = csr_matrix((1 + np.log(counts), indices, indptr))
    with gzip.open(folder / "first80.docs.tsv.gz", "rt") as lines:
        y = np.array([float("acq" in line.split("\t")[4].split("|")) for line in lines][1:])
    order = np.random.default_rng(0).permutation(len(y))
    X, y = tf_idf(X[order], 12_000), y[order]
    # full-batch CG: .0089
    assert one_pass(X, y, 12_000, mode="adagrad", scale=False, lam=3e-4) < 0.0100
    assert one_pass(X, y, 12_000, mode="power", scale=False, lam=3e-4) < 0.0100
    assert one_pass(X, y, 12_000) < 0.0110  # every default
