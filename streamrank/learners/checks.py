"""What every ranker must pass: `check_ranker(make)`, or `yield_checks(make)` to run the checks one by one.

Each check takes `make`, which gives a new untrained learner at every call, and raises AssertionError. "Same
bits" is meant literally: whole states are compared byte by byte.
"""

import copy
from collections.abc import Callable, Collection, Iterator, Sequence
from functools import partial
from typing import Any

import numpy as np
import river.checks
from river.utils.pandas import PANDAS_INSTALLED, import_pandas
from scipy.sparse import csr_matrix

from ..errors import ConfigError
from .base import Ranker
from .comparing import (
    commit_to,
    expect,
    expect_close,
    expect_same_state,
    frozen,
    pairwise_error_of,
    scores_of,
    size_of,
)
from .lessons import NAMES, Example, Lesson, batch_of, named_lessons, wide_lessons

Make = Callable[[], Ranker]

MANY = 2500  # with so many queries seen, keyed state must have reached its bound
EXTREMES = (1e300, -1e300, 1e-300, 0.0, 1e308, 1.0)
OUTLIERS = (
    1e4,
    1e6,
    1e9,
    1e19,
)  # each alone among values of about 1: too large to be right, not to be squared


def yield_checks(make: Make, skip: Collection[str] = ()) -> Iterator[tuple[str, Callable[[], None]]]:
    """Name and check, for `pytest.mark.parametrize`. `skip` names those that are not true of a learner."""
    unknown = set(skip) - {check.__name__ for check in CHECKS}
    if unknown:
        raise ValueError(f"there is no check {sorted(unknown)}; there are: {[c.__name__ for c in CHECKS]}")
    for check in CHECKS:
        if check.__name__ not in skip:
            yield check.__name__, partial(check, make)


def check_ranker(make: Make, skip: Collection[str] = ()) -> None:
    """All checks, one after the other."""
    for _, check in yield_checks(make, skip):
        check()


# -- the checks --------------------------------------------------------------------------------------------


def check_river_estimator(make: Make) -> None:
    """River's own suite passes."""
    river.checks.check_estimator(make())


def check_predicting_changes_nothing(make: Make) -> None:
    """All that predicts leaves the whole state as it is, and what is learnt next; unknown names or not."""
    silent, asked = make(), make()
    for lesson in named_lessons(40):
        lesson.teach(silent)
        before = frozen(asked.to_state())
        xs = [*lesson.xs, {"never seen": 1.0, "a": 2.0}, {}]
        asked.predict_one(xs[0])
        asked.rank(xs)
        asked.explain(xs[-2])
        asked.scores(asked._known(xs))
        if PANDAS_INSTALLED:
            asked.predict_many(import_pandas().DataFrame([{"a": 1.0, "never seen": 2.0}]))
        expect(frozen(asked.to_state()) == before, "predicting changed the state")
        lesson.teach(asked)
    expect_same_state(silent, asked, "a learner that was asked on the way learnt something else")


def check_one_by_one_is_the_same_as_a_batch(make: Make) -> None:
    """`learn_one`, `learn_pair` and `learn_list` in turn reach the bits of one `learn_batch` of all."""
    lessons = [*named_lessons(60)]
    single, whole = make(), make()
    for lesson in lessons:
        lesson.teach(single)
    whole.learn_batch(batch_of(whole, lessons))
    expect_same_state(single, whole, "a batch learnt something else than its lists one by one")


def check_any_cut_of_a_batch_is_the_same(make: Make) -> None:
    """Smaller batches, of whatever sizes and modes, give the same states and the same returned scores."""
    lessons = [*named_lessons(60), *wide_lessons(60)]
    rng = np.random.default_rng(3)
    whole = make()
    expected = whole.learn_batch(batch_of(whole, lessons)).tobytes()
    for n_cuts in (3, 20, len(lessons) - 1):
        cuts = np.sort(rng.choice(np.arange(1, len(lessons)), n_cuts, replace=False)).tolist()
        cut = make()
        scores = [
            cut.learn_batch(batch_of(cut, lessons[a:b]))
            for a, b in zip([0, *cuts], [*cuts, len(lessons)], strict=True)
        ]
        expect(np.concatenate(scores).tobytes() == expected, f"{n_cuts} cuts changed the returned scores")
        expect_same_state(cut, whole, f"{n_cuts} cuts changed what was learnt")


