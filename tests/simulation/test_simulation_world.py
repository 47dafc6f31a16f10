import numpy as np
import pytest

from streamrank.errors import ConfigError
from streamrank.simulation import World
from streamrank.simulation.draws import Zipf, generator
from streamrank.simulation.numeric import NumericWorld

DISCOUNT = 1 / np.log2(np.arange(2, 12))


def ndcg10(grades):
    gains = 2.0 ** np.asarray(grades) - 1
    return gains[:10] @ DISCOUNT / (np.sort(gains)[::-1][:10] @ DISCOUNT)


def mean_ndcg(cases, scores):
    return np.mean(
        [ndcg10(c.relevance[np.argsort(-s, kind="stable")]) for c, s in zip(cases, scores, strict=True)]
    )


def one_hot(case):
    """Numbers as they are, a column for each category and brand; texts and lists left out."""
    rows = [{f.name: f.value for f in item.fields} for item in case.ranking.items]
    return [
        {(k, v) if isinstance(v, str) else k: 1.0 if isinstance(v, str) else v for k, v in row.items()
         if k not in ("title", "tags")}
        for row in rows
    ]  # fmt: skip


def linear_scores(train, test):
    rows = [row for case in train for row in one_hot(case)]
    columns = sorted({name for row in rows for name in row}, key=str)
    matrix = [[row.get(name, 0.0) for name in columns] + [1.0] for row in rows]
    w = np.linalg.lstsq(np.array(matrix), np.concatenate([c.relevance for c in train]), rcond=None)[0]
    return [np.array([[r.get(n, 0.0) for n in columns] + [1.0] for r in one_hot(c)]) @ w for c in test]


def parsed(case):
    items = np.array([int(item.id.removeprefix("item-")) for item in case.ranking.items])
    return int(case.ranking.query.removeprefix("q-")), items


@pytest.mark.parametrize("seed", [1, 7, 42])
@pytest.mark.parametrize("drifted", [False, True])
def test_a_linear_fit_is_good_the_shop_mediocre_and_chance_worse(seed, drifted):
    world = World(seed)
    if drifted:
        world.drift()
    train, test = world.heldout(300, seed=1), world.heldout(300, seed=2)
    rng = generator(seed)
    shop = mean_ndcg(test, [-np.arange(30)] * 300)
    chance = mean_ndcg(test, [rng.random(30) for _ in test])
    assert mean_ndcg(test, linear_scores(train, test)) > 0.95
    assert 0.4 < chance < shop - 0.05 < shop < 0.75


@pytest.mark.parametrize("seed", [1, 7, 42])
def test_after_the_drift_the_old_optimum_is_worse_than_the_shop(seed):
    world = World(seed)
    before = world.heldout(200, seed=2)
    assert mean_ndcg(before, [world.utility(*parsed(c), taste=0) for c in before]) == 1.0
    world.drift()
    after = world.heldout(200, seed=2)
    assert mean_ndcg(after, [world.utility(*parsed(c), taste=1) for c in after]) == 1.0
    old = mean_ndcg(after, [world.utility(*parsed(c), taste=0) for c in after])
    assert old < mean_ndcg(after, [-np.arange(30)] * 200) - 0.1


def test_a_second_drift_brings_the_first_taste_back():
    world, items = World(3), np.arange(500)
    first = world.relevance(0, items)
    world.drift()
    assert not np.array_equal(world.relevance(0, items), first)
    world.drift()
    assert np.array_equal(world.relevance(0, items), first)


def test_grades_are_shares_of_all_pairs():
    world = World(5, n_items=300, n_queries=50)
    grades = np.concatenate([world.relevance(q, np.arange(300)) for q in range(50)])
    assert np.bincount(grades) / grades.size == pytest.approx([0.1, 0.15, 0.25, 0.25, 0.25], abs=0.001)


def test_noise_features_tell_nothing_and_the_scores_something():
    world = World(2)
    grades = np.concatenate([world.relevance(q, np.arange(500)) for q in range(200)])

    def correlation(name):
        return abs(np.corrcoef(world.queries.match[name].ravel(), grades)[0, 1])

    assert max(correlation("noise1"), correlation("noise2")) < 4 / grades.size**0.5
    assert min(correlation("bm25"), correlation("semantic")) > 0.2


