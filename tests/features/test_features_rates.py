import pytest
from hypothesis import given
from hypothesis import strategies as st

from streamrank.features.rate import ClickRates

HALF_LIFE = 1000


@given(st.lists(st.tuples(st.integers(0, 5 * HALF_LIFE), st.booleans()), max_size=30), st.integers(0, 9000))
def test_the_rate_is_clicks_over_times_shown_each_halved_every_half_life(steps, later):
    rates, now, shown_at, clicked_at = ClickRates(HALF_LIFE, limit=5), 0, [], []
    for gap, click in steps:
        now += gap
        if click and shown_at:
            rates.clicked("a", now)
            clicked_at.append(now)
        elif not click:
            rates.shown(["a"], now, learn=True)
            shown_at.append(now)
    now += later
    left = lambda times: sum(0.5 ** ((now - t) / HALF_LIFE) for t in times)  # noqa: E731
    (rate,) = rates.shown(["a"], now, learn=False)
    assert rate == pytest.approx((left(clicked_at) + 1) / (left(shown_at) + 10), rel=1e-12)


def test_an_item_never_shown_has_the_prior_rate_and_a_click_on_it_counts_nothing():
    rates = ClickRates(HALF_LIFE, limit=5)
    rates.clicked("a", 5)
    assert rates.to_state() == {}
    assert rates.shown(["a"], 6, learn=False) == [0.1]


def test_time_does_not_run_back_for_an_item():
    rates = ClickRates(HALF_LIFE, limit=5)
    rates.shown(["a"], 2000, learn=True)
    rates.clicked("a", 1000)
    rates.shown(["a"], 500, learn=True)
    assert rates.to_state() == {"a": [3, 2000, 1.0, 2.0]}


def test_a_showing_is_not_part_of_the_rates_it_is_given():
    rates = ClickRates(HALF_LIFE, limit=5)
    assert rates.shown(["a", "a"], 0, learn=True) == [0.1, 0.1]
    assert rates.shown(["a"], 0, learn=True) != [0.1]


def test_what_goes_to_make_room_still_has_its_rate_in_the_list_at_hand():
    rates = ClickRates(HALF_LIFE, limit=2)
    rates.shown(["a", "b"], 0, learn=True)
    expected = rates.shown(["c", "d", "a"], 0, learn=False)
    assert rates.shown(["c", "d", "a"], 0, learn=True) == expected
    assert expected[2] < 0.1


def test_the_item_least_recently_shown_or_clicked_goes_first_also_after_a_reload():
    rates = ClickRates(HALF_LIFE, limit=3)
    rates.shown(["a", "b", "c"], 0, learn=True)
    rates.clicked("a", 0)
    again = ClickRates(HALF_LIFE, limit=3)
    again.from_state(dict(sorted(rates.to_state().items(), reverse=True)))
    for both in (rates, again):
        both.shown(["d"], 1, learn=True)
        assert sorted(both.to_state()) == ["a", "c", "d"]
        both.shown(["e"], 2, learn=True)
        assert sorted(both.to_state()) == ["a", "d", "e"]
    assert rates.to_state() == again.to_state()


def test_to_ask_for_rates_changes_nothing():
    rates = ClickRates(HALF_LIFE, limit=3)
    rates.shown(["a", "b"], 0, learn=True)
    before = rates.to_state()
    rates.dirty()
    rates.shown(["a", "c", "d", "e"], 500, learn=False)
    assert (rates.to_state(), rates.dirty()) == (before, {})


def test_a_rate_long_at_rest_is_the_prior_again():
    rates = ClickRates(half_life_ms=1, limit=3)
    rates.shown(["a"], 0, learn=True)
    rates.clicked("a", 0)
    assert rates.shown(["a"], 10**15, learn=False) == [0.1]
