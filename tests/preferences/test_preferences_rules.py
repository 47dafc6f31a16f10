"""Each rule on lists made by hand: which item beats which, with what weight, written out."""

from collections import Counter

import numpy as np
import pytest
from hypothesis import given
from hypothesis import settings as running
from hypothesis import strategies as st

from streamrank.config import JudgeSettings
from streamrank.features.batch import EXPLICIT, Rows
from streamrank.kernels.losses import preference
from streamrank.preferences.judge import Judge
from streamrank.preferences.rules import RULES, Judgement
from streamrank.preferences.shown import Shown

WEIGHTS = [1.0, 2.0, 4.0, 8.0]
COMPILED = running(deadline=None)  # the first example may compile


def ranking(grades: dict[int, float], n: int = 4, fair_pairs: int | None = None) -> Shown:
    rows = Rows(n, np.empty(0, np.int32), np.empty(0))
    return Shown(0, "r", 0, [str(k) for k in range(n)], rows, grades=dict(grades), fair_pairs=fair_pairs)


def pairs(judgement: Judgement) -> dict[tuple[int, int], float]:
    """(better, worse) -> weight, as a learner of pairs walks them."""
    y, c, mode, explicit = judgement
    if mode == EXPLICIT:
        found: Counter[tuple[int, int]] = Counter()
        for better, worse, weight in explicit:
            found[better, worse] += weight
        return dict(found)
    assert not explicit
    n = range(len(y))
    all_pairs = {(i, j): preference(mode, y[i], c[i], y[j], c[j]) for i in n for j in n if i != j}
    return {pair: weight for pair, weight in all_pairs.items() if weight > 0}


@pytest.mark.parametrize("weights", [None, WEIGHTS])
def test_unclicked_says_that_a_click_beats_what_was_not_clicked(weights):
    one = RULES["unclicked"](ranking({2: 1.0}), {2: 0.0}, weights)
    assert pairs(one) == {(2, 0): 1.0, (2, 1): 1.0, (2, 3): 1.0}
    two = RULES["unclicked"](ranking({2: 1.0, 0: 1.0}), {2: 0.0, 0: 0.0}, weights)
    assert pairs(two) == {(2, 1): 1.0, (2, 3): 1.0, (0, 1): 1.0, (0, 3): 1.0}


def test_unclicked_says_nothing_again_of_what_was_learnt_before():
    again = RULES["unclicked"](ranking({2: 1.0, 0: 1.0}), {0: 0.0}, None)
    assert pairs(again) == {(0, 1): 1.0, (0, 3): 1.0}


def test_unclicked_adds_for_a_purchase_what_the_click_had_not_said():
    bought = RULES["unclicked"](ranking({2: 3.0, 0: 1.0}), {2: 1.0}, None)
    assert pairs(bought) == {(2, 0): 2.0, (2, 1): 2.0, (2, 3): 2.0}


def test_ips_says_that_a_click_beats_every_other_with_one_over_theta():
    both = RULES["ips"](ranking({1: 1.0, 3: 3.0}), {1: 0.0, 3: 0.0}, WEIGHTS)
    expected = {(1, 0): 2.0, (1, 2): 2.0, (1, 3): 2.0, (3, 0): 24.0, (3, 1): 24.0, (3, 2): 24.0}
    assert pairs(both) == expected


def test_ips_adds_for_a_purchase_the_difference_of_the_grades():
    bought = RULES["ips"](ranking({1: 1.0, 3: 3.0}), {3: 1.0}, WEIGHTS)
    assert pairs(bought) == {(3, 0): 16.0, (3, 1): 16.0, (3, 2): 16.0}


def test_ips_without_theta_teaches_nothing():
    assert pairs(RULES["ips"](ranking({1: 1.0}), {1: 0.0}, None)) == {}


def test_scored_orders_the_list_by_grade_over_theta():
    # scores 1, 0, 4, 0: the click further down counts for more
    scored = RULES["scored"](ranking({0: 1.0, 2: 1.0}), {2: 0.0}, WEIGHTS)
    assert pairs(scored) == {(0, 1): 1.0, (0, 3): 1.0, (2, 0): 1.0, (2, 1): 1.0, (2, 3): 1.0}
    assert [y * c for y, c in zip(scored.y, scored.c, strict=True)] == [1.0, 0.0, 4.0, 0.0]


