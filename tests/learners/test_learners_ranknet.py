"""RankNet against a slow plain twin, and what it must learn."""

import math
import time

import numpy as np
import pytest

from streamrank.errors import ConfigError
from streamrank.features.batch import (
    BY_LABEL,
    EVERY_OTHER,
    EXPLICIT,
    SCORED,
    BatchBuilder,
    Rows,
    sparse_rows,
)
from streamrank.kernels.weights import Weights, averaged, inverse_scales
from streamrank.learners.lessons import NAMES, TASTE, named_lessons
from streamrank.learners.ranknet import RankNet
from streamrank.learners.registry import build


class Twin:
    """RankNet from its description: dicts, pairs in full, all values kept, all averages moved."""

    def __init__(self, rate, horizon, scale):
        self.rate, self.horizon, self.scale = rate, horizon, scale
        self.t = 0
        self.values = {}
        self.w, self.m1, self.m2, self.average, self.touches = {}, {}, {}, {}, {}

    def spread(self, j):
        values = np.array(self.values.get(j, []))
        if not self.scale or len(values) == 0:
            return 1.0
        spread, size = np.std(values), abs(np.mean(values))
        return float(spread if spread > 1e-6 * size else size or 1.0)

    def cut(self, j, v):
        """A value as the spread sees it: within ten spreads of the mean, or ten times what else is usual."""
        values = self.values.get(j, [])
        filled = [value for value in values if value]
        if len(values) < 32 or len(filled) < 8:
            return v
        mean, reach = np.mean(values), 10 * self.spread(j)
        rare = 10 * math.sqrt(np.square(filled).mean()) if 2 * len(filled) < len(values) else 0.0
        return float(np.clip(v, min(mean - reach, -rare or math.inf), max(mean + reach, rare or -math.inf)))

    def served(self, x):
        return sum(self.average.get(j, 0.0) * v / self.spread(j) for j, v in x.items())

    def learn(self, xs, pairs):
        if not pairs:
            return
        for j in {j for x in xs for j in x}:
            seen = [self.cut(j, x[j]) if j in x else 0.0 for x in xs]
            self.values.setdefault(j, []).extend(seen)
        xs = [{j: v / self.spread(j) for j, v in x.items()} for x in xs]
        s = [sum(self.w.get(j, 0.0) * v for j, v in x.items()) for x in xs]
        ds = [0.0] * len(xs)
        for i, j, c in pairs:
            slope = c / (1.0 + math.exp(min(s[i] - s[j], 700.0))) / len(xs)
            ds[i] -= slope
            ds[j] += slope
        self.t += 1
        for j in {j for x in xs for j in x}:
            g = sum(d * x.get(j, 0.0) for d, x in zip(ds, xs, strict=True))
            if abs(g) <= 1e-12 * sum(abs(d * x.get(j, 0.0)) for d, x in zip(ds, xs, strict=True)):
                continue
            if self.m2.get(j):
                g = math.copysign(min(abs(g), math.sqrt(self.m2[j] / 0.001)), g)
            self.m1[j] = 0.9 * self.m1.get(j, 0.0) + 0.1 * g
            self.m2[j] = 0.999 * self.m2.get(j, 0.0) + 0.001 * g * g
            k = self.touches[j] = self.touches.get(j, 0) + 1
            m1, m2 = self.m1[j] / (1 - 0.9**k), self.m2[j] / (1 - 0.999**k)
            self.w[j] = self.w.get(j, 0.0) - self.rate * m1 / (math.sqrt(m2) + 1e-8)
        a = max(3 / (self.t + 2), 1 / self.horizon)
        for j, w in self.w.items():
            self.average[j] = self.average.get(j, 0.0) + a * (w - self.average.get(j, 0.0))


def pairs_of(mode, y, c, explicit):
    rows = range(len(y))
    if mode == EXPLICIT:
        return explicit
    if mode == EVERY_OTHER:
        return [(i, j, c[i]) for i in rows for j in rows if i != j and y[i] > 0 and c[i] > 0]
    if mode == SCORED:
        return [(i, j, 1.0) for i in rows for j in rows if y[i] * c[i] > y[j] * c[j]]
    return [(i, j, c[i]) for i in rows for j in rows if y[i] > y[j] and c[i] > 0]


