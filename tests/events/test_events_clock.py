import pytest
from hypothesis import given
from hypothesis import strategies as st

from streamrank.errors import ConfigError, SnapshotError
from streamrank.events.clock import EventClock

JUMP = 100


def clock(*times: int, confirm: int = 4, lateness_ms: int = 10) -> EventClock:
    made = EventClock(lateness_ms=lateness_ms, jump_ms=JUMP, confirm=confirm)
    for time_ms in times:
        made.observe(time_ms)
    return made


def by_hand(times: list[int], confirm: int) -> list[int]:
    """The rules of the docstring, read off the whole history instead of kept in counters."""
    now, n_agreed, run, result = None, 0, [], []
    for t in times:
        if now is None:
            now, n_agreed = t, 1
        else:
            settled = n_agreed >= confirm
            side = 1 if t > now + JUMP else -1 if t < now - JUMP else 0
            run = [*run, (side, t)]
            tail = run[-confirm:]
            if side == 0:
                now, n_agreed = max(now, t), n_agreed + 1
            elif len(tail) == confirm and all(s == side for s, _ in tail) and (side == 1 or not settled):
                now = min(t for _, t in tail) if side == 1 else max(t for _, t in tail)
                n_agreed, run = confirm, []
        result.append(now)
    return result


times = st.lists(st.integers(1, 5000) | st.integers(1, 150), max_size=60)


@given(times, st.integers(1, 5))
def test_the_clock_follows_the_rules_it_documents(sequence, confirm):
    made = clock(confirm=confirm)
    seen = []
    for time_ms in sequence:
        made.observe(time_ms)
        seen.append(made.now)
    assert seen == by_hand(sequence, confirm)


@given(times, st.integers(1, 5))
def test_now_and_watermark_move_back_once_at_most_and_never_after_the_clock_is_settled(sequence, confirm):
    made = clock(confirm=confirm)
    steps_back = 0
    for time_ms in sequence:
        before, mark, settled = made.now, made.watermark, made.to_state()["agreed"] >= confirm
        made.observe(time_ms)
        if made.now < before:
            steps_back += 1
            assert not settled
        else:
            assert made.watermark >= mark
        assert made.watermark == max(0, made.now - 10)
        assert made.now in (0, *sequence)
    assert steps_back <= 1


@given(times, st.integers(0, 60))
def test_a_clock_restored_anywhere_goes_on_as_if_never_stopped(sequence, cut):
    whole, first = clock(*sequence), clock(*sequence[:cut])
    second = clock()
    second.from_state(first.to_state())
    assert second.to_state() == first.to_state()
    for time_ms in sequence[cut:]:
        second.observe(time_ms)
    assert second.to_state() == whole.to_state()


def test_before_the_first_event_it_is_zero_and_nothing_is_late():
    assert (clock().now, clock().watermark, clock().is_late(1)) == (0, 0, False)


def test_the_watermark_trails_now_and_is_never_negative():
    assert (clock(5).watermark, clock(50).watermark) == (0, 40)
    assert [clock(50).is_late(t) for t in (39, 40, 41)] == [True, False, False]


def test_an_event_in_order_moves_the_clock_and_one_out_of_order_does_not():
    assert clock(50, 150, 120).now == 150


def test_one_future_event_moves_nothing_and_leaves_no_mark():
    assert clock(50, 9_000_000).now == 50
    assert clock(50, 9000, 9000, 9000, 51, 9000).now == 51


def test_enough_events_far_ahead_in_a_row_move_the_clock_to_the_smallest_of_them():
    assert clock(50, 9003, 9001, 9002).now == 50
    assert clock(50, 9003, 9001, 9002, 9004).now == 9001
    assert clock(50, 9003, 9001, 9002, 9004, 9004).now == 9004


def test_a_future_dated_first_event_is_forgotten_after_enough_events_far_behind():
    assert clock(9_000_000, 50, 52, 51).now == 9_000_000
    assert clock(9_000_000, 50, 52, 51, 49).now == 52
    assert clock(9_000_000, 50, 52, 51, 49).watermark == 42


def test_once_enough_events_agree_no_number_of_old_ones_moves_the_clock_back():
    assert clock(9000, 9001, 9002, 9003, *[50] * 100).now == 9003
    assert clock(9000, 9001, 9002, *[50] * 4).now == 50


def test_an_event_without_a_time_is_passed_over():
    assert clock(0, 0, 9000).now == 9000
    assert clock(50, 9000, 9000, 0, 9000, 9000).now == 9000


@pytest.mark.parametrize(
    "setting", [{"lateness_ms": -1}, {"jump_ms": 0}, {"confirm": 0}, {"confirm": 1.5}, {"jump_ms": True}]
)
def test_a_setting_out_of_range_is_refused_at_construction(setting):
    with pytest.raises(ConfigError, match=next(iter(setting))):
        EventClock(**setting)


def test_a_state_with_unknown_or_missing_keys_is_refused():
    state = clock(5).to_state()
    for wrong in ({}, {**state, "more": 1}, {k: v for k, v in state.items() if k != "now"}):
        with pytest.raises(SnapshotError, match="clock"):
            clock().from_state(wrong)