def check_returned_scores_are_those_served_before(make: Make) -> None:
    """`learn_batch` returns what `scores` said just before."""
    ranker = make()
    for lesson in [*named_lessons(40), *wide_lessons(20)]:
        batch = batch_of(ranker, [lesson])
        served = ranker.scores(batch).tobytes()
        expect(ranker.learn_batch(batch).tobytes() == served, "learn_batch returned other scores than served")


def check_restoring_is_going_on(make: Make) -> None:
    """A state copied out mid-stream and into a new learner goes on to the same bits, keys in any order."""
    lessons = [*named_lessons(60), *wide_lessons(20)]
    straight, moved = make(), make()
    for k, lesson in enumerate(lessons):
        lesson.teach(straight)
        lesson.teach(moved)
        if k % 13 == 5 or k == 0:
            state = copy.deepcopy(moved.to_state())
            moved = make()
            moved.from_state(dict(reversed(state.items())))
            expect(frozen(moved.to_state()) == frozen(state), "from_state and to_state do not agree")
    expect_same_state(straight, moved, "a restored learner went another way")
    empty = make()
    empty.from_state(make().to_state())
    expect_same_state(empty, make(), "the state of an untrained learner does not restore")


def check_dirty_covers_what_changed(make: Make) -> None:
    """A mirror that is sent only what `dirty` names equals the state at every commit, and restores."""
    ranker, mirror = make(), dict[str, Any]()
    commit_to(ranker, mirror)  # the first commit may come before the first list
    lessons = [*named_lessons(40), *wide_lessons(40), *named_lessons(20)]
    for k, lesson in enumerate(lessons):
        lesson.teach(ranker)
        if k % 4 == 0:
            commit_to(ranker, mirror)
        if k % 24 == 0:
            ranker = make()
            ranker.from_state(copy.deepcopy(mirror))
    other = make()
    for lesson in wide_lessons(30):
        lesson.teach(other)
    ranker.merge(other)
    commit_to(ranker, mirror)


def check_merging_laws(make: Make) -> None:
    """An untrained shard changes nothing, the order of two does not matter, two equal ones stay so."""
    xs = [x for lesson in named_lessons(20, seed=9) for x in lesson.xs]

    def trained(seed: int, names: Sequence[str] = NAMES) -> Ranker:
        ranker = make()
        for name in names:  # a list of one teaches nothing: it only gives the name its column
            ranker.learn_list([{name: 1.0}], [0.0])
        for lesson in named_lessons(40, seed):
            lesson.teach(ranker)
        return ranker

    alone, one, two = trained(1), trained(1), trained(2)
    before = frozen(two.to_state())
    one.merge(make())
    expect_close(one, alone, xs, "merging an untrained learner changed the scores")
    fresh = make()
    fresh.merge(alone)
    expect_close(
        fresh, alone, xs, "an untrained learner that merges a trained one does not score as that one"
    )
    one.merge(two)
    expect(frozen(two.to_state()) == before, "merging changed the other learner")
    two.merge(trained(1))
    expect_close(one, two, xs, "merging depends on the order of the two")
    expect(
        not np.array_equal(scores_of(one, xs), scores_of(alone, xs)), "merging a trained learner does nothing"
    )
    for names in (NAMES, NAMES[::-1], sorted(NAMES)):
        twin = trained(1)
        twin.merge(trained(1, names))
        expect_close(twin, alone, xs, "merging one's equal changed the scores (are names matched?)")