def sparse_stream(n, seed, columns=40, wild=True):
    """Rows of many sizes and offsets, some columns constant, column 0 in every row, every mode in turn."""
    rng = np.random.default_rng(seed)
    size, offset = 10.0 ** rng.uniform(-4, 6 if wild else 0, columns), rng.normal(size=columns)
    size[:3] = 0.0  # constant
    for k in range(n):
        m = int(rng.integers(1, 7))
        xs = [
            {
                int(j): float(size[j] * rng.normal() + offset[j])
                for j in [0, *(1 + np.sort(rng.choice(columns - 1, int(rng.integers(0, 8)), replace=False)))]
            }
            for _ in range(m)
        ]
        y = rng.integers(0, 3, m).astype(float).tolist()
        c = (rng.integers(0, 4, m) / 2.0).tolist()
        mode = (BY_LABEL, EVERY_OTHER, EXPLICIT, SCORED)[k % 4]
        pairs = [(i, i + 1, float(rng.uniform(0.1, 2))) for i in range(m - 1)] if mode == EXPLICIT else []
        yield xs, y, c, mode, pairs


@pytest.mark.parametrize(
    ("rate", "horizon", "scale"), [(0.03, 1000, True), (0.1, 20, True), (0.1, 1, True), (0.05, 50, False)]
)
def test_it_equals_a_plain_twin_over_hundreds_of_sparse_lists(rate, horizon, scale):
    fast, twin = RankNet(rate, horizon, scale), Twin(rate, horizon, scale)
    for k, (xs, y, c, mode, pairs) in enumerate(sparse_stream(300, seed=horizon, wild=scale)):
        if scale and k % 50 == 40:
            xs[0] = {j: 1e4 * v for j, v in xs[0].items()}
        expected = [twin.served(x) for x in xs]
        builder = BatchBuilder()
        builder.add(sparse_rows(xs), y, c, mode, pairs)
        np.testing.assert_allclose(fast.learn_batch(builder.build()), expected, rtol=1e-12, atol=1e-12)
        twin.learn(xs, pairs_of(mode, y, c, pairs))
    assert fast.to_state()["step"] == twin.t
    assert twin.t > 150
    state = fast.to_state()
    for j in range(40):
        assert state["touches"][j] == twin.touches.get(j, 0)
        assert state["w"][j] == pytest.approx(twin.w.get(j, 0.0), rel=1e-12, abs=1e-12)
    weights = Weights(*(state[name] for name in Weights._fields))
    served = averaged(weights, state["step"], horizon)
    np.testing.assert_allclose(served, [twin.average.get(j, 0.0) for j in range(len(served))], 1e-12, 1e-12)


def learn_and_keep(ranker, n, seed, values):
    """Learn a stream; `values` gets what the scales should have seen of each column."""
    for xs, y, c, mode, pairs in sparse_stream(n, seed):
        builder = BatchBuilder()
        builder.add(sparse_rows(xs), y, c, mode, pairs)
        ranker.learn_batch(builder.build())
        if pairs_of(mode, y, c, pairs):
            for j in {j for x in xs for j in x}:
                values.setdefault(j, []).extend(x.get(j, 0.0) for x in xs)


def scales(ranker):
    state = ranker.to_state()
    return 1 / inverse_scales(Weights(*(state[name] for name in Weights._fields)))


def test_scales_equal_the_standard_deviation_of_all_values_seen():
    ranker, values = RankNet(), {}
    learn_and_keep(ranker, 200, 5, values)
    for j in range(1, 40):
        assert scales(ranker)[j] == pytest.approx(np.std(values[j]), rel=1e-8)
    assert scales(ranker)[0] == pytest.approx(abs(values[0][0]), rel=1e-12)  # constant


def test_merged_scales_equal_the_standard_deviation_of_what_both_have_seen():
    one, two, values = RankNet(), RankNet(), {}
    learn_and_keep(one, 100, 5, values)
    learn_and_keep(two, 100, 6, values)
    one.merge(two)
    for j in range(40):
        assert scales(one)[j] == pytest.approx(np.std(values[j]), rel=1e-8)


