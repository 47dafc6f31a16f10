from datetime import UTC, datetime, timedelta, timezone

import pytest
from hypothesis import given
from hypothesis import strategies as st

from streamrank.errors import MalformedEvent
from streamrank.events.stamps import to_ms

MS = 1_599_391_467_000  # 2020-09-06T11:24:27Z


@pytest.mark.parametrize(
    ("stamp", "ms"),
    [
        (MS, MS),
        (float(MS), MS),
        (MS + 0.75, MS),
        ("1599391467000", MS),
        (" 1599391467000 ", MS),
        ("2020-09-06T11:24:27Z", MS),
        ("2020-09-06T11:24:27", MS),
        ("2020-09-06 11:24:27", MS),
        ("2020-09-06T13:24:27+02:00", MS),
        ("2020-09-06T11:24:27.123456Z", MS + 123),
        ("2020-09-06", 1_599_350_400_000),
        ("1970-01-01T00:00:00Z", 0),
        (0, 0),
        (99_999_999, 99_999_999),
        (10**11, 10**11),
        (10**14 - 1, 10**14 - 1),
    ],
)
def test_every_accepted_form_gives_integer_milliseconds(stamp, ms):
    result = to_ms(stamp)
    assert (result, type(result)) == (ms, int)


@pytest.mark.parametrize(
    ("stamp", "word"),
    [
        (-1, "before 1970"),
        (-0.5e9, "before 1970"),
        ("1969-12-31T23:59:59Z", "before 1970"),
        (100_000_000, "seconds"),
        (1_599_391_467, "seconds"),
        (99_999_999_999, "seconds"),
        (1_599_391_467.5, "seconds"),
        ("1599391467", "seconds"),
        (10**14, "micro"),
        (1_599_391_467_000_000_000, "micro"),
        (10**400, "micro"),
        ("1972-05-05", "before March 1973"),
        ("9999-01-01", "micro"),
        (float("nan"), "no time"),
        (float("inf"), "no time"),
        (True, "no time"),
        ("", "no time"),
        ("9" * 5000, "no time"),
        ("-5", "no time"),
        ("\u0661\u0662\u0663", "no time"),
        ("2020-13-01", "no time"),
        ("2020-09-06T25:00:00Z", "no time"),
        ("1599391467000ms", "no time"),
    ],
)
def test_what_is_no_time_in_milliseconds_is_refused_with_a_reason(stamp, word):
    with pytest.raises(MalformedEvent, match=word) as caught:
        to_ms(stamp)
    assert (caught.value.kind, caught.value.where) == ("bad-timestamp", "$.timestamp")
    assert len(str(caught.value)) < 250


@given(
    st.datetimes(datetime(1974, 1, 1), datetime(5000, 1, 1)),
    st.none() | st.integers(-14 * 60, 14 * 60).map(lambda minutes: timezone(timedelta(minutes=minutes))),
)
def test_an_iso_string_means_the_millisecond_it_falls_into(moment, zone):
    ms = to_ms(moment.replace(tzinfo=zone).isoformat())
    start = datetime(1970, 1, 1, tzinfo=UTC) + timedelta(milliseconds=ms)
    assert start <= moment.replace(tzinfo=zone or UTC) < start + timedelta(milliseconds=1)


@given(st.integers() | st.floats() | st.text() | st.datetimes().map(str))
def test_any_stamp_is_refused_or_gives_an_integer_that_is_accepted_again(stamp):
    try:
        ms = to_ms(stamp)
    except MalformedEvent:
        return
    assert to_ms(ms) == ms == to_ms(str(ms))