def check_merging_by_columns(make: Make) -> None:
    """`columns` says where the other's columns are here; it may know more columns than were ever learnt."""
    lessons = [*wide_lessons(40, columns=60)]
    move = np.random.default_rng(5).permutation(60)
    here, there, alone = make(), make(), make()
    for lesson in lessons:
        lesson.teach(here)
        lesson.teach(alone)
        lesson.moved(move).teach(there)
    columns = np.full(500, -1, dtype=np.int64)
    columns[move] = np.arange(60)
    here.merge(there, columns)
    batch = batch_of(here, lessons)
    expect(np.allclose(here.scores(batch), alone.scores(batch), 1e-9, 1e-12), "columns were not matched")


def check_extreme_input_does_no_lasting_harm(make: Make) -> None:
    """Huge, tiny or empty input, first or late: scores stay finite, and ordinary lists are learnt after."""
    ordinary = [*named_lessons(300, seed=4, kinds=("list",))]
    for start in (0, 50):
        ranker = make()
        for lesson in ordinary[:start]:  # of the opposite taste: there is something to unlearn
            lesson._replace(ys=[2.0 - y for y in lesson.ys]).teach(ranker)
        for first in EXTREMES:
            for second in EXTREMES:
                ranker.learn_pair({"a": first, "b": second}, {"a": second, "c": first})
                ranker.learn_pair({"a": 1.0}, {"b": 1.0}, weight=max(first, 0.0))
                ranker.learn_list([{"a": first}], [1.0])
                ranker.learn_list([{"a": first}, {}, {"b": second}], [1.0, 1.0, 1.0])
                ranker.learn_list([{}, {}], [1.0, 0.0])
                ranker.learn_list([], [])
                ranker.learn_one({"a": first, "b": second}, first)
                xs: list[Example] = [{"a": first, "b": second}, {"c": first}, {}]
                expect(
                    bool(np.isfinite(scores_of(ranker, xs)).all()), f"no finite score after {first}, {second}"
                )
                expect(bool(np.isfinite([*ranker.explain(xs[0]).values()]).all()), "no finite explanation")
        for lesson in ordinary:
            lesson.teach(ranker)
        error = pairwise_error_of(ranker, ordinary[-50:])
        expect(error < 0.2, f"pairwise error {error:.3f} on ordinary lists after extreme ones")


def check_one_outlier_does_no_lasting_harm(make: Make) -> None:
    """Ordinary lists are learnt after a single value far too large that is no reason to refuse a list."""
    ordinary = [*named_lessons(300, seed=4, kinds=("list",))]
    for outlier in OUTLIERS:
        ranker = make()
        for lesson in ordinary[:50]:  # of the opposite taste: there is something to unlearn
            lesson._replace(ys=[2.0 - y for y in lesson.ys]).teach(ranker)
        # in every other feature: one that all share would leave them in proportion
        ranker.learn_list([dict.fromkeys(NAMES[1::2], outlier), dict.fromkeys(NAMES, 1.0)], [1.0, 0.0])
        for lesson in ordinary:
            lesson.teach(ranker)
        error = pairwise_error_of(ranker, ordinary[-50:])
        expect(error < 0.2, f"pairwise error {error:.3f} on ordinary lists after one value of {outlier:g}")


def check_memory_is_bounded(make: Make) -> None:
    """Once all names and `MANY` queries were seen, endless new queries do not make the state larger."""
    ranker = make()
    sizes = []
    for k in range(2 * MANY):
        x = {name: float(k % (n + 2)) for n, name in enumerate(NAMES)}
        ranker.learn_one(x, float(k % 3), query=f"q{10_000 + k}")
        if k % 50 == 0:
            ranker.learn_list([x, {}], [1.0, 0.0], query=f"l{10_000 + k}")
        if (k + 1) % MANY == 0:
            sizes.append(size_of(ranker.to_state()))
    expect(sizes[1] <= sizes[0], f"the state grew from {sizes[0]} to {sizes[1]} bytes")