def test_a_column_that_is_there_or_not_does_not_drown_the_others():
    ranker, rng = RankNet(), np.random.default_rng(0)
    for _ in range(300):
        xs = [{"good": float(rng.normal())} for _ in range(6)]
        for x in xs[:3]:
            x["badge"] = 10.0 + 1e-6 * float(rng.normal())  # as good as constant, where it is
        best = max(x["good"] for x in xs)
        ranker.learn_list(xs, [float(x["good"] == best) for x in xs])
    badge = abs(ranker.predict_one({"badge": 10.0}))
    assert badge < 0.3 * ranker.predict_one({"good": 1.0})


def normal_lists(n, seed, columns=1):
    rng = np.random.default_rng(seed)
    for _ in range(n):
        X = rng.normal(size=(10, columns))
        yield X, (X[:, 0] == X[:, 0].max()).astype(float).tolist()


def dense(X, y, columns=None):
    builder = BatchBuilder()
    columns = np.arange(X.shape[1], dtype=np.int32) if columns is None else np.array(columns, np.int32)
    builder.add(Rows(len(X), columns, X.ravel()), y, [1.0] * len(X))
    return builder.build()


@pytest.mark.parametrize("outlier", [1e4, 1e6, -1e9, 1e19])
def test_one_outlier_does_not_ruin_a_scale(outlier):
    ranker = RankNet()
    for k, (X, y) in enumerate(normal_lists(600, seed=0)):
        if k == 300:
            X[3] = outlier
        ranker.learn_batch(dense(X, y))
    assert scales(ranker)[0] == pytest.approx(1.0, abs=0.1)
    served = [ranker.scores(dense(X, y)) for X, y in normal_lists(50, seed=1)]
    best = [np.argmax(X[:, 0]) for X, _ in normal_lists(50, seed=1)]
    assert [int(np.argmax(s)) for s in served] == best


@pytest.mark.parametrize("learner", ["ranknet", "pdgd"])
@pytest.mark.parametrize("stored", [True, False], ids=["zeros are stored", "zeros are left out"])
def test_a_tiny_first_value_among_zeros_does_not_lock_a_column_out(learner, stored):
    rng = np.random.default_rng(0)
    ranker = build(learner, {})
    for k in range(1500):
        X, y = np.zeros((10, 2)), (rng.random(10) < 0.2).astype(float)
        X[:, 0] = rng.normal(size=10)
        if k == 100:
            X[3, 1] = 1e-4
        elif k > 100 and k % 20 == 0:  # from now on, once in two hundred rows, it says all
            X[4, 1], y = 1.0, np.eye(10)[4]
        xs = [{"a": a, **({"rare": b} if stored or b else {})} for a, b in X.tolist()]
        ranker.learn_list(xs, y.tolist(), query="q")
    state = ranker.to_state()
    assert np.sqrt(state["square"][1] / state["seen"][1]) > 0.05
    assert 1.0 < ranker.predict_one({"a": 0.0, "rare": 1.0}) < 50.0


def test_a_scale_follows_a_change_once_the_column_has_seen_many_values():
    ranker = RankNet()
    for X, y in normal_lists(3000, seed=0):
        ranker.learn_batch(dense(100.0 * X, y))
    assert scales(ranker)[0] == pytest.approx(100.0, rel=0.1)
    for X, y in normal_lists(12_000, seed=1):
        ranker.learn_batch(dense(X, y))
    assert scales(ranker)[0] < 5.0
    for X, y in normal_lists(3000, seed=2):  # and up, though each value is an outlier at first
        ranker.learn_batch(dense(1000.0 * X + 5000.0, y))
    assert scales(ranker)[0] > 500.0
    assert ranker.to_state()["seen"][0] < 20_000


def test_old_values_count_half_when_many_were_seen():
    ranker, values = RankNet(), []
    for X, y in normal_lists(2050, seed=0):
        X += len(values) / 1e4
        ranker.learn_batch(dense(X, y))
        values.extend(X[:, 0].tolist())
    weight = np.where(np.arange(len(values)) < 20_000, 0.5, 1.0)
    mean = np.average(values, weights=weight)
    spread = math.sqrt(np.average((np.array(values) - mean) ** 2, weights=weight))
    assert ranker.to_state()["seen"][0] == 10_500
    assert scales(ranker)[0] == pytest.approx(spread, rel=1e-9)


