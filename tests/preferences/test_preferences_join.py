import numpy as np
import pytest

from streamrank.config import JoinSettings
from streamrank.events.types import Interaction, Item, PackedRanking, Ranking
from streamrank.features.batch import Rows
from streamrank.preferences import join as join_module
from streamrank.preferences.join import Join
from streamrank.preferences.shown import propensities_of

GRADES = {"click": 1.0, "purchase": 3.0, "view": 0.0}


def make(**settings) -> Join:
    return Join(JoinSettings(**({"window_ms": 100, "lateness_ms": 50} | settings)), GRADES)


def show(join: Join, name: str, at: int, items: str = "abc", now: int | None = None, **who):
    event = Ranking(id=name, timestamp=at, items=[Item(item) for item in items], **who)
    rows = Rows(len(items), np.empty(0, np.int32), np.empty(0), np.zeros(len(items) + 1, np.int64))
    return join.show(event, rows, at if now is None else now)


def click(join: Join, item: str, at: int, kind: str = "click", now: int | None = None, **where) -> bool:
    event = Interaction(id="c", timestamp=at, item=item, type=kind, **where)
    return join.click(event, at if now is None else now)


def learn(join: Join, now: int) -> list[tuple[str, dict[int, float], list[float]]]:
    """What is due: the ranking, the places newly clicked with their grade before, the labels."""
    learnt = []
    for shown in join.due(now):
        learnt.append((shown.id, dict(shown.pending), shown.labels()))
        join.judged(shown)
    return learnt


def test_a_click_finds_the_ranking_it_names():
    join = make()
    show(join, "r", 10)
    show(join, "q", 11)
    assert click(join, "b", 20, ranking="r")
    assert learn(join, 20) == [("r", {1: 0.0}, [0.0, 1.0, 0.0])]
    assert learn(join, 10**9) == []


def test_a_click_that_names_none_goes_to_the_newest_list_of_its_session_with_the_item_shown_before_it():
    join = make()
    show(join, "older", 10, "ab", session="s")
    show(join, "newer", 12, "ab", session="s")
    show(join, "other item", 13, "cd", session="s")
    show(join, "other session", 14, "ab", session="t")
    show(join, "not shown yet", 90, "ab", now=14, session="s")
    assert click(join, "a", 20, session="s")
    assert [name for name, *_ in learn(join, 20)] == ["newer"]
    assert join.unmatched == 0


def test_the_session_goes_before_the_user():
    join = make()
    show(join, "of the session", 10, session="s", user="u")
    show(join, "of the user", 11, session="t", user="u")
    click(join, "a", 20, session="s", user="u")
    click(join, "b", 21, session="unknown", user="u")
    assert [name for name, *_ in learn(join, 30)] == ["of the session", "of the user"]


def test_a_user_and_a_session_of_the_same_name_are_not_the_same():
    join = make()
    show(join, "r", 10, session="x")
    click(join, "a", 20, user="x")
    assert (learn(join, 20), join.unmatched) == ([], 1)


def test_an_empty_session_or_ranking_names_nothing():
    join = make()
    show(join, "r", 10, session="", user="")
    click(join, "a", 20, session="", user="", ranking="")
    assert (learn(join, 20), join.unmatched, len(join._waiting)) == ([], 1, 0)
    show(join, "q", 21, session="s")
    click(join, "a", 22, session="s", ranking="")
    assert [name for name, *_ in learn(join, 22)] == ["q"]


def test_a_click_that_names_and_knows_nobody_is_unmatched():
    join = make()
    show(join, "r", 10)
    assert click(join, "a", 20)
    assert join.unmatched == 1


def test_a_click_that_comes_before_its_ranking_waits_for_it():
    join = make()
    click(join, "c", 15, ranking="r")
    click(join, "a", 16, ranking="r")
    assert learn(join, 16) == []
    show(join, "r", 10, now=16)
    assert learn(join, 16) == [("r", {2: 0.0, 0: 0.0}, [1.0, 0.0, 1.0])]
    join.expire(10**9)
    assert join.unmatched == 0


