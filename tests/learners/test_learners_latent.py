import copy
import time

import numpy as np
import pytest
import river.checks

from streamrank.errors import ConfigError
from streamrank.learners.comparing import commit_to, frozen
from streamrank.learners.latent import RoBiRankMF
from streamrank.state.values import decode, encode


def clicks(n=600, n_users=30, n_items=40, seed=0):
    """Two tastes: even users like even items."""
    rng = np.random.default_rng(seed)
    users = rng.integers(0, n_users, n)
    items = 2 * rng.integers(0, n_items // 2, n) + users % 2
    return [f"u{k}" for k in users], [f"i{k}" for k in items]


def taught(**params):
    ranker = RoBiRankMF(**{"d": 4, "negatives": 8, **params})
    ranker.learn_batch(*clicks())
    return ranker


SMALL = {"max_users": 12, "max_items": 16}


@pytest.mark.parametrize(
    "params", [{}, {"loss": "bpr"}, SMALL, {"average": 0.3, "half_life": 50, "ridge": 0.01}, {"recent": 0}]
)
def test_a_batch_is_the_same_bits_as_one_at_a_time_however_cut(params):
    users, items = clicks()
    whole, ones, cut = (RoBiRankMF(d=4, negatives=8, **params) for _ in range(3))
    whole.learn_batch(users, items)
    for user, item in zip(users, items, strict=True):
        ones.learn_one(user, item, True)
    for k in range(0, 600, 37):
        cut.learn_batch(users[k : k + 37], items[k : k + 37])
    assert frozen(whole.to_state()) == frozen(ones.to_state()) == frozen(cut.to_state())


@pytest.mark.parametrize("params", [{}, SMALL])
def test_a_stored_learner_goes_on_to_the_same_bits(params):
    users, items = clicks()
    straight = RoBiRankMF(d=4, negatives=8, **params)
    straight.learn_batch(users, items)
    first = RoBiRankMF(d=4, negatives=8, **params)
    first.learn_batch(users[:301], items[:301])
    second = RoBiRankMF(d=4, negatives=8, **params)
    second.from_state({key: decode(encode(value)) for key, value in first.to_state().items()})
    second.learn_batch(users[301:], items[301:])
    assert frozen(straight.to_state()) == frozen(second.to_state())


@pytest.mark.parametrize("params", [{}, SMALL])
def test_what_dirty_names_is_all_that_changed(params):
    users, items = clicks(n_users=9000, n=12_000, n_items=60)
    ranker, mirror = RoBiRankMF(d=2, negatives=2, **params), {}
    for k in range(0, 12_000, 3000):
        ranker.learn_batch(users[k : k + 3000], items[k : k + 3000])
        commit_to(ranker, mirror)


def test_a_click_makes_only_its_blocks_dirty():
    ranker = RoBiRankMF(d=2, negatives=2)
    ranker.learn_batch([f"u{k}" for k in range(9000)], ["a", "b", "c"] * 3000)
    ranker.dirty()
    ranker.learn_one("u5000", "a", 1.0)
    dirty = ranker.dirty()
    assert dirty["users"] == [1]
    assert not any(name.startswith(("user_ids/", "item_ids/")) for name in dirty)


def test_predicting_changes_nothing():
    ranker = taught()
    before = frozen(ranker.to_state())
    ranker.predict_one("nobody", "nothing")
    ranker.predict_one("u1", "nothing")
    ranker.rank("nobody", {"i1", "nothing"})
    ranker.recommend("nobody", 5)
    assert frozen(ranker.to_state()) == before
    ranker.dirty()
    assert not set(ranker.dirty()) & {"users", "items"}


def test_it_learns_who_likes_what():
    ranker = taught()
    for user in range(6):
        top = ranker.recommend(f"u{user}", 10)
        assert sum(int(item[1:]) % 2 == user % 2 for item in top) >= 9
        assert ranker.rank(f"u{user}", set(top))[0] == top[0]


def test_recommend_is_the_full_sort():
    ranker = taught()
    best = sorted(ranker._tables.items.ids, key=lambda item: -ranker.predict_one("u3", item))
    assert ranker.recommend("u3", 7) == best[:7]
    assert ranker.recommend("u3", 7, exclude=best[:2]) == best[2:9]
    assert len(ranker.recommend("u3", 1000)) == len(best)


def test_a_newcomer_is_served_what_is_popular():
    ranker = RoBiRankMF(d=4)
    for k in range(400):
        ranker.learn_one(f"u{k % 50}", f"i{k % 20}", 1.0)
        ranker.learn_one(f"u{k % 50}", "hit", 1.0)
    assert ranker.recommend("nobody", 1) == ["hit"]
    ranker.learn_one("u1", "cold", 1.0)
    assert ranker.predict_one("nobody", "cold") < ranker.predict_one("nobody", "hit")


def test_the_tables_stay_bounded_and_keep_the_newest():
    ranker = RoBiRankMF(d=2, negatives=2, max_users=32, max_items=32)
    for k in range(500):
        ranker.learn_one(f"u{k}", f"i{k}", 1.0)
    assert len(ranker._tables.users) <= 32
    assert len(ranker._tables.items) <= 32
    assert len(ranker._tables.arrays.users) == len(ranker._tables.arrays.items) == 32
    assert ranker._tables.users.find("u499") >= 0
    assert ranker._tables.users.find("u0") < 0
    assert "i0" not in ranker.recommend("u499", 100)


@pytest.mark.parametrize("workers", [1, 2, 3])
def test_strata_in_threads_are_the_serial_run_of_the_same_schedule(workers):
    runs = []
    for threads in (True, False):
        ranker = RoBiRankMF(d=4, negatives=8)
        ranker.fit(*clicks(), passes=4, workers=workers, threads=threads)
        runs.append(frozen(ranker.to_state()))
    assert runs[0] == runs[1]


def test_strata_reach_what_one_worker_reaches():
    def mean_rank(workers):
        ranker = RoBiRankMF(d=4, negatives=8, rate=0.3)
        ranker.fit(*clicks(), passes=6, workers=workers)
        top = [ranker.recommend(f"u{user}", 10) for user in range(30)]
        return np.mean([[int(item[1:]) % 2 == user % 2 for item in top[user]] for user in range(30)])

    assert mean_rank(1) > 0.95
    assert mean_rank(3) > 0.95


def test_merging_takes_the_union_of_users_and_the_mean_of_items_by_clicks():
    one, two = RoBiRankMF(d=2), RoBiRankMF(d=2)
    one.learn_batch(["a", "a", "a"], ["x", "x", "y"])
    two.learn_batch(["b", "b"], ["x", "z"])
    x1, x2 = one.factors_of([], ["x"])[1][0], two.factors_of([], ["x"])[1][0]
    z, b = two.factors_of(["b"], ["z"])[1], two._tables.arrays.users[0].copy()
    one.merge(two)
    np.testing.assert_allclose(one.factors_of([], ["x"])[1][0], x1 + (x2 - x1) / 3)
    np.testing.assert_array_equal(one._tables.arrays.users[one._tables.users.find("b")], b)
    marks = one._tables.arrays.user_marks[one._tables.users.find("b")]
    assert [one._tables.items.ids[row] for row in marks[2:4]] == ["z", "x"]
    assert one._tables.arrays.item_marks[one._tables.items.find("z")].tolist() == [1, 1]
    assert set(one.recommend("b", 9)) == {"x", "y", "z"}
    assert np.isfinite(z).all()
    before = frozen(one.to_state())
    one.merge(RoBiRankMF(d=2))
    assert frozen(one.to_state()) == before


def test_prequential_ranks_before_it_learns_and_learns_the_same():
    users, items = clicks()
    one, two = RoBiRankMF(d=4), RoBiRankMF(d=4)
    ranked = one.prequential(users, items)
    two.learn_batch(users, items)
    assert frozen(one.to_state()) == frozen(two.to_state())
    assert ranked[0] == -1
    assert ranked[-100:][ranked[-100:] >= 0].mean() < 15  # of 40, half of them the other taste's


def test_ranks_among_all_are_those_of_the_full_sort_before_learning():
    users, items = clicks(n=200)
    one, two = RoBiRankMF(d=4, recent=3), RoBiRankMF(d=4, recent=3)
    ranked = one.learn_batch(users, items, among=1000)
    mine = {user: [] for user in users}
    for user, item, rank in zip(users, items, ranked, strict=True):
        known = two._tables.items.ids
        if item in known:
            order = two.recommend(user, 1000, exclude=[just for just in mine[user] if just != item])
            assert order.index(item) == rank
        else:
            assert rank == -1
        two.learn_one(user, item)
        if mine[user][:1] != [item]:
            mine[user] = [item, *mine[user][:2]]
    assert frozen(one.to_state()) == frozen(two.to_state())


def test_ranks_among_a_sample_change_nothing_and_do_not_depend_on_the_batch():
    users, items = clicks()
    one, two = RoBiRankMF(d=4), RoBiRankMF(d=4)
    whole = one.learn_batch(users, items, among=10)
    cut = [two.learn_batch(users[k : k + 37], items[k : k + 37], among=10) for k in range(0, 600, 37)]
    assert whole.tolist() == np.concatenate(cut).tolist()
    assert -1 <= whole.min() < whole.max() <= 10
    assert frozen(one.to_state()) == frozen(two.to_state())


def test_an_evicted_item_is_nobodys_last_click():
    ranker = RoBiRankMF(d=2, negatives=2, recent=3, max_items=16)
    ranker.learn_one("fan", "old", 1.0)
    before = ranker.factors_of(["fan"], [])[0]
    for k in range(40):
        ranker.learn_one(f"u{k}", f"i{k}", 1.0)
    assert ranker._tables.items.find("old") < 0
    assert (ranker._tables.arrays.user_marks[ranker._tables.users.find("fan"), 2:] == -1).all()
    assert (ranker.factors_of(["fan"], [])[0] == before).all()  # it had no W yet, and has no stranger's now


def test_what_a_user_is_at_counts_beside_what_the_user_likes():
    # everybody likes everything, but one evening goes through one shelf
    rng = np.random.default_rng(5)
    pairs = []
    for night in range(400):
        shelf = rng.integers(0, 4)
        pairs += [(f"u{night % 20}", f"s{shelf}-{k}") for k in rng.permutation(10)[:5]]
    users, items = map(list, zip(*pairs, strict=True))
    hits = []
    for recent in (0, 3):
        ranked = RoBiRankMF(d=8, recent=recent).learn_batch(users, items, among=1000)
        hits.append(np.mean(ranked[1000:] < 5))
    assert hits[1] > hits[0] + 0.1


def test_clicks_of_no_weight_teach_nothing():
    ranker = taught()
    before = frozen(ranker.to_state())
    for y in (0.0, -1.0, float("nan"), False):
        ranker.learn_one("new", "new", y)
    assert frozen(ranker.to_state()) == before


def test_a_click_too_heavy_to_be_squared_teaches_nothing():
    ranker = taught()
    before = frozen(ranker.to_state())
    ranker.learn_one("u1", "i1", 1e308)
    ranker.learn_batch(["u1", "u2"], ["i1", "i2"], [1e308, float("inf")])
    assert frozen(ranker.to_state()) == before
    ranker.learn_batch(["u1", "u2"], ["i1", "i2"], [1e100, 1e100])
    assert np.isfinite(ranker._tables.arrays.items).all()
    assert np.isfinite(ranker._tables.arrays.users).all()


@pytest.mark.parametrize("key", [None, float("nan"), ("a", 1), 2**64, -(2**64)])
def test_an_id_that_a_store_would_not_give_back_is_refused(key):
    for user, item in ((key, "i1"), ("u1", key)):
        ranker = taught()
        with pytest.raises(ValueError, match="is no id"):
            ranker.learn_one(user, item)
        with pytest.raises(ValueError, match="is no id"):
            ranker.learn_batch([user], [item])
        with pytest.raises(ValueError, match="is no id"):
            ranker.fit([user], [item])


def test_ids_of_every_kind_are_the_same_once_stored():
    keys = ["", "a" * 10_000, b"a", 1, "1", -(2**63), 1.5, np.int64(7)]
    one, two = RoBiRankMF(d=2), RoBiRankMF(d=2)
    one.learn_batch(keys, keys[::-1])
    two.from_state({name: decode(encode(value)) for name, value in one.to_state().items()})
    for ranker in (one, two):
        ranker.learn_batch(keys[::-1], keys)
    assert frozen(one.to_state()) == frozen(two.to_state())
    assert len(two.recommend("", 20)) == len(keys)


@pytest.mark.parametrize("as_numpy", [np.str_, np.int64, np.float64])
def test_a_numpy_scalar_is_the_id_that_a_store_gives_back(as_numpy):
    one, two = RoBiRankMF(d=4), RoBiRankMF(d=4)
    for user, item in [(1, 5), (2, 6), (1, 7)]:
        user, item = as_numpy(user), as_numpy(item)
        one.learn_one(user, item)
        two.learn_one(user.item(), item.item())
    assert frozen(one.to_state()) == frozen(two.to_state())


OTHERS = [{"d": 3}, {"d": 16}, {"recent": 0}, {"recent": 20}, {"fields": None}]


@pytest.mark.parametrize("others", OTHERS, ids=str)
def test_a_state_whose_rows_are_of_another_shape_is_refused(others):
    old = taught(fields=["genre"])
    new = RoBiRankMF(**{"d": 4, "fields": ["genre"], **others})
    with pytest.raises(ConfigError, match="another shape"):
        new.from_state(old.to_state())


def test_traits_of_fewer_rows_than_there_are_users_are_refused():
    plain, described = taught(), RoBiRankMF(d=4, fields=["genre"])
    old = described.to_state() | plain.to_state()  # learnt with fields, and then on without
    with pytest.raises(ConfigError, match="another shape"):
        described.from_state(old)


def test_counts_that_make_no_sense_are_refused():
    ranker = taught()
    for call in (
        lambda: ranker.recommend("u1", -1),
        lambda: ranker.recommend("u1", 2.5),
        lambda: ranker.fit(["u1"], ["i1"], passes=-1),
        lambda: ranker.fit(["u1"], ["i1"], workers=0),
    ):
        with pytest.raises(ConfigError, match="whole number"):
            call()
    assert ranker.recommend("u1", 0) == []


def test_copies_and_clones():
    ranker = taught()
    two = copy.deepcopy(ranker)
    two.learn_one("u1", "i1", 1.0)
    assert frozen(two.to_state()) != frozen(ranker.to_state())
    assert ranker.clone().d == 4
    assert isinstance(ranker, river.reco.base.Ranker)


@pytest.mark.parametrize(
    "bad",
    [
        {"d": 0},
        {"negatives": 1.5},
        {"rate": 0.0},
        {"loss": "warp"},
        {"average": 0.0},
        {"max_items": 2},
        {"recent": -1},
        {"rate": "fast"},
        {"half_life": float("nan")},
        {"ridge": float("nan")},
        {"rate": 2.0, "ridge": 0.6},
        {"average": 1.5},
        {"seed": 2**63},
    ],
)
def test_bad_parameters_are_refused_at_once(bad):
    with pytest.raises(ConfigError, match=list(bad)[-1]):
        RoBiRankMF(**bad)


def test_recommending_from_many_items_is_quick():
    ranker = RoBiRankMF(negatives=1)
    ranker.learn_batch(["u"] * 100_000, np.arange(100_000))
    best = min(_timed(lambda: ranker.recommend("u", 10)) for _ in range(5))
    assert best < 0.05  # measured at 1 to 3 ms; room for a busy machine


def _timed(call):
    began = time.perf_counter()
    call()
    return time.perf_counter() - began


# -- traits ------------------------------------------------------------------------------------------------

FIELDS = ["colour", "shape", "club"]


def described(ranker, start=0, stop=600):
    """Clicks of `clicks`, and before every tenth what is known of its item and its user."""
    users, items = clicks()
    for t in range(start, stop):
        if t % 10 == 0:
            number = int(items[t][1:])
            ranker.describe_item(items[t], {"colour": number % 2, "shape": ["round", f"s{t % 7}"], "x": t})
            ranker.describe_user(users[t], {"club": f"c{int(users[t][1:]) % 2}"})
        ranker.learn_one(users[t], items[t])
    return ranker


def with_traits(**params):
    return RoBiRankMF(**{"d": 4, "negatives": 8, "fields": FIELDS, **params})


@pytest.mark.parametrize("params", [{}, {**SMALL, "max_traits": 16}, {"recent": 0, "half_life": 50}])
def test_traits_are_learnt_and_stored_to_the_same_bits_however_cut(params):
    straight = described(with_traits(**params))
    cut = with_traits(**params)
    users, items = clicks()
    for t in range(0, 600, 10):
        number = int(items[t][1:])
        cut.describe_item(items[t], {"shape": ["round", f"s{t % 7}"], "colour": number % 2, "y": 1})
        cut.describe_user(users[t], {"club": f"c{int(users[t][1:]) % 2}"})
        cut.learn_batch(users[t : t + 10], items[t : t + 10])
    assert frozen(straight.to_state()) == frozen(cut.to_state())
    first = described(with_traits(**params), stop=305)
    second = with_traits(**params)
    second.from_state({key: decode(encode(value)) for key, value in first.to_state().items()})
    assert frozen(described(second, start=305).to_state()) == frozen(straight.to_state())


def test_what_dirty_names_of_traits_is_all_that_changed():
    ranker, mirror = with_traits(max_traits=16), {}
    for start in range(0, 600, 50):
        described(ranker, start, start + 50)
        commit_to(ranker, mirror)  # which compares


def test_later_fields_replace_those_of_the_same_name():
    ranker = with_traits()
    ranker.describe_item("a", {"colour": "red", "shape": ["round", "flat"], "price": 3})
    assert not ranker.is_news("items", "a", {"colour": "red", "price": 4})
    ranker.describe_item("a", {"shape": "square"})
    names = ranker._tables.traits_of("items", "a")
    assert names == ["items\tcolour\tred", "items\tshape\tsquare"]
    ranker.describe_item("a", {"colour": [], "shape": []})
    assert ranker._tables.traits_of("items", "a") == []


def test_an_item_that_nobody_has_clicked_is_served_by_its_traits():
    ranker = with_traits(fields=["colour"])
    users, items = clicks()
    for item in items:
        ranker.describe_item(item, {"colour": int(item[1:]) % 2})
    ranker.describe_item("new even", {"colour": 0})
    ranker.describe_item("new odd", {"colour": 1})
    ranker.learn_batch(users, items)
    before = frozen(ranker.to_state())
    for user in set(users):
        best = ranker.rank(user, ["new odd", "new even"])[0]
        assert best == ("new odd" if int(user[1:]) % 2 else "new even")
    everything = ranker.recommend("u0", 1000)
    assert set(everything) == {*items, "new even", "new odd"}
    assert everything.index("new even") < everything.index("new odd")
    scores = ranker.scores("u0", everything)
    assert np.all(np.diff(scores) <= 1e-12)
    assert frozen(ranker.to_state()) == before


def test_who_has_not_clicked_is_served_by_their_traits():
    ranker = with_traits(fields=["club"])
    users, items = clicks(n=2000)
    for user in users:
        ranker.describe_user(user, {"club": int(user[1:]) % 2})
    ranker.learn_batch(users, items)
    for club in (0, 1):
        ranker.describe_user(f"new {club}", {"club": club})
        best = ranker.recommend(f"new {club}", 8)
        assert sum(int(item[1:]) % 2 == club for item in best) >= 7


@pytest.mark.parametrize("workers", [2, 3])
def test_traits_in_strata_in_threads_are_those_of_the_serial_run(workers):
    states = []
    for threads in (True, False):
        ranker = described(with_traits())
        ranker.fit(*clicks(), passes=2, workers=workers, threads=threads)
        states.append(frozen(ranker.to_state()))
    assert states[0] == states[1]
    assert np.isfinite(ranker.to_state()["traits"]).all()


def test_the_table_of_traits_stays_bounded_and_nobody_has_one_that_is_gone():
    ranker = with_traits(fields=["tag"], max_traits=32)
    for k in range(500):
        ranker.describe_item(f"i{k % 50}", {"tag": [f"t{k}", f"t{k + 1}", "always"]})
        ranker.learn_one(f"u{k % 7}", f"i{k % 50}")
    tables = ranker._tables
    assert len(tables.traits) <= 32
    used = tables.arrays.item_traits[tables.arrays.item_traits >= 0]
    assert all(tables.traits.ids[row] is not None for row in used.tolist())
    assert "items\ttag\tt500" in tables.traits.ids
    assert "items\ttag\talways" in tables.traits.ids


def test_merging_takes_traits_from_where_they_are_known():
    one, two = described(with_traits(), 0, 300), described(with_traits(), 300, 600)
    alone = frozen(two.to_state())
    names = {key: two._tables.traits_of("items", key) for key in two._tables.items.ids}
    was = {key: one._tables.traits_of("items", key) for key in one._tables.items.ids}
    one.merge(two)
    for key, theirs in names.items():
        assert one._tables.traits_of("items", key) == (was.get(key) or theirs)
    assert frozen(two.to_state()) == alone
    assert np.isfinite(one.to_state()["traits"]).all()
    described(one)  # and it goes on


def test_a_state_from_before_there_were_fields_is_taken_up():
    old = taught()
    new = with_traits()
    new.from_state(old.to_state())
    described(new)
    assert new.recommend("u1", 3)


def test_fields_that_no_longer_count_are_forgotten_when_more_is_told():
    old = with_traits()
    old.describe_item("a", {"colour": "red", "shape": "round"})
    new = with_traits(fields=["shape"])
    new.from_state(old.to_state())
    new.describe_item("a", {"shape": "flat"})
    assert new._tables.traits_of("items", "a") == ["items\tshape\tflat"]


@pytest.mark.parametrize(
    "bad", [{"fields": "genre"}, {"fields": [3]}, {"fields": ["a\tb"]}, {"max_traits": 3}]
)
def test_fields_that_make_no_sense_are_refused(bad):
    with pytest.raises(ConfigError):
        RoBiRankMF(**bad)


@pytest.mark.parametrize("at", ["user", "item"])
@pytest.mark.parametrize("params", [{}, {"max_users": 8, "max_items": 8}])
def test_an_id_that_is_none_in_the_midst_of_a_batch_changes_nothing(at, params):
    ranker, twin = (RoBiRankMF(d=4, negatives=4, **params) for _ in range(2))
    for one in (ranker, twin):
        one.learn_batch([f"u{k}" for k in range(6)], [f"i{k}" for k in range(6)])
    users, items = [f"v{k}" for k in range(2)] + ["w"], [f"j{k}" for k in range(2)] + ["k"]
    bad = ([*users, None], [*items, "x"]) if at == "user" else ([*users, "x"], [*items, None])
    before = frozen(ranker.to_state())
    if not params:
        with pytest.raises(ValueError, match="no id"):
            ranker.learn_batch(*bad)
        assert frozen(ranker.to_state()) == before
        commit_to(ranker, {})
    with pytest.raises(ValueError, match="no id"):
        ranker.learn_one(*[keys[-1] for keys in bad])
    assert frozen(ranker.to_state()) == before
    for one in (ranker, twin):
        one.learn_batch(users, items)
    assert frozen(ranker.to_state()) == frozen(twin.to_state())


def test_a_catalogue_that_nobody_clicks_neither_slows_learning_nor_changes_it():
    users, items = clicks()
    bare, full = with_traits(), with_traits()
    for k in range(20_000):
        full.describe_item(f"other {k}", {"colour": k % 5})
    for ranker in (bare, full):
        ranker.learn_batch(users, items)
    for name in ("users", "items", "user_marks", "item_marks", "generator"):
        np.testing.assert_array_equal(bare.to_state()[name], full.to_state()[name])
    assert full.recommend("u1", 3)


def test_factors_hold_what_traits_add_and_the_shelf_is_served_like_the_rest():
    ranker = described(with_traits())
    ranker.describe_item("new", {"colour": 1, "shape": ["s3"]})
    items = [*dict.fromkeys(clicks()[1]), "new", "unknown"]
    T, V = ranker.factors_of(["u1", "nobody"], items)
    for row, user in enumerate(["u1", "nobody"]):
        np.testing.assert_allclose(T[row] @ V.T, ranker.scores(user, items), atol=1e-12)
        assert ranker.recommend(user, 100, exclude=["i3"]) == [
            item for item in ranker.rank(user, items) if item not in ("i3", "unknown")
        ]
    assert "new" not in ranker.recommend("u1", 100, exclude=["new"])


def test_the_shelf_stays_bounded_and_is_left_at_the_first_click():
    ranker, mirror = with_traits(max_items=32), {}
    for k in range(300):
        ranker.describe_item(f"i{k}", {"colour": k % 3})
        if k % 4 == 0:
            ranker.learn_one("u", f"i{k}")
            assert ranker._tables.shelf.find(f"i{k}") < 0
            assert ranker._tables.traits_of("items", f"i{k}") == [f"items\tcolour\t{k % 3}"]
        if k % 23 == 0:
            commit_to(ranker, mirror)
    assert len(ranker._tables.shelf) <= 32
    assert ranker._tables.shelf.find("i299") >= 0
    assert len(ranker.recommend("u", 1000)) == len(ranker._tables.items) + len(ranker._tables.shelf)


def test_fit_learns_by_weight_and_passes_over_clicks_that_have_none():
    users, items = clicks()
    y = np.where(np.arange(600) % 3 == 0, np.nan, np.where(np.arange(600) % 3 == 1, -1.0, 2.0))
    whole, part = taught(), taught()
    whole.fit(users, items, y=y.tolist())
    part.fit(users[2::3], items[2::3], y=[2.0] * 200)
    assert frozen(whole.to_state()) == frozen(part.to_state())
    with pytest.raises(ValueError, match="weights"):
        whole.fit(users, items, y=[1.0])