@pytest.mark.parametrize("stored", [True, False])  # zeros written out, or left out
def test_the_scale_of_a_value_rare_in_long_lists_does_not_shrink(stored):
    ranker, rng = RankNet(), np.random.default_rng(0)
    for k in range(300):
        x = 3.0 * (np.arange(500) == rng.integers(500)) if k else np.zeros(500)
        columns = [np.zeros(0 if v == 0.0 and not stored else 1, np.int32) for v in x]
        builder = BatchBuilder()
        indptr = np.cumsum([0, *(len(c) for c in columns)]).astype(np.int64)
        values = x if stored else x[x != 0.0]
        rows = Rows(500, np.concatenate(columns), values, indptr)
        builder.add(rows, (x > 0).astype(float).tolist(), [1.0] * 500)
        ranker.learn_batch(builder.build())
    assert scales(ranker)[0] == pytest.approx(3.0 * math.sqrt(0.002), rel=0.01)


def test_a_column_that_appears_late_moves_as_one_that_was_there_from_the_first():
    late, first = RankNet(), RankNet()
    for X, y in normal_lists(10_000, seed=0):
        late.learn_batch(dense(X, y, columns=[1]))
    assert late.to_state()["step"] == 10_000
    for X, y in normal_lists(30, seed=1):
        for ranker in (late, first):
            ranker.learn_batch(dense(X, y))
        assert late.to_state()["w"][0] == pytest.approx(first.to_state()["w"][0], rel=1e-12)
    assert first.to_state()["w"][0] > 0.1


def test_one_absurd_example_does_not_get_the_next_refused():
    ranker = taught("example", 100)
    steps = ranker.to_state()["step"]
    ranker.learn_one({"a": math.inf}, 9.0, query="q0")
    for k in range(8):
        ranker.learn_one({"a": float(k)}, float(k), query="q0")
    assert (ranker.refused, ranker.to_state()["step"]) == (1, steps + 8)


def test_a_clock_in_nanoseconds_keeps_its_scale():
    ranker, rng = RankNet(), np.random.default_rng(0)
    times = 1.7e18 + rng.integers(0, 10**15, 400)  # the last eleven days
    for better, worse in zip(times[::2], times[1::2], strict=True):
        ranker.learn_pair({"time": max(better, worse)}, {"time": min(better, worse)})
    spread = times.std() * ranker.explain({"time": 1.0})["time"]
    assert 0.5 < spread < 20  # a weight of the usual size on what was scaled
    assert ranker.rank([{"time": times.min()}, {"time": times.max()}]) == [1, 0]


def taught(kind, n, **params):
    ranker = RankNet(**params)
    for lesson in named_lessons(n, seed=1, kinds=(kind,)):
        lesson.teach(ranker)
    return ranker


def agreement(ranker):
    """Share of fresh pairs that it orders as `TASTE` does."""
    rng = np.random.default_rng(77)
    right = 0
    for _ in range(500):
        one, two = ({name: float(rng.normal()) for name in NAMES} for _ in range(2))
        wanted = sum(TASTE[name] * (one[name] - two[name]) for name in NAMES)
        right += (ranker.predict_one(one) - ranker.predict_one(two)) * wanted > 0
    return right / 500


@pytest.mark.parametrize("kind", ["list", "pair", "example", "every other", "scored"])
def test_it_learns_a_known_taste_from(kind):
    assert agreement(RankNet()) == 0.0  # untrained, everything is tied
    assert agreement(taught(kind, 500)) > 0.93


def test_scaling_finds_the_taste_in_units_that_hide_it():
    def hidden(scale):
        ranker = RankNet(scale=scale)
        for lesson in named_lessons(500, seed=1, kinds=("list",)):
            units = {name: 10.0 ** (k - 4) for k, name in enumerate(NAMES)}
            xs = [{name: v * units[name] for name, v in x.items()} for x in lesson.xs]
            lesson._replace(xs=xs).teach(ranker)
        return RankNetIn(units, ranker)

    class RankNetIn:
        def __init__(self, units, ranker):
            self.units, self.ranker = units, ranker

        def predict_one(self, x):
            return self.ranker.predict_one({name: v * self.units[name] for name, v in x.items()})

    assert agreement(hidden(True)) > 0.93
    assert agreement(hidden(False)) < 0.9