def test_a_click_within_the_window_counts_and_a_later_one_is_late():
    join = make()
    show(join, "r", 10)
    assert click(join, "a", 110, ranking="r") is True
    assert click(join, "b", 111, ranking="r") is False
    assert learn(join, 111) == [("r", {0: 0.0}, [1.0, 0.0, 0.0])]


def test_a_waiting_click_that_lies_beyond_the_window_of_its_ranking_is_not_counted():
    join = make(lateness_ms=500)
    click(join, "a", 111, ranking="r")
    show(join, "r", 10, now=111)
    assert (learn(join, 111), join.unmatched) == ([], 1)


def test_a_click_on_an_item_that_was_not_shown_is_unmatched():
    join = make()
    show(join, "r", 10)
    click(join, "z", 20, ranking="r")
    assert (learn(join, 20), join.unmatched) == ([], 1)


def test_a_second_click_says_nothing_new():
    join = make()
    show(join, "r", 10)
    for at in (20, 21):
        click(join, "a", at, ranking="r")
        learn(join, at)
    assert click(join, "a", 22, ranking="r")
    assert (learn(join, 22), join.unmatched) == ([], 0)


def test_a_purchase_after_a_click_is_learnt_with_the_grade_before_and_not_the_other_way_round():
    join = make()
    show(join, "r", 10)
    click(join, "a", 20, ranking="r")
    assert learn(join, 20) == [("r", {0: 0.0}, [1.0, 0.0, 0.0])]
    click(join, "a", 30, "purchase", ranking="r")
    assert learn(join, 30) == [("r", {0: 1.0}, [3.0, 0.0, 0.0])]
    click(join, "a", 31, ranking="r")
    assert learn(join, 31) == []


def test_a_kind_of_grade_zero_says_nothing_and_an_unknown_kind_is_a_click():
    join = make()
    show(join, "r", 10)
    click(join, "a", 20, "view", ranking="r")
    assert learn(join, 20) == []
    click(join, "b", 21, "like", ranking="r")
    assert learn(join, 21) == [("r", {1: 0.0}, [0.0, 1.0, 0.0])]


def test_clicks_gather_until_none_came_for_settle_ms():
    join = make(settle_ms=30)
    show(join, "r", 10)
    click(join, "c", 20, ranking="r")
    assert learn(join, 49) == []
    click(join, "a", 49, ranking="r")
    click(join, "c", 49, "purchase", ranking="r")
    assert learn(join, 78) == []
    assert learn(join, 79) == [("r", {2: 0.0, 0: 0.0}, [1.0, 0.0, 3.0])]
    click(join, "b", 80, ranking="r")
    assert learn(join, 110) == [("r", {1: 0.0}, [1.0, 1.0, 3.0])]


def test_labels_before_are_those_of_the_last_judgement():
    join = make(settle_ms=5)
    shown = show(join, "r", 10)
    click(join, "a", 20, ranking="r")
    learn(join, 25)
    click(join, "a", 30, "purchase", ranking="r")
    click(join, "b", 30, ranking="r")
    assert (shown.labels_before(), shown.labels()) == ([1.0, 0.0, 0.0], [3.0, 1.0, 0.0])


def test_the_first_ranking_to_arrive_makes_room_and_its_pending_clicks_are_still_learnt():
    join = make(max_open=2, settle_ms=1000)
    show(join, "first", 10**9)  # dated far ahead: it may not crowd out the others
    show(join, "second", 11)
    click(join, "a", 20, ranking="first")
    show(join, "third", 21)
    assert len(join) == 2
    assert learn(join, 21) == [("first", {0: 0.0}, [1.0, 0.0, 0.0])]
    click(join, "b", 22, ranking="first")
    assert learn(join, 10**6) == []