def test_scored_without_theta_orders_the_list_by_grade():
    scored = RULES["scored"](ranking({0: 1.0, 2: 3.0}), {2: 0.0}, None)
    assert pairs(scored) == {(0, 1): 1.0, (0, 3): 1.0, (2, 0): 1.0, (2, 1): 1.0, (2, 3): 1.0}


def test_skip_above_says_that_a_click_beats_the_skipped_above_it_only():
    skipped = RULES["skip-above"](ranking({1: 1.0, 3: 1.0}), {1: 0.0, 3: 0.0}, None)
    assert pairs(skipped) == {(1, 0): 1.0, (3, 0): 1.0, (3, 2): 1.0}
    assert pairs(RULES["skip-above"](ranking({0: 1.0}), {0: 0.0}, None)) == {}


def test_last_click_says_it_of_the_last_click_in_time_only():
    assert pairs(RULES["last-click"](ranking({3: 1.0, 1: 1.0}), {3: 0.0, 1: 0.0}, None)) == {(1, 0): 1.0}
    last = RULES["last-click"](ranking({1: 1.0, 3: 1.0}), {1: 0.0, 3: 0.0}, None)
    assert pairs(last) == {(3, 0): 1.0, (3, 2): 1.0}


@pytest.mark.parametrize(
    ("first", "grades", "expected"),
    [
        (0, {1: 1.0}, {(1, 0): 1.0}),
        (0, {3: 1.0, 1: 1.0}, {(3, 2): 1.0, (1, 0): 1.0}),
        (0, {0: 1.0, 2: 1.0}, {}),  # the upper one of a pair
        (0, {2: 1.0, 3: 1.0}, {}),  # both
        (1, {2: 1.0}, {(2, 1): 1.0}),
        (1, {1: 1.0, 3: 1.0, 0: 1.0}, {}),  # 3 is the upper one of (3, 4), and 0 is in no pair
        (None, {1: 1.0, 3: 1.0}, {}),
    ],
)
def test_fair_pairs_say_that_the_lower_of_two_swapped_neighbours_beats_the_upper(first, grades, expected):
    new = dict.fromkeys(grades, 0.0)
    assert pairs(RULES["fair-pairs"](ranking(grades, fair_pairs=first), new, None)) == expected


CLICKS = st.lists(st.tuples(st.integers(0, 3), st.sampled_from([1.0, 3.0])), min_size=1, max_size=8)


@COMPILED
@given(CLICKS, st.lists(st.integers(1, 8), min_size=1))
@pytest.mark.parametrize("rule", ["unclicked", "ips"])
def test_every_click_is_learnt_once_however_the_clicks_are_gathered(rule, clicks, cuts):
    """The weight of (clicked, never clicked) summed over all judgements is the final grade (over theta)."""
    shown, new, total = ranking({}), {}, Counter()
    borders = set(np.cumsum(cuts).tolist()) | {len(clicks)}
    for k, (place, grade) in enumerate(clicks, 1):
        before = shown.grades.get(place, 0.0)
        if grade > before:
            shown.grades[place] = grade
            new.setdefault(place, before)
        if k in borders and new:
            for pair, weight in pairs(RULES[rule](shown, new, WEIGHTS)).items():
                total[pair] += weight
            new = {}
    never = set(range(4)) - set(shown.grades)
    for i, grade in shown.grades.items():
        for j in never:
            assert total[i, j] == grade * (WEIGHTS[i] if rule == "ips" else 1.0)
    assert all(total[j, i] == 0 for j in never for i in range(4))
    if rule == "ips":  # between two clicked items too
        assert all(
            total[i, j] == grade * WEIGHTS[i] for i, grade in shown.grades.items() for j in range(4) if i != j
        )


def test_all_rules_can_be_chosen_and_auto_is_none_of_them_by_name():
    for name in RULES:
        Judge(JudgeSettings(rule=name)).judge(ranking({1: 1.0}), {1: 0.0})
    assert "auto" not in RULES
