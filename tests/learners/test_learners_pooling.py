"""Shards that pool: items are where the steps of all lead, users and clicks stay each shard's own."""

import copy

import numpy as np
import pytest

from streamrank.kernels.factors import CLICKS
from streamrank.learners.comparing import commit_to, frozen
from streamrank.learners.latent import RoBiRankMF
from streamrank.state.values import decode, encode

TASTES, USERS, ITEMS = 6, 240, 120


def clicks(n, seed=0):
    """Users like the items of their taste, some more than others."""
    rng = np.random.default_rng(seed)
    users = rng.integers(0, USERS, n)
    popular = np.minimum(rng.geometric(0.12, n) - 1, ITEMS // TASTES - 1)
    return users, TASTES * popular + users % TASTES


def names(users, items):
    return [f"u{k}" for k in users], [f"i{k}" for k in items]


def shards_of(n_shards, n=1500, **params):
    """Shards by user that have learnt apart."""
    users, items = clicks(n)
    shards = [RoBiRankMF(**{"d": 4, "negatives": 8, **params}) for _ in range(n_shards)]
    for k, shard in enumerate(shards):
        mine = users // TASTES % n_shards == k
        shard.learn_batch(*names(users[mine], items[mine]))
    return shards


def pooled(shards):
    """All at the same moment."""
    said = [shard.taught() for shard in shards]
    for k, shard in enumerate(shards):
        assert shard.pool(said[:k] + said[k + 1 :])
    return shards


def in_turn(shards, k):
    """One alone, from the others as they are."""
    return shards[k].pool([shard.taught() for shard in shards[:k] + shards[k + 1 :]])


def merged(shards):
    served = RoBiRankMF(**shards[0]._get_params())
    for shard in shards:
        served.merge(shard)
    return served


def rows_of(ranker):
    return {key: ranker.factors_of([], [key])[1][0] for key in ranker._tables.items.ids if key is not None}


def clicks_of(ranker):
    tables = ranker._tables
    return {key: tables.arrays.item_marks[row, CLICKS] for row, key in enumerate(tables.items.ids) if key}


def steps_of(ranker):
    """What its own steps came to of each item, less what is typical of them."""
    tables, d = ranker._tables, ranker.d
    rows = {key: row for row, key in enumerate(tables.items.ids) if key is not None}
    other = tables.elsewhere["items"].rows
    own = (tables.arrays.items - tables.starts("items") - (other if len(other) else 0.0))[:, : d + 1]
    rarely = {key: 1.0 / max(tables.arrays.item_marks[row, CLICKS], 1) for key, row in rows.items()}
    typical = sum(rarely[key] * own[row] for key, row in rows.items()) / sum(rarely.values())
    return {key: own[row] - typical for key, row in rows.items()}


@pytest.mark.parametrize("n_shards", [2, 4])
def test_all_shards_have_the_same_items_and_the_served_merge_has_them_too(n_shards):
    shards = pooled(shards_of(n_shards))
    served = rows_of(merged(shards))
    for shard in shards:
        mine = rows_of(shard)
        assert mine.keys() == served.keys()
        for key, row in mine.items():
            np.testing.assert_allclose(row, served[key], atol=1e-12)


def test_a_row_is_its_beginning_and_the_steps_of_every_shard_once():
    shards = shards_of(3)
    steps = [steps_of(shard) for shard in shards]
    for _ in range(2):  # again: nothing counts twice
        for shard in pooled(shards):
            starts = shard._tables.starts("items")[:, : shard.d + 1]
            for key, row in rows_of(shard).items():
                start = starts[shard._tables.items.find(key)]
                together = sum(found[key] for found in steps if key in found)
                np.testing.assert_allclose(row, start + together, atol=1e-12)


@pytest.mark.parametrize("fields", [None, ["genre"]])
def test_the_merge_has_every_step_once_whatever_each_shard_has_taken_in_so_far(fields):
    apart = shards_of(3, fields=fields)
    if fields:
        for shard in apart:
            described(shard)
    shards = pooled(apart)
    for k, shard in enumerate(shards[:2]):
        users, items = clicks(300, seed=k + 1)
        shard.learn_batch(*names(users, items))
    behind = [merged(order) for order in (shards, shards[::-1])]
    pooled(shards)
    same = list(rows_of(shards[0]))
    for served in (*behind, merged(shards)):
        there, here = (ranker.factors_of([], same)[1] for ranker in (served, shards[0]))
        apart_by = there - here  # the same in all items, so that no order differs
        np.testing.assert_allclose(apart_by, np.broadcast_to(apart_by[0], apart_by.shape), atol=1e-9)


def test_clicks_squared_gradients_and_users_stay_a_shards_own():
    shards = shards_of(2)
    before = copy.deepcopy(shards)
    pooled(shards)
    for was, now in zip(before, shards, strict=True):
        for name in ("users", "user_marks"):
            np.testing.assert_array_equal(was.to_state()[name], now.to_state()[name])
        known = clicks_of(was)
        assert {key: n for key, n in clicks_of(now).items() if key in known} == known
        rows = [was._tables.items.find(key) for key in known]
        np.testing.assert_array_equal(
            was._tables.arrays.items[rows][:, was._tables.squares["items"]],
            now._tables.arrays.items[rows][:, now._tables.squares["items"]],
        )
        assert was._generator == now._generator
    assert sum(clicks_of(merged(shards)).values()) == 1500


def test_an_item_known_only_elsewhere_is_ranked_and_drawn_and_has_no_click_here():
    one, two = (RoBiRankMF(d=4, negatives=4) for _ in range(2))
    one.learn_batch(["a"] * 40, ["x", "y"] * 20)
    two.learn_batch(["b"] * 60, ["x", "y", "z"] * 20)
    two._tables.item("never")  # has a row and no click
    assert one.pool([two.taught()])
    assert set(one.recommend("a", 9)) == {"x", "y", "z"}
    row = one._tables.items.find("z")
    assert one._tables.arrays.item_marks[row].tolist() == [0, 0]
    assert one._tables.standing.tolist() == [3, 3]
    assert one.place_of("a", "z") >= 0
    before = rows_of(one)["z"].copy()
    one.learn_batch(["a"] * 20, ["x", "y"] * 10)
    assert (rows_of(one)["z"] != before).any()  # it was drawn


def test_pooling_again_without_clicks_changes_nothing_in_any_order():
    shards = shards_of(3)
    pooled(shards)
    before = [rows_of(shard) for shard in shards]
    for k in (1, 0, 2, 2, 1):  # one after the other: none is drawn to what it read before
        in_turn(shards, k)
    for was, shard in zip(before, shards, strict=True):
        for key, row in rows_of(shard).items():
            np.testing.assert_allclose(row, was[key], atol=1e-12)


def test_a_shard_that_stands_still_holds_nobody_back():
    one, still = shards_of(2)
    pooled([one, still])  # what all V have in common changes no order
    alone = copy.deepcopy(one)
    for seed in range(20):
        users, items = clicks(50, seed)
        for ranker in (one, alone):
            ranker.learn_batch(*names(users, items))
        one.pool([still.taught()])
    apart = np.array([row - rows_of(alone)[key] for key, row in rows_of(one).items()])
    np.testing.assert_allclose(apart, apart[:1].repeat(len(apart), axis=0), atol=1e-9)
    assert one.recommend("u5", 20) == alone.recommend("u5", 20)


def test_the_same_was_read_the_same_bits_follow():
    one, two = (pooled(shards_of(3)) for _ in range(2))
    assert [frozen(shard.to_state()) for shard in one] == [frozen(shard.to_state()) for shard in two]


@pytest.mark.parametrize("params", [{}, {"fields": ["genre"]}, {"max_items": 40}])
def test_a_stored_shard_that_pools_goes_on_to_the_same_bits(params):
    shards = shards_of(2, **params)
    straight = described(shards[0]) if "fields" in params else shards[0]
    straight.pool([shards[1].taught()])
    stored = RoBiRankMF(**{"d": 4, "negatives": 8, **params})
    stored.from_state({key: decode(encode(value)) for key, value in straight.to_state().items()})
    for ranker in (straight, stored):
        ranker.learn_batch(*names(*clicks(300, seed=1)))
        ranker.pool([shards[1].taught()])
        ranker.learn_batch(*names(*clicks(300, seed=2)))
    assert frozen(straight.to_state()) == frozen(stored.to_state())


@pytest.mark.parametrize("params", [{}, {"max_items": 40}])
def test_what_dirty_names_is_all_that_changed(params):
    one, two = shards_of(2, **params)
    mirror = {}
    commit_to(one, mirror)
    for seed in range(3):
        one.learn_batch(*names(*clicks(200, seed)))
        one.pool([two.taught()])
        commit_to(one, mirror)
        one.learn_batch(*names(*clicks(200, seed + 10)))
        commit_to(one, mirror)


def test_a_shard_that_never_pooled_stores_nothing_of_it():
    (ranker,) = shards_of(1)
    assert not any("elsewhere" in key for key in ranker.to_state())


def test_tables_stay_bounded_and_what_is_evicted_takes_nothing_along():
    shards = shards_of(3, max_items=24, max_users=50)
    for seed in range(12):
        for k, shard in enumerate(pooled(shards)):
            users, items = clicks(90, seed)
            mine = users // TASTES % 3 == k
            shard.learn_batch(*names(users[mine], items[mine]))
            tables = shard._tables
            assert len(tables.items) <= 24
            assert tables.standing[0] == len(tables.items)
            free = [row for row, key in enumerate(tables.items.ids) if key is None]
            assert not tables.elsewhere["items"].rows[free].any()
            assert np.isfinite(tables.arrays.items).all()
            assert np.abs(tables.arrays.items[:, :5]).max() < 20


def test_where_there_is_little_room_the_most_clicked_come_first_and_are_the_first_to_go():
    one, two = (RoBiRankMF(d=4, negatives=4, max_items=16) for _ in range(2))
    one.learn_batch(["a"] * 15, [f"own{k}" for k in range(14)] + ["own0"])
    two.learn_batch(["b"] * 21, ["rare", "often", "often", "some", "often", "some", "often"] * 3)
    one.pool([two.taught()])
    assert len(one._tables.items) == 16
    assert {key for key in ("rare", "some", "often") if one._tables.items.find(key) >= 0} == {"some", "often"}
    one.learn_one("a", "new")  # one of sixteen goes
    assert all(one._tables.items.find(f"own{k}") >= 0 for k in range(14))


def test_an_item_evicted_here_comes_back_from_where_it_is_clicked_and_from_nowhere_else():
    one, two = (RoBiRankMF(d=4, negatives=4, max_items=16) for _ in range(2))
    one.learn_batch(["a"] * 16, [f"i{k}" for k in range(16)])
    two.pool([one.taught()])
    two.learn_batch(["b"] * 4, ["i1", "i2"] * 2)
    one.learn_batch(["a"] * 2, ["j0", "j1"])  # i0 and i1 go
    assert one._tables.items.find("i1") < 0
    one._tables.items.limit = 40
    one.pool([two.taught()])
    assert one._tables.items.find("i1") >= 0
    assert one._tables.items.find("i0") < 0  # two has it without a click: from here
    added = one._tables.elsewhere["items"].rows[one._tables.items.find("i1"), :5]
    np.testing.assert_allclose(added, steps_of(two)["i1"], atol=1e-12)


def test_a_state_that_may_not_grow_so_far_takes_fewer_rows_or_none():
    def sizes(ranker):
        return sum(len(encode(value)) for value in ranker.to_state().values())

    one, two = (RoBiRankMF(d=4, negatives=4) for _ in range(2))
    one.learn_batch(["a"] * 16, [f"i{k}" for k in range(16)])
    two.learn_batch(["b"] * 400, [f"j{k}" for k in range(400)])
    before, was = sizes(one), frozen(one.to_state())
    assert not one.pool([two.taught()], 1000)
    assert frozen(one.to_state()) == was
    for room in (5_000, 20_000, 40_000, 500_000):
        ranker = copy.deepcopy(one)
        assert ranker.pool([two.taught()], room)
        assert sizes(ranker) - before <= room
    assert len(ranker._tables.items) == 416


def described(ranker):
    for k in range(ITEMS):
        ranker.describe_item(f"i{k}", {"genre": f"g{k % TASTES}"})
    return ranker


def test_traits_are_pooled_as_items_are_and_who_is_bare_here_has_those_from_there():
    one, two = (RoBiRankMF(d=4, negatives=8, fields=["genre"]) for _ in range(2))
    described(two)
    one.describe_item("i1", {"genre": "mine"})
    users, items = clicks(1500)
    half = users // TASTES % 2 == 0
    one.learn_batch(*names(users[half], items[half]))
    two.learn_batch(*names(users[~half], items[~half]))
    pooled([one, two])
    assert one._tables.traits_of("items", "i0") == ["items\tgenre\tg0"]
    assert one._tables.traits_of("items", "i1") == ["items\tgenre\tmine"]
    a, b = one._tables, two._tables
    for name in a.traits.ids:
        found = [t.arrays.traits[t.traits.find(name), :5] for t in (a, b)]
        np.testing.assert_allclose(*found, atol=1e-12)
    assert a.arrays.trait_marks[a.traits.find("items\tgenre\tg0"), CLICKS] == 0
    one.learn_batch(*names(*clicks(300, seed=1)))
    assert np.isfinite(one.to_state()["traits"]).all()


def test_what_is_merged_pools_as_one_that_never_had():
    shards = pooled(shards_of(2))
    served = merged(shards)
    assert not served._tables.elsewhere["items"].rows.any()


def quality(ranker):
    """Of the first ten, those of a user's taste."""
    return np.mean(
        [[int(item[1:]) % TASTES == user % TASTES for item in ranker.recommend(f"u{user}", 10)]
         for user in range(USERS)]
    )  # fmt: skip


def streamed(n_shards, every, how):
    users, items = clicks(2000)
    shards = [RoBiRankMF(d=8, recent=0) for _ in range(n_shards)]
    for start in range(0, len(users), every):
        part = slice(start, start + every)
        for k, shard in enumerate(shards):
            mine = users[part] // TASTES % n_shards == k
            shard.learn_batch(*names(users[part][mine], items[part][mine]))
            if how == "in turn":
                in_turn(shards, k)
        if how == "at once":
            pooled(shards)
    return quality(merged(shards))


@pytest.mark.parametrize("n_shards", [2, 4])
@pytest.mark.parametrize("how", ["at once", "in turn"])
def test_shards_that_pool_often_serve_as_one_shard_does_and_far_better_than_apart(n_shards, how):
    one, apart = streamed(1, 2000, ""), streamed(n_shards, 2000, "")
    assert one - apart > 0.15
    assert streamed(n_shards, 20, how) > one - 0.02  # .96 .96 of one, .76 and .63 apart
    assert streamed(n_shards, 200, how) > one - 0.08
    assert streamed(n_shards, 1000, how) > apart