def test_a_ranking_closes_when_the_watermark_has_passed_its_window():
    join = make(settle_ms=10**6)
    show(join, "r", 10)
    click(join, "a", 20, ranking="r")
    join.expire(110)
    assert (len(join), learn(join, 110)) == (1, [])
    join.expire(111)
    assert (len(join), learn(join, 111)) == (0, [("r", {0: 0.0}, [1.0, 0.0, 0.0])])
    assert join._visitors == {}


def test_waiting_clicks_are_given_up_when_the_watermark_has_passed_them():
    join = make()
    click(join, "a", 20, ranking="r")
    click(join, "b", 30, ranking="r")
    join.expire(20)
    assert join.unmatched == 0
    join.expire(21)
    assert join.unmatched == 1
    show(join, "r", 25, now=60)
    assert learn(join, 60) == [("r", {1: 0.0}, [0.0, 1.0, 0.0])]


def test_no_more_clicks_wait_than_rankings_may_be_open():
    join = make(max_open=3)
    for k in range(10):
        click(join, "a", 100 - k, now=100, ranking=f"r{k}")
        assert join._n_waiting <= 3
    assert join.unmatched == 7
    assert sorted(join._waiting) == ["r0", "r1", "r2"]


def test_the_same_ranking_again_takes_over_and_the_clicks_on_the_first_are_learnt():
    join = make(settle_ms=1000)
    show(join, "r", 10, "abc", session="s")
    click(join, "a", 20, ranking="r")
    show(join, "r", 30, "cba", session="s")
    assert learn(join, 30) == [("r", {0: 0.0}, [1.0, 0.0, 0.0])]
    click(join, "a", 40, session="s")
    assert learn(join, 1040) == [("r", {2: 0.0}, [0.0, 0.0, 1.0])]
    assert len(join) == 1


def test_the_window_of_a_ranking_shown_again_is_that_of_the_second_time():
    join = make()
    show(join, "r", 10)
    show(join, "r", 50)
    join.expire(111)
    assert click(join, "a", 111, ranking="r")
    assert len(learn(join, 111)) == 1


def test_a_click_dated_years_ahead_is_learnt_by_the_clock():
    join = make(settle_ms=5)
    show(join, "r", 10**9, now=10)
    click(join, "a", 10**9 + 1, now=20, ranking="r")
    assert len(learn(join, 25)) == 1
    assert join._due == []


def test_memory_stays_flat_when_wrongly_dated_events_come_and_go(monkeypatch):
    monkeypatch.setattr(join_module, "SLACK", 10)
    join = make(max_open=5)
    for k in range(500):
        click(join, "a", 10**9 + k, now=20, ranking=f"r{k % 3}")
        show(join, f"r{k % 3}", 10**9 + k, now=20)
        learn(join, 20)
        assert len(join._by_time) <= 2 * len(join) + 12
        assert len(join._waiting_by_time) <= 2 * join._n_waiting + 12
        assert len(join._due) <= 12


def test_what_the_ranking_says_of_itself_is_kept():
    join = make()
    event = PackedRanking(
        id="r",
        timestamp=10,
        items=["a", "b"],
        columns=b"",
        values=b"",
        propensities=[1.0, 0.5],
        query="q",
        shuffled=True,
        fair_pairs=1,
    )
    shown = join.show(event, Rows(2, np.empty(0, np.int32), np.empty(0)), 10)
    assert (shown.items, shown.query, shown.propensities) == (["a", "b"], "q", [1.0, 0.5])
    assert (shown.shuffled, shown.fair_pairs, shown.number) == (True, 1, 0)


@pytest.mark.parametrize(
    ("given", "taken"), [([1.0, 0.5], [1.0, 0.5]), ([1.0, None], None), ([None, None], None)]
)
def test_propensities_count_if_every_item_has_one(given, taken):
    items = [Item(str(k), propensity=p) for k, p in enumerate(given)]
    assert propensities_of(Ranking(id="r", timestamp=1, items=items)) == taken
