"""Whatever comes in whatever order, and wherever it is cut: the same is learnt, each click once."""

from collections import defaultdict

import numpy as np
from hypothesis import given
from hypothesis import settings as running
from hypothesis import strategies as st

from streamrank.config import JoinSettings
from streamrank.events.clock import EventClock
from streamrank.events.types import Interaction, Item, Ranking
from streamrank.features.batch import Rows
from streamrank.preferences.join import Join
from streamrank.state.values import decode, encode

GRADES = {"click": 1.0, "purchase": 3.0}
FEW = running(deadline=None, max_examples=150)
NAMES = st.sampled_from(["r0", "r1", "r2", "r3"])
PEOPLE = st.sampled_from([None, "", "s", "t"])
TIMES = st.integers(1, 400)
RANKINGS = st.builds(
    lambda name, at, items, session, user, shuffled: Ranking(
        id=name,
        timestamp=at,
        items=[Item(item, propensity=0.5) for item in items],
        session=session,
        user=user,
        shuffled=shuffled,
    ),
    NAMES,
    TIMES,
    st.lists(st.sampled_from("abcd"), min_size=1, unique=True),
    PEOPLE,
    PEOPLE,
    st.booleans(),
)
CLICKS = st.builds(
    lambda name, at, item, kind, session, user: Interaction(
        id="c", timestamp=at, item=item, type=kind, ranking=name, session=session, user=user
    ),
    st.none() | NAMES,
    TIMES,
    st.sampled_from("abcde"),
    st.sampled_from(["click", "purchase"]),
    PEOPLE,
    PEOPLE,
)
EVENTS = st.lists(RANKINGS | CLICKS, max_size=40)
SETTINGS = st.builds(
    JoinSettings,
    window_ms=st.sampled_from([40, 150]),
    lateness_ms=st.sampled_from([0, 60, 400]),
    settle_ms=st.sampled_from([0, 0, 25, 1000]),
    max_open=st.sampled_from([1, 2, 100]),
)


def take(join: Join, clock: EventClock, event: Ranking | Interaction) -> list:
    """One event as the flow takes it; returns all that came of it."""
    if clock.is_late(event.time_ms):
        return ["late"]
    clock.observe(event.time_ms)
    said: list = []
    if isinstance(event, Interaction):
        said.append(join.click(event, clock.now))
    else:
        n = len(event.items)
        join.expire(clock.watermark)
        said.append(
            join.show(event, Rows(n, np.arange(2, dtype=np.int32), np.arange(2.0 * n)), clock.now).number
        )
    return said + drain(join, clock.now)


def drain(join: Join, now: int) -> list:
    said: list = []
    for shown in join.due(now):
        # the order of the pending clicks is the order of the pairs: lists, not tables
        said.append(
            [shown.number, shown.id, list(shown.pending.items()), shown.labels(), shown.labels_before()]
        )
        said.append(encode([shown.rows.columns, shown.rows.values, shown.items, shown.propensities]))
        join.judged(shown)
        if shown.index < 0:
            shown.index = shown.number
            shown.scores["model"] = np.arange(3.0) * shown.number
    return said


def bits(state: dict) -> dict[str, bytes]:
    return {key: encode(value) for key, value in state.items()}


def commit(mirror: dict[str, bytes], changed: dict) -> None:
    for key, value in changed.items():
        if value is None:
            mirror.pop(key, None)
        else:
            mirror[key] = encode(value)


@FEW
@given(SETTINGS, EVENTS, st.integers(1, 5))
def test_what_is_written_as_it_changes_is_the_whole_state_at_every_commit(settings, events, every):
    join, clock, mirror = Join(settings, GRADES), EventClock(settings.lateness_ms), {}
    for k, event in enumerate(events):
        take(join, clock, event)
        if k % every == 0:
            commit(mirror, join.dirty())
            assert mirror == bits(join.to_state())
        assert len(join) <= settings.max_open
        assert join._n_waiting <= settings.max_open


@FEW
@given(SETTINGS, EVENTS, st.integers(1, 5))
def test_a_join_reloaded_again_and_again_goes_on_as_one_that_never_was(settings, events, every):
    straight, reloaded, mirror = Join(settings, GRADES), Join(settings, GRADES), {}
    clock, other_clock = EventClock(settings.lateness_ms), EventClock(settings.lateness_ms)
    for k, event in enumerate(events):
        assert take(straight, clock, event) == take(reloaded, other_clock, event)
        if k % every == 0:
            commit(mirror, reloaded.dirty())
            reloaded = Join(settings, GRADES)
            reloaded.from_state({key: decode(mirror[key]) for key in sorted(mirror, reverse=True)})
        assert bits(straight.to_state()) == bits(reloaded.to_state())
    for join in (straight, reloaded):
        join.expire(10**6)
    assert drain(straight, 10**6) == drain(reloaded, 10**6)


