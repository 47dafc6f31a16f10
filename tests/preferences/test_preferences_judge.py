import numpy as np
import pytest

from streamrank.config import JoinSettings, JudgeSettings
from streamrank.events.codec import Decoder
from streamrank.events.types import Interaction, Ranking
from streamrank.features.batch import BY_LABEL, EVERY_OTHER, Rows
from streamrank.preferences.join import Join
from streamrank.preferences.judge import LEAST_THETA, MAX_RANKS, Judge
from streamrank.preferences.shown import Shown
from streamrank.simulation.clicks import position_theta
from streamrank.simulation.stream import Settings, Simulator
from streamrank.state.values import decode, encode


def ranking(*clicked: int, n: int = 4, shuffled: bool = False, propensities=None) -> Shown:
    shown = Shown(0, "r", 0, [str(k) for k in range(n)], Rows(n, np.empty(0, np.int32), np.empty(0)))
    shown.shuffled, shown.propensities = shuffled, propensities
    shown.grades = dict.fromkeys(clicked, 1.0)
    return shown


def feed(judge: Judge, clicks: list[int], times: int, n: int = 4) -> None:
    """So many shuffled rankings shown, and so many of them clicked at each rank."""
    for _ in range(times):
        judge.shown(ranking(n=n, shuffled=True))
    for place, count in enumerate(clicks):
        for _ in range(count):
            judge.judge(ranking(place, n=n, shuffled=True), {place: 0.0})


def test_theta_comes_from_the_event_then_from_the_settings_then_from_shuffled_rankings():
    judge = Judge(JudgeSettings(theta=[1.0, 0.5], min_shuffled=10))
    assert judge.theta(ranking(propensities=[0.9, 0.8, 0.7, 0.6])) == [0.9, 0.8, 0.7, 0.6]
    assert judge.theta(ranking()) == [1.0, 0.5, 0.5, 0.5]
    feed(judge, [8, 2, 2, 2], 10)
    assert judge.theta(ranking()) == [1.0, 0.5, 0.5, 0.5]
    judge = Judge(JudgeSettings(min_shuffled=10))
    assert judge.theta(ranking()) is None
    feed(judge, [8, 4, 2, 1], 10)
    assert judge.theta(ranking(n=6)) == [1.0, 0.5, 0.25, 0.125, 0.125, 0.125]


def test_weights_are_one_over_theta_up_to_the_clip():
    shown = ranking(2, propensities=[1.0, 0.5, 0.05, 0.001])
    assert Judge(JudgeSettings(clip=10.0)).judge(shown, {2: 0.0}).c == [0.0, 0.0, 10.0, 0.0]
    assert Judge(JudgeSettings(clip=0.0)).judge(shown, {2: 0.0}).c == [0.0, 0.0, 20.0, 0.0]


def test_auto_learns_from_the_unclicked_until_theta_is_measured_and_by_ips_from_then_on():
    judge = Judge(JudgeSettings(min_shuffled=10))
    feed(judge, [8, 4, 2, 1], 9)
    assert judge.judge(ranking(1), {1: 0.0}) == ([0.0, 1.0, 0.0, 0.0], [0.0, 1.0, 0.0, 0.0], BY_LABEL, ())
    judge.shown(ranking(shuffled=True))
    assert judge.judge(ranking(1), {1: 0.0}) == ([0.0, 1.0, 0.0, 0.0], [0.0, 2.0, 0.0, 0.0], EVERY_OTHER, ())


def test_auto_is_ips_at_once_for_a_list_that_brings_its_propensities():
    judge = Judge(JudgeSettings())
    assert judge.judge(ranking(1, propensities=[1.0, 0.5, 0.5, 0.5]), {1: 0.0}).mode == EVERY_OTHER
    assert judge.judge(ranking(1), {1: 0.0}).mode == BY_LABEL


def test_rankings_in_the_usual_order_measure_nothing():
    judge = Judge(JudgeSettings(min_shuffled=1))
    judge.shown(ranking())
    judge.judge(ranking(0), {0: 0.0})
    assert (judge.measured(), judge.to_state(), judge.dirty()) == (None, {}, {})


def test_without_a_click_at_the_first_rank_nothing_is_measured():
    judge = Judge(JudgeSettings(min_shuffled=5))
    feed(judge, [0, 3], 10)
    assert judge.measured() is None