def test_it_follows_a_change_of_taste_the_faster_the_shorter_the_horizon():
    def after_change(horizon):
        ranker = taught("list", 400, horizon=horizon, rate=0.1)
        for lesson in named_lessons(60, seed=2, kinds=("list",)):
            lesson._replace(ys=[2.0 - y for y in lesson.ys]).teach(ranker)
        return 1 - agreement(ranker)

    assert after_change(10) > 0.8 > 0.6 > after_change(1000)


def test_one_wild_weight_does_not_silence_a_column():
    ranker = RankNet()
    for lesson in named_lessons(50, kinds=("list",)):
        lesson._replace(ys=[2.0 - y for y in lesson.ys]).teach(ranker)
    ranker.learn_pair(dict.fromkeys(NAMES[:4], 1.0), {}, weight=1e18)
    for lesson in named_lessons(300, seed=1, kinds=("list",)):
        lesson.teach(ranker)
    assert agreement(ranker) > 0.93


@pytest.mark.parametrize("name", ["ranknet", "egdm"])
def test_every_ranker_says_how_many_lists_it_refused(name):
    ranker = build(name, {})
    ranker.learn_pair({"a": 1.0}, {"a": 0.0})
    assert ranker.refused == 0
    ranker.learn_pair({"a": 1e300}, {"a": 0.0})
    assert ranker.refused == 1


def batch_of_two(one, two):
    builder = BatchBuilder()
    builder.add(sparse_rows([one, two]), [1.0, 0.0], [1.0, 1.0])
    return builder.build()


@pytest.mark.parametrize("bad", [math.nan, math.inf, -math.inf, 1e300, 3.4028235e38])
def test_a_list_with_an_absurd_value_is_refused_and_counted(bad):
    ranker = taught("list", 20)
    before = {name: np.array(value) for name, value in ranker.to_state().items() if name in Weights._fields}
    ranker.learn_batch(batch_of_two({0: bad}, {0: 1.0}))
    state = ranker.to_state()
    assert (state["refused"], ranker.refused, state["step"]) == (1, 1, 20)
    for name, array in before.items():
        np.testing.assert_array_equal(state[name], array)
    assert math.isfinite(ranker.predict_one({"a": bad}))


def wide_batch(top, n=100):
    rng = np.random.default_rng(0)
    builder = BatchBuilder()
    columns = np.sort(rng.choice(1 << 10, 46, replace=False)).astype(np.int32)
    columns[-1] = top - 1
    for _ in range(n):
        y = np.eye(10)[rng.integers(10)].tolist()
        builder.add(Rows(10, columns, rng.normal(size=460)), y, [1.0] * 10)
    return builder.build()


def test_the_cost_of_a_list_does_not_grow_with_the_number_of_columns():
    def microseconds(top):
        ranker, batch, times = RankNet(), wide_batch(top), []
        ranker.learn_batch(batch)
        for _ in range(20):
            began = time.perf_counter()
            ranker.learn_batch(batch)
            times.append(time.perf_counter() - began)
        assert len(ranker.to_state()["w"]) == top
        return min(times) / 100 * 1e6

    # one look at all 2^18 columns would already cost 20 times a list
    assert microseconds(1 << 18) < 4 * microseconds(1 << 10)


def test_hashed_columns_learn_the_same_weights_as_low_ones():
    low, high = RankNet(), RankNet()
    low.learn_batch(wide_batch(1 << 10))
    high.learn_batch(wide_batch(1 << 18))
    expected, w = low.to_state()["w"], high.to_state()["w"]
    np.testing.assert_array_equal(w[: (1 << 10) - 1], expected[:-1])
    assert w[-1] == expected[-1] != 0.0


