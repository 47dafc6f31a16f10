"""What SONG remembers: by item, bounded, and nothing else."""

import numpy as np
import pytest

from streamrank.errors import ConfigError
from streamrank.features.batch import item_key
from streamrank.learners.comparing import frozen
from streamrank.learners.registry import build
from streamrank.learners.song import KSONG, SONG


def lists(n, queries, seed=0, shown=4, items=12):
    rng = np.random.default_rng(seed)
    for _ in range(n):
        query = f"q{rng.integers(queries)}"
        some = rng.permutation(items)[:shown]
        yield (
            query,
            [f"{query}-{i}" for i in some],
            [{"a": np.sin(3.0 * i), "b": float(i % 3)} for i in some],
            [float(i % 3) for i in some],
        )


def teach(ranker, stream):
    for query, items, xs, ys in stream:
        ranker.learn_list(xs, ys, query=query, items=items)


def known(ranker, query):
    memory = ranker.remembered(query)
    return dict(zip(memory["items"].tolist(), memory["u"].tolist(), strict=True))


def test_an_item_is_known_by_its_id_wherever_it_stands():
    ranker = SONG()
    teach(ranker, lists(60, 1))
    assert set(known(ranker, "q0")) == {item_key(f"q0-{i}") for i in range(12)}
    relevant = {item_key(f"q0-{i}") for i in range(12) if i % 3}
    assert {key for key, u in known(ranker, "q0").items() if u > 0} == relevant


def test_a_query_that_was_forgotten_starts_again_at_zero_and_nothing_else_changes():
    small, large = SONG(max_queries=2), SONG()
    xs, ys = [{"a": 1.0}, {"a": 0.0}], [1.0, 0.0]
    for query in ("one", "two", "one", "three"):
        small.learn_list(xs, ys, query=query)
        large.learn_list(xs, ys, query=query)
    with pytest.raises(KeyError):
        small.remembered("two")  # the one used longest ago
    for query in ("one", "three"):
        assert known(small, query) == known(large, query)
    # as of a query never seen, under the same weights
    again, never = SONG(max_queries=2), SONG(max_queries=2)
    for ranker in (again, never):
        ranker.from_state(small.to_state())
    again.learn_list(xs, ys, query="two")
    never.learn_list(xs, ys, query="new")
    assert known(again, "two") == known(never, "new")
    np.testing.assert_array_equal(again.to_state()["w"], never.to_state()["w"])


def test_of_too_many_items_the_first_is_forgotten():
    ranker = SONG(max_items=3)
    for k in range(5):
        ranker.learn_list([{"a": 1.0}, {"a": 0.0}], [1.0, 0.0], query="q", items=[f"i{k}", "always"])
    assert len(known(ranker, "q")) == 3


def test_ids_given_and_batches_cut_give_the_same_bits_after_a_restart():
    straight, moved = SONG(max_queries=5), SONG(max_queries=5)
    teach(straight, lists(80, 9))
    for k, lesson in enumerate(lists(80, 9)):
        teach(moved, [lesson])
        if k % 7 == 0:
            state = moved.to_state()
            moved = SONG(max_queries=5)
            moved.from_state(state)
    assert frozen(straight.to_state()) == frozen(moved.to_state())


def test_limits_that_were_lowered_are_reached_and_the_store_is_told():
    ranker = SONG()
    teach(ranker, lists(80, 9))
    state, last = ranker.to_state(), [query for query, *_ in lists(80, 9)]
    small = SONG(max_queries=3, max_items=5)
    small.from_state(state)
    kept = {f"u/{query}" for query in list(dict.fromkeys(reversed(last)))[:3]}
    now = {name: entry for name, entry in small.to_state().items() if name.startswith("u/")}
    assert set(now) == kept
    for name, (_, _, items, u) in now.items():
        np.testing.assert_array_equal(items, state[name][2][:5])
        np.testing.assert_array_equal(u, state[name][3][:5])
    names = small.dirty()
    assert {name for name in names if name.startswith("u/")} == {f"u/q{k}" for k in range(9)}
    assert {name for name in small.entries(names) if name.startswith("u/")} == kept


