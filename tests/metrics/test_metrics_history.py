"""The bounded record: what goes in can be found, taken out, stored and restored."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from streamrank.errors import ConfigError, SnapshotError
from streamrank.metrics.history import History

COMPILED = settings(deadline=None)  # the first example compiles
NAMES = ("ndcg", "error")
VALUES = st.floats(0, 1) | st.sampled_from([math.nan, math.inf])
ADDS = st.lists(st.tuples(st.integers(0, 300), VALUES, VALUES, st.sampled_from([1.0, -1.0])), max_size=40)
SHAPES = st.tuples(st.integers(1, 9), st.integers(1, 5))


def arrays(adds):
    index = np.array([i for i, *_ in adds], np.int64)
    return index, np.array([a[1:3] for a in adds]).reshape(-1, 2), np.array([a[3] for a in adds], np.float64)


def bits(history):
    return {
        name: value.tobytes() if isinstance(value, np.ndarray) else value
        for name, value in history.to_state().items()
    }


@COMPILED
@given(ADDS, SHAPES)
def test_each_bucket_holds_the_lists_of_its_range(adds, shape):
    history = History(NAMES, *shape)
    for index, *values, sign in adds:
        history.add(index, np.array(values), sign)
    buckets, width = shape
    last = max((index for index, *_ in adds), default=-1)
    while last >= buckets * width:
        width *= 2
    assert (history.width, history.n_lists) == (width, last + 1)
    state = history.to_state()
    for b in range(buckets):
        for j in range(len(NAMES)):
            held = [(a[1 + j], a[3]) for a in adds if a[0] // width == b and math.isfinite(a[1 + j])]
            assert state["sums"][b, j] == pytest.approx(math.fsum(v * s for v, s in held), abs=1e-12)
            assert state["counts"][b, j] == sum(s for _, s in held)


@COMPILED
@given(ADDS, SHAPES, st.integers(0, 40))
def test_batches_of_any_size_have_the_bits_of_single_adds(adds, shape, cut):
    single, batched = History(NAMES, *shape), History(NAMES, *shape)
    index, values, sign = arrays(adds)
    for i in range(len(adds)):
        single.add(int(index[i]), values[i], float(sign[i]))
    batched.add_many(index[:cut], values[:cut], sign[:cut])
    batched.add_many(index[cut:], values[cut:], sign[cut:])
    assert bits(batched) == bits(single)


@COMPILED
@given(ADDS, ADDS, SHAPES)
def test_restored_anywhere_it_goes_on_to_the_same_bits(before, after, shape):
    straight = History(NAMES, *shape)
    straight.add_many(*arrays(before))
    restored = History.from_state(NAMES, straight.to_state())
    straight.add_many(*arrays(after))
    restored.add_many(*arrays(after))
    assert bits(restored) == bits(straight)
    assert restored.totals() == pytest.approx(straight.totals(), nan_ok=True)


def test_a_value_is_taken_back_from_the_bucket_its_list_has_moved_to():
    history = History(("ndcg",), buckets=4, width=1)
    history.add(3, np.array([1.0]))
    history.add(2, np.array([0.25]))
    history.add(15, np.array([0.5]))  # width 1 -> 4: lists 2 and 3 are in bucket 0 now
    history.add(3, np.array([1.0]), sign=-1.0)
    x, means = history.series()
    assert x.tolist() == [2.0, 6.0, 10.0, 14.0]
    np.testing.assert_array_equal(means[:, 0], [0.25, math.nan, math.nan, 0.5])


def test_a_list_whose_values_were_all_taken_back_has_none():
    history = History(("ndcg",), buckets=4, width=1)
    for value in (0.1, 0.2, 0.3):  # 0.1 + 0.2 + 0.3 - 0.1 - 0.2 - 0.3 is not 0
        history.add(0, np.array([value]))
    for value in (0.1, 0.2, 0.3):
        history.add(0, np.array([value]), sign=-1.0)
    assert math.isnan(history.totals()["ndcg"])
    assert history.count("ndcg") == 0


def test_a_million_lists_fit_in_the_same_room_and_none_is_lost():
    rng = np.random.default_rng(0)
    n = 1_000_000
    values = rng.random((n, 2))
    values[rng.random(n) < 0.3, 1] = math.nan
    history = History(NAMES, buckets=256, width=16)
    size = sum(np.asarray(v).nbytes for v in history.to_state().values())
    for start in range(0, n, 9_973):
        rows = slice(start, start + 9_973)
        history.add_many(np.arange(n)[rows], values[rows], np.ones(len(values[rows])))
    assert sum(np.asarray(v).nbytes for v in history.to_state().values()) == size
    assert history.width == 4096  # the first 16 x 2^d that holds a million in 256
    assert history.count("ndcg") == n
    assert history.count("error") == np.isfinite(values[:, 1]).sum()
    assert history.totals() == pytest.approx(dict(zip(NAMES, np.nanmean(values, axis=0), strict=True)))
    x, means = history.series()
    assert len(x) == len(means) == math.ceil(n / 4096)
    np.testing.assert_allclose(means[7], np.nanmean(values[7 * 4096 : 8 * 4096], axis=0))
    assert x[7] == 7.5 * 4096
    assert x[-1] == (244 * 4096 + n) / 2  # the last bucket is not full: the middle of what it holds


def test_recent_looks_at_the_last_buckets_in_use_only():
    history = History(("ndcg",), buckets=8, width=2)
    history.add_many(np.arange(6), np.arange(6.0)[:, None], np.ones(6))
    assert history.recent(1) == {"ndcg": 4.5}
    assert history.recent(2) == {"ndcg": 3.5}
    assert history.recent(100) == history.totals() == {"ndcg": 2.5}
    history.add(7, np.array([math.nan]))  # a list without a value opens its bucket all the same
    assert math.isnan(history.recent(1)["ndcg"])


def test_an_empty_history_has_no_points_and_no_means():
    history = History(NAMES)
    x, means = history.series()
    assert (x.shape, means.shape) == ((0,), (0, 2))
    assert all(math.isnan(v) for v in history.totals().values())
    assert history.count("error") == 0


def test_a_state_is_a_copy_both_ways():
    history = History(("ndcg",))
    history.add(0, np.array([0.5]))
    state = history.to_state()
    restored = History.from_state(("ndcg",), state)
    history.add(1, np.array([1.0]))
    restored.add(1, np.array([0.0]))
    assert state["sums"].sum() == 0.5


@pytest.mark.parametrize(
    "change",
    [{"surprise": 1}, {"counts": np.zeros((2, 1))}, {"sums": np.zeros((256, 3))}, {"sums": np.zeros(2)}],
)
def test_a_foreign_state_is_refused(change):
    with pytest.raises(SnapshotError, match="history"):
        History.from_state(NAMES, History(NAMES).to_state() | change)


def test_wrong_shapes_and_numbers_are_refused_before_anything_changes():
    history = History(NAMES, buckets=2, width=1)
    before = bits(history)
    with pytest.raises(ValueError, match="list number -1"):
        history.add_many(np.array([0, -1]), np.ones((2, 2)), np.ones(2))
    with pytest.raises(ValueError, match="need values of shape"):
        history.add(0, np.ones(3))
    with pytest.raises(ValueError, match="as many signs"):
        history.add_many(np.array([0, 1]), np.ones((2, 2)), np.ones(1))
    assert bits(history) == before


@pytest.mark.parametrize("bad", [{"names": ()}, {"names": ("a", "a")}, {"buckets": 0}, {"width": 0}])
def test_bad_parameters_are_refused_at_construction(bad):
    with pytest.raises(ConfigError):
        History(**({"names": NAMES} | bad))