def test_an_explanation_adds_up_to_the_score():
    ranker = taught("list", 100)
    x = {"a": 0.3, "c": -2.0, "h": 1.0, "unknown": 9.0}
    shares = ranker.explain(x)
    assert set(shares) == {"a", "c", "h"}
    assert sum(shares.values()) == pytest.approx(ranker.predict_one(x), rel=1e-12)
    assert [abs(v) for v in shares.values()] == sorted((abs(v) for v in shares.values()), reverse=True)


def test_merging_weighs_each_column_by_the_steps_that_moved_it():
    one, two = taught("list", 300), taught("pair", 100)
    x = {"a": 1.0, "b": -0.5}
    raw = {name: (one.explain({name: 1.0})[name], two.explain({name: 1.0})[name]) for name in x}
    steps = {
        name: [int(ranker.to_state()["touches"][ranker._columns.find(name)]) for ranker in (one, two)]
        for name in x
    }
    one.merge(two)
    assert one.to_state()["step"] == 400
    for name, (mine, theirs) in raw.items():
        a, b = steps[name]
        assert 0 < b < 100 < a < 300
        expected = (a * mine + b * theirs) / (a + b)
        assert one.explain({name: 1.0})[name] == pytest.approx(expected, rel=1e-9)
        assert one.to_state()["touches"][one._columns.find(name)] == a + b


def test_merging_leaves_what_only_one_shard_knows_as_it_is():
    one, two = RankNet(), RankNet()
    for _ in range(300):
        one.learn_pair({"mine": 1.0}, {"mine": 0.0})
    for _ in range(20):
        two.learn_pair({"theirs": 1.0}, {"theirs": 0.0})
    expected = one.predict_one({"mine": 1.0}), two.predict_one({"theirs": 1.0})
    one.merge(two)
    merged = one.predict_one({"mine": 1.0}), one.predict_one({"theirs": 1.0})
    assert merged == pytest.approx(expected, rel=1e-9)


def test_merging_counts_the_lists_refused_even_of_a_shard_that_made_no_step():
    one, two = taught("list", 20), RankNet()
    two.learn_pair({"a": 1e300}, {})
    one.merge(two)
    assert one.refused == 1


def test_merging_shards_that_saw_only_zeros_of_a_column_keeps_the_sums():
    zeros, values, rng = RankNet(), RankNet(), np.random.default_rng(0)
    kept = [float(v) for v in rng.normal(5.0, 2.0, 60)]
    for _ in range(30):
        zeros.learn_batch(batch_of_two({0: 0.0, 1: 1.0}, {0: 0.0, 1: 0.0}))
    for a, b in zip(kept[::2], kept[1::2], strict=True):
        values.learn_batch(batch_of_two({0: a}, {0: b}))
    zeros.merge(values)
    zeros.learn_batch(batch_of_two({0: 4.0}, {0: 6.0}))
    assert scales(zeros)[0] == pytest.approx(np.std([0.0] * 60 + kept + [4.0, 6.0]), rel=1e-9)


@pytest.mark.parametrize(
    ("params", "message"),
    [
        ({"rate": 0.0}, "step size"),
        ({"rate": math.nan}, "step size"),
        ({"rate": math.inf}, "step size"),
        ({"rate": True}, "step size"),
        ({"rate": "0.1"}, "step size"),
        ({"horizon": 0}, "at least 1"),
        ({"horizon": 10.0}, "whole number"),
        ({"horizon": True}, "whole number"),
        ({"scale": 1}, "true or false"),
        ({"scale": "no"}, "true or false"),
        ({"speed": 1}, "no parameter"),
    ],
)
def test_bad_parameters_are_refused_at_construction(params, message):
    with pytest.raises(ConfigError, match=message):
        build("ranknet", params)


def test_an_unknown_learner_is_refused_with_the_known_ones():
    with pytest.raises(ConfigError, match="ranknet"):
        build("ranknot", {})


def test_labels_that_do_not_match_the_items_are_refused():
    with pytest.raises(ValueError, match="2 items came with 1 labels"):
        RankNet().learn_list([{}, {}], [1.0])
    with pytest.raises(ValueError, match="and 1 weights"):
        RankNet().learn_list([{}, {}], [1.0, 0.0], weights=[1.0])