def test_a_commit_names_only_the_queries_that_were_used():
    ranker = SONG()
    teach(ranker, lists(200, 50))
    ranker.dirty()
    teach(ranker, [("q3", ["a", "b"], [{"a": 1.0}, {"a": 0.0}], [1.0, 0.0])])
    names = ranker.dirty()
    assert [name for name in names if name.startswith("u/")] == ["u/q3"]
    assert set(ranker.entries(names)) == set(names)


def test_merging_unites_what_both_remember():
    one, two = SONG(), SONG()
    teach(one, lists(40, 3, seed=1))
    teach(two, lists(40, 6, seed=2))
    mine, theirs = (
        {q: known(one, q) for q in ("q0", "q1", "q2")},
        {f"q{k}": known(two, f"q{k}") for k in range(6)},
    )
    best = {q: max(ranker.remembered(q)["Z"] for ranker in (one, two)) for q in mine}
    one.merge(two)
    for query in theirs:
        assert known(one, query) == {**theirs[query], **mine.get(query, {})}
    assert {q: one.remembered(q)["Z"] for q in mine} == best


def test_merging_takes_from_the_other_shard_what_is_not_known_of_a_query_here():
    one, two = KSONG(k=3), KSONG(k=3)
    one.learn_list(
        [{"a": 1.0}, {"a": 0.0}], [1.0, 0.0], query="q0"
    )  # no more items than places: no threshold
    teach(two, lists(40, 1))
    there = two.remembered("q0")
    one.merge(two)
    assert [one.remembered("q0")[name] for name in ("lam", "s", "Z")] == [there[n] for n in ("lam", "s", "Z")]


def test_a_list_without_a_query_leaves_no_trace_in_the_memory():
    ranker = SONG()
    for _ in range(5):
        ranker.learn_list([{"a": 1.0}, {"a": 0.0}], [1.0, 0.0], items=["x", "y"])
        ranker.learn_pair({"a": 1.0}, {"a": 0.0})
    assert not [name for name in ranker.to_state() if name.startswith("u/")]
    assert ranker.predict_one({"a": 1.0}) > 0


def test_ksong_keeps_a_threshold_by_query():
    ranker = KSONG(k=3)
    teach(ranker, lists(300, 2))
    memory = ranker.remembered("q0")
    assert np.isfinite(memory["lam"])
    assert memory["s"] > 0
    all_in = KSONG(k=100)
    teach(all_in, lists(50, 2))
    assert np.isnan(all_in.remembered("q0")["lam"])  # never more items than places


@pytest.mark.parametrize(
    ("learner", "params", "message"),
    [
        ("song", {"margin": 0.0}, "margin"),
        ("song", {"gamma": 1.5}, "at most 1"),
        ("song", {"max_queries": 0}, "max_queries"),
        ("song", {"max_items": 1}, "max_items"),
        ("song", {"optimiser": "sgd"}, "adam or momentum"),
        ("ksong", {"k": 0}, "k is 0"),
        ("ksong", {"practical": 1}, "practical"),
        ("approxndcg", {"temperature": 0}, "temperature"),
        ("song", {"max_items": 10**30}, "max_items is 10+: at most"),
        ("ranknet", {"horizon": 10**30}, "horizon is 10+: at most"),
        ("ranknet", {"hidden": 10**9}, "hidden is 10+: at most 4096"),
    ],
)
def test_bad_parameters_are_refused(learner, params, message):
    with pytest.raises(ConfigError, match=message):
        build(learner, params)


def test_ids_that_do_not_match_the_items_are_refused():
    with pytest.raises(ValueError, match="2 items came with 1 ids"):
        SONG().learn_list([{}, {}], [1.0, 0.0], items=["a"])