def test_heldout_carries_what_rankings_and_metadata_carry():
    world = World(1)
    (case,) = world.heldout(1, seed=9, candidates=12)
    query, items = parsed(case)
    assert len(set(items.tolist())) == 12
    assert np.array_equal(case.relevance, world.relevance(query, items))
    names = ["bm25", "semantic", "noise1", "noise2", "price", "rating", "popularity", "age_days"]
    fields = case.ranking.items[0].fields
    assert [f.name for f in fields] == [*names, "category", "brand", "tags", "title"]
    values = {f.name: f.value for f in fields}
    assert values["brand"] in values["title"]
    assert values["category"] in values["title"]


def test_heldout_depends_on_its_seed_alone():
    world = World(1)
    first = world.heldout(5, seed=9)
    world.heldout(3, seed=8)
    again = world.heldout(5, seed=9)
    assert [c.ranking for c in again] == [c.ranking for c in first]
    assert [c.ranking for c in world.heldout(5, seed=8)] != [c.ranking for c in first]


def test_raw_scales_are_those_of_a_shop():
    numeric = World(1).catalogue.numeric
    assert 150 < numeric["price"].max() <= 900
    assert 1 <= numeric["rating"].min() < numeric["rating"].max() <= 5
    assert numeric["popularity"].max() > 10 * np.median(numeric["popularity"])


def test_a_new_price_moves_the_truth_of_that_item_alone():
    world, everything = World(1), np.arange(500)
    before = np.array([world.utility(q, everything) for q in range(200)])
    price = world.catalogue.numeric["price"][17]
    assert world.reprice(17, 1.2)[0].value == pytest.approx(1.2 * price, abs=0.006)
    after = np.array([world.utility(q, everything) for q in range(200)])
    assert np.all(after[:, 17] < before[:, 17])  # dearer is worse before the drift
    assert np.array_equal(np.delete(after, 17, axis=1), np.delete(before, 17, axis=1))


@pytest.mark.parametrize("sizes", [{"n_items": 0}, {"n_queries": 0}, {"n_users": 0}])
def test_an_empty_world_is_refused(sizes):
    with pytest.raises(ConfigError, match=next(iter(sizes))):
        World(1, **sizes)


def test_a_world_too_large_for_memory_is_refused():
    with pytest.raises(ConfigError, match="n_items"):
        World(1, n_items=100_000, n_queries=100_000)


def test_a_tiny_world_works():
    (case,) = World(1, n_items=1, n_queries=1, n_users=1).heldout(1, seed=1)
    assert len(case.ranking.items) == 1


@pytest.mark.parametrize("n_features", [1, 5, 50])
def test_the_numeric_world_is_linear_and_drifts(n_features):
    world = NumericWorld(1, n_features)
    train, test = world.heldout(200, seed=1), world.heldout(200, seed=2)

    def rows(case):
        return np.array([[f.value for f in item.fields] for item in case.ranking.items])

    grades = np.concatenate([c.relevance for c in train])
    w = np.linalg.lstsq(np.vstack([rows(c) for c in train]), grades - grades.mean(), rcond=None)[0]
    assert mean_ndcg(test, [rows(c) @ w for c in test]) > 0.95
    if n_features > 1:  # with a single feature the shop's order is the best there is
        shop = [-np.arange(30)] * 200
        assert mean_ndcg(test, shop) < 0.8
        world.drift()
        after = world.heldout(200, seed=2)
        assert mean_ndcg(after, [rows(c) @ w for c in after]) < 0.9


def test_zipf_draws_fall_as_one_over_rank():
    zipf, rng, n = Zipf(4), generator(8), 20_000
    found = np.bincount([zipf.draw(rng) for _ in range(n)], minlength=4) / n
    expected = np.array([12, 6, 4, 3]) / 25
    assert np.all(np.abs(found - expected) < 4 * np.sqrt(expected * (1 - expected) / n))