def check_order_of_names_in_a_dict_is_irrelevant(make: Make) -> None:
    """The same examples with their names in another order give the same bits."""
    forward, backward = make(), make()
    for lesson in named_lessons(40):
        turned = lesson._replace(xs=[dict(reversed(x.items())) for x in lesson.xs])
        lesson.teach(forward)
        turned.teach(backward)
        scores = [scores_of(forward, lesson.xs).tobytes(), scores_of(backward, turned.xs).tobytes()]
        expect(scores[0] == scores[1], "the order of the names changed a score")
    expect_same_state(forward, backward, "the order of the names changed what was learnt")


def check_nothing_to_learn_changes_no_score(make: Make) -> None:
    """A list of one, a tied list, an empty list and a weight of 0 leave every score as it is."""
    ranker = make()
    for lesson in named_lessons(40):
        lesson.teach(ranker)
    xs = [x for lesson in named_lessons(20, seed=9) for x in lesson.xs]
    before = scores_of(ranker, xs).tobytes()
    for x in xs:
        ranker.learn_list([x], [1.0])
        ranker.learn_list([x, xs[0], {}], [2.0, 2.0, 2.0])
        ranker.learn_list([], [])
        ranker.learn_pair(x, xs[1], weight=0.0)
        ranker.learn_list([xs[0], x], [1.0, 0.0], weights=[0.0, 1.0])
        ranker.learn_batch(batch_of(ranker, [Lesson("explicit", [x, xs[0]], [1.0, 0.0], [0.0, 0.0])]))
        expect(scores_of(ranker, xs).tobytes() == before, "a list without a preference changed a score")


def check_constant_features_get_no_weight(make: Make) -> None:
    """What all items of every list share, however large, cannot tell one from another."""
    for size in (1.0, 0.1, 1e9):
        ranker = make()
        for lesson in named_lessons(60, kinds=("list", "pair")):
            lesson._replace(xs=[{**x, "constant": size} for x in lesson.xs]).teach(ranker)
        expect(ranker.predict_one({"constant": size}) == 0.0, f"a constant feature of {size} got a weight")


def check_weights_given_are_served(make: Make) -> None:
    """Whoever serves one weight a column can be given others: they are served, committed and learnt on."""
    ranker, mirror = make(), dict[str, Any]()
    for lesson in named_lessons(60):
        lesson.teach(ranker)
    try:
        served = ranker.served_weights()
    except ConfigError:
        return
    commit_to(ranker, mirror)
    given = np.where(served != 0.0, 2.0 * served[::-1].mean() - 3.0 * served, 0.0)
    ranker.take_weights(given.copy())
    same = np.allclose(ranker.served_weights()[: len(given)], given, rtol=1e-12, atol=0)
    expect(bool(same), "the weights given are not those served")
    commit_to(ranker, mirror)
    batch = batch_of(ranker, list(named_lessons(5, seed=7)))
    X = csr_matrix((batch.values, batch.indices, batch.indptr), shape=(len(batch.y), len(given)))
    expect(bool(np.allclose(ranker.scores(batch), X @ given)), "scores are not those of the weights given")
    for lesson in named_lessons(60, seed=3):
        lesson.teach(ranker)
    commit_to(ranker, mirror)
    expect(bool((ranker.served_weights()[: len(given)] != given).any()), "it does not learn on from them")


CHECKS: tuple[Callable[[Make], None], ...] = (
    check_river_estimator,
    check_predicting_changes_nothing,
    check_one_by_one_is_the_same_as_a_batch,
    check_any_cut_of_a_batch_is_the_same,
    check_returned_scores_are_those_served_before,
    check_restoring_is_going_on,
    check_dirty_covers_what_changed,
    check_merging_laws,
    check_merging_by_columns,
    check_extreme_input_does_no_lasting_harm,
    check_one_outlier_does_no_lasting_harm,
    check_memory_is_bounded,
    check_order_of_names_in_a_dict_is_irrelevant,
    check_nothing_to_learn_changes_no_score,
    check_constant_features_get_no_weight,
    check_weights_given_are_served,
)