@FEW
@given(SETTINGS, EVENTS)
def test_whatever_is_counted_is_learnt_exactly_once_by_the_time_all_is_closed(settings, events):
    join, clock = Join(settings, GRADES), EventClock(settings.lateness_ms)
    grade: dict[tuple[int, int], float] = defaultdict(float)  # (ranking, place) -> the last one learnt
    said: list = []
    for event in events:
        said += take(join, clock, event)
    opened = {shown.number: shown for shown in join._open.values()}
    join.expire(10**6)
    said += drain(join, 10**6)
    for number, _, pending, labels, before in (one for one in said if isinstance(one, list)):
        assert pending
        for place, was in pending:
            # what it was learnt with before is what it was learnt with last, and now it is more
            assert grade[number, place] == was == before[place] < labels[place]
            grade[number, place] = labels[place]
    for number, shown in opened.items():
        assert {place: grade[number, place] for place in shown.grades} == shown.grades
    assert (len(join), join._n_waiting, join._visitors) == (0, 0, {})
    assert set(join.to_state()) == {"counts"}


@FEW
@given(EVENTS)
def test_what_is_learnt_of_each_item_in_the_end_does_not_depend_on_settle_ms(events):
    learnt = []
    for settle_ms in (0, 25, 10**6):
        settings = JoinSettings(window_ms=150, lateness_ms=60, settle_ms=settle_ms, max_open=3)
        join, clock = Join(settings, GRADES), EventClock(60)
        said: list = []
        for event in events:
            said += take(join, clock, event)
        join.expire(10**6)
        said += drain(join, 10**6)
        total: dict[tuple[int, int], float] = defaultdict(float)
        for number, _, pending, labels, _ in (one for one in said if isinstance(one, list)):
            for place, was in pending:
                total[number, place] += labels[place] - was
        learnt.append(total)
    assert learnt[0] == learnt[1] == learnt[2]


def test_the_order_of_clicks_that_wait_to_be_judged_survives_a_reload():
    settings = JoinSettings(settle_ms=100)
    join = Join(settings, GRADES)
    shown = Ranking(id="r", timestamp=1, items=[Item(item) for item in "abc"])
    join.show(shown, Rows(3, np.arange(2, dtype=np.int32), np.zeros(6)), 1)
    for item in "cab":
        join.click(Interaction(id=item, timestamp=2, item=item, type="click", ranking="r"), 2)
    again = Join(settings, GRADES)
    again.from_state({key: decode(value) for key, value in bits(join.to_state()).items()})
    (one,) = again.due(102)
    assert list(one.pending) == [2, 0, 1]


def test_what_falls_due_first_falls_due_first_after_a_reload():
    settings = JoinSettings(settle_ms=100)
    join = Join(settings, GRADES)
    for name in ("r0", "r1", "r2"):
        shown = Ranking(id=name, timestamp=1, items=[Item("a")])
        join.show(shown, Rows(1, np.arange(2, dtype=np.int32), np.zeros(2)), 1)
    for at, name in ((10, "r2"), (20, "r1"), (30, "r0")):
        join.click(Interaction(id=name, timestamp=at, item="a", type="click", ranking=name), at)
    again = Join(settings, GRADES)
    again.from_state({key: decode(value) for key, value in bits(join.to_state()).items()})
    assert [[one.id for one in again.due(now)] for now in (109, 110, 129, 130)] == [
        [],
        ["r2"],
        ["r1"],
        ["r0"],
    ]


def test_a_ranking_that_came_was_clicked_and_closed_between_two_commits_leaves_nothing_in_the_store():
    join = Join(JoinSettings(max_open=1), GRADES)
    for name, at in (("r0", 1), ("r1", 5)):
        shown = Ranking(id=name, timestamp=at, items=[Item("a")])
        join.show(shown, Rows(1, np.arange(2, dtype=np.int32), np.zeros(2)), at)
        join.click(Interaction(id=name, timestamp=at, item="a", type="click", ranking=name), at)
        drain(join, at)
    assert set(join.dirty()) == {"counts", "open/1", "click/1"}