def test_a_purchase_after_a_click_is_not_counted_again():
    judge = Judge(JudgeSettings(min_shuffled=4))
    feed(judge, [4, 2], 4)
    judge.judge(ranking(1, shuffled=True), {1: 1.0})
    assert judge.measured() == [1.0, 0.5, LEAST_THETA, LEAST_THETA]


def test_a_rank_that_few_shuffled_lists_reach_takes_the_theta_of_the_last_that_many_reached():
    judge = Judge(JudgeSettings(min_shuffled=10))
    feed(judge, [8, 4], 10, n=2)
    feed(judge, [0, 0, 0, 3], 3, n=4)  # three long lists, each clicked at the very end
    assert judge.measured() == [1.0, 0.5]
    assert judge.theta(ranking()) == [1.0, 0.5, 0.5, 0.5]


def test_theta_stays_between_its_floor_and_one():
    judge = Judge(JudgeSettings(min_shuffled=10, clip=0.0))
    feed(judge, [2, 9, 0, 1], 10)
    assert judge.measured() == [1.0, 1.0, LEAST_THETA, 0.5]


def test_ranks_beyond_the_last_counted_are_bounded():
    judge = Judge(JudgeSettings(min_shuffled=1))
    shown = ranking(0, MAX_RANKS + 5, n=MAX_RANKS + 10, shuffled=True)
    judge.shown(shown)
    judge.judge(shown, {0: 0.0, MAX_RANKS + 5: 0.0})
    assert len(judge.to_state()["shown"]) == len(judge.measured()) == MAX_RANKS
    assert len(judge.theta(shown)) == MAX_RANKS + 10


def test_reloaded_after_every_list_it_goes_on_as_if_it_never_was():
    rng, settings = np.random.default_rng(3), JudgeSettings(min_shuffled=20)
    straight, reloaded, mirror = Judge(settings), Judge(settings), {}
    for _ in range(120):
        n, shuffled = int(rng.integers(1, 6)), bool(rng.random() < 0.7)
        clicked = np.flatnonzero(rng.random(n) < 0.4).tolist()
        for judge in (straight, reloaded):
            judge.shown(ranking(n=n, shuffled=shuffled))
        shown, new = ranking(*clicked, n=n, shuffled=shuffled), dict.fromkeys(clicked, 0.0)
        assert straight.judge(shown, new) == reloaded.judge(shown, new)
        mirror |= {key: encode(value) for key, value in reloaded.dirty().items()}
        assert mirror == {key: encode(value) for key, value in straight.to_state().items()}
        reloaded = Judge(settings)
        reloaded.from_state({key: decode(value) for key, value in mirror.items()})
        assert reloaded.dirty() == {}
    assert straight.measured() is not None


@pytest.mark.parametrize("settle_ms", [0, 600_000])
def test_theta_measured_on_a_shuffled_stream_comes_within_four_standard_errors_of_the_truth(settle_ms):
    simulator = Simulator(Settings(events=16_000, seed=11, shown=6, candidates=6, shuffled=1.0))
    join, judge = Join(JoinSettings(settle_ms=settle_ms), {"purchase": 3.0}), Judge(JudgeSettings())
    decoder, now = Decoder(), 0
    rows = Rows(6, np.empty(0, np.int32), np.empty(0))
    for value in simulator.records():
        for event in decoder.decode(value):
            if isinstance(event, Ranking):
                now = max(now, event.time_ms)
                join.expire(now)
                judge.shown(join.show(event, rows, now))
            elif isinstance(event, Interaction):
                now = max(now, event.time_ms)
                join.click(event, now)
            for shown in join.due(now):
                judge.judge(shown, shown.pending)
                join.judged(shown)
    state, theta, truth = judge.to_state(), np.array(judge.measured()), position_theta(6)
    shown, rate = state["shown"], state["clicked"] / state["shown"]
    assert shown[0] == simulator.counts["ranking"] > 5000
    # of a ratio of two rates, by the delta method
    relative = (1 - rate) / (rate * shown)
    error = truth * np.sqrt(relative + relative[0])
    assert (np.abs(theta - truth)[1:] < 4 * error[1:]).all()
    assert (4 * error[1:] < 0.1).all()  # so that it says something
