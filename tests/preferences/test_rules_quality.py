"""What each rule makes of a deterministic log: 10 of 20 documents shown in a fixed order, PBM clicks.

A rule recovers (its NDCG@10 - the logger's)/(that of full labels - the logger's) of the gap, on lists never
shown. Skip-above must reverse the ranker; IPS with the true theta must recover over 80 %.
"""

from typing import NamedTuple

import numpy as np
import pytest

from streamrank.config import JudgeSettings
from streamrank.features.batch import BY_LABEL, BatchBuilder, Rows
from streamrank.learners.ranknet import RankNet
from streamrank.preferences.judge import Judge
from streamrank.preferences.shown import Shown
from streamrank.simulation.clicks import ATTRACTION, position_theta

N_FEATURES, N_CANDIDATES, N_SHOWN, N_LISTS, N_SESSIONS = 30, 20, 10, 1000, 100_000
QUANTILES = (0.5, 0.7, 0.85, 0.95)  # half of the documents are of grade 0, one in twenty of grade 4
THETA = position_theta(N_SHOWN)
COLUMNS = np.arange(N_FEATURES, dtype=np.int32)
NAMES = [str(place) for place in range(N_SHOWN)]
DISCOUNT = 1 / np.log2(np.arange(2, 12))


class World(NamedTuple):
    logger: np.ndarray  # weights
    shown: list[Rows]
    grades: np.ndarray  # of what was shown
    queries: np.ndarray  # which list each session saw
    clicks: np.ndarray
    test_x: np.ndarray
    test_grades: np.ndarray


def make(seed: int) -> World:
    rng = np.random.default_rng(seed)
    truth, error = (v / np.linalg.norm(v) for v in rng.standard_normal((2, N_FEATURES)))
    logger = truth + 1.5 * error
    x = rng.standard_normal((2 * N_LISTS, N_CANDIDATES, N_FEATURES))
    utility = x @ truth + 0.5 * rng.standard_normal(x.shape[:2])
    grades = np.searchsorted(np.quantile(utility, QUANTILES), utility)
    top = np.argsort(-(x[:N_LISTS] @ logger), axis=1)[:, :N_SHOWN]
    shown_x = np.take_along_axis(x[:N_LISTS], top[:, :, None], axis=1)
    shown_grades = np.take_along_axis(grades[:N_LISTS], top, axis=1)
    queries = rng.integers(N_LISTS, size=N_SESSIONS)
    clicks = rng.random((N_SESSIONS, N_SHOWN)) < THETA * ATTRACTION[shown_grades[queries]]
    rows = [Rows(N_SHOWN, COLUMNS, one.ravel()) for one in shown_x]
    return World(logger, rows, shown_grades, queries, clicks, x[N_LISTS:], grades[N_LISTS:])


def ndcg(world: World, scores: np.ndarray) -> float:
    gains = 2.0**world.test_grades - 1
    ranked = np.take_along_axis(gains, np.argsort(-scores, axis=1, kind="stable"), axis=1)[:, :10]
    best = -np.sort(-gains, axis=1)[:, :10]
    return float(np.mean((ranked @ DISCOUNT) / (best @ DISCOUNT)))


def quality(world: World, weights: np.ndarray) -> float:
    return ndcg(world, world.test_x @ weights)


def learn_clicks(world: World, judge: Judge, *, gathered: bool) -> np.ndarray:
    """The weights after all sessions; clicks judged one by one (`settle_ms` = 0), or a session's at once."""
    ranker, builder = RankNet(), BatchBuilder()
    for query, clicked in zip(world.queries.tolist(), world.clicks, strict=True):
        places = np.flatnonzero(clicked).tolist()
        if not places:
            continue
        shown = Shown(0, "", 0, NAMES, world.shown[query])
        for new in [places] if gathered else [[place] for place in places]:
            shown.grades |= dict.fromkeys(new, 1.0)
            builder.add(shown.rows, *judge.judge(shown, dict.fromkeys(new, 0.0)))
        if len(builder) >= 256:
            ranker.learn_batch(builder.build())
            builder = BatchBuilder()
    if len(builder):
        ranker.learn_batch(builder.build())
    return ranker.served_weights()[:N_FEATURES]


def learn_grades(world: World) -> np.ndarray:
    ranker, builder = RankNet(), BatchBuilder()
    for _ in range(10):
        for rows, grades in zip(world.shown, world.grades, strict=True):
            builder.add(rows, [float(grade) for grade in grades], [1.0] * N_SHOWN, BY_LABEL)
    ranker.learn_batch(builder.build())
    return ranker.served_weights()[:N_FEATURES]


pytestmark = pytest.mark.slow


@pytest.fixture(scope="module", params=[0, 1])
def world(request: pytest.FixtureRequest) -> World:
    return make(request.param)


@pytest.fixture(scope="module")
def bounds(world: World) -> tuple[float, float, float]:
    """NDCG@10 of a random order, of the logger, and of a ranker trained on the grades themselves."""
    noise = np.random.default_rng(1).random(world.test_grades.shape)
    found = ndcg(world, noise), quality(world, world.logger), quality(world, learn_grades(world))
    assert found[0] + 0.1 < found[1] < found[2] - 0.1  # else there is nothing to lose, or to gain
    return found


@pytest.mark.parametrize("rule", ["skip-above", "last-click"])
def test_pairs_that_all_contradict_the_order_shown_reverse_the_ranker(world, bounds, rule):
    random_order, _, _ = bounds
    weights = learn_clicks(world, Judge(JudgeSettings(rule=rule)), gathered=rule == "last-click")
    value = quality(world, weights)
    cosine = weights @ world.logger / np.linalg.norm(weights) / np.linalg.norm(world.logger)
    print(f"{rule}: NDCG@10 {value:.4f}, random {random_order:.4f}, cosine to the logger {cosine:.4f}")
    assert value < random_order
    assert cosine < -0.99  # not merely bad: the logger upside down


def test_the_default_rule_does_not_and_ips_with_the_true_theta_recovers_most_of_the_gap(world, bounds):
    random_order, logger, full = bounds
    rules = {
        "auto, no theta": JudgeSettings(),
        "unclicked": JudgeSettings(rule="unclicked"),
        "auto, true theta": JudgeSettings(theta=THETA.tolist()),
        "ips, true theta": JudgeSettings(rule="ips", theta=THETA.tolist()),
    }
    print(f"random {random_order:.3f}, logger {logger:.3f}, full labels {full:.3f}")
    share = {}
    for name, settings in rules.items():
        value = quality(world, learn_clicks(world, Judge(settings), gathered=False))
        share[name] = (value - logger) / (full - logger)
        print(f"{name}: NDCG@10 {value:.3f}, {share[name]:.0%} of the gap")
    assert share["auto, no theta"] == share["unclicked"] > 0.3
    assert share["auto, true theta"] == share["ips, true theta"] > 0.8
    assert share["ips, true theta"] > share["unclicked"] + 0.1


def test_clicks_gathered_over_a_session_recover_as_much(world, bounds):
    _, logger, full = bounds
    value = quality(world, learn_clicks(world, Judge(JudgeSettings(theta=THETA.tolist())), gathered=True))
    print(f"ips, gathered: NDCG@10 {value:.3f}, {(value - logger) / (full - logger):.0%} of the gap")
    assert (value - logger) / (full - logger) > 0.8


def test_the_default_rule_is_not_skip_above():
    shown = Shown(0, "", 0, NAMES, Rows(N_SHOWN, COLUMNS, np.zeros(N_SHOWN * N_FEATURES)), grades={4: 1.0})
    judgement = Judge(JudgeSettings()).judge(shown, {4: 0.0})
    assert judgement == Judge(JudgeSettings(rule="unclicked")).judge(shown, {4: 0.0})
    assert judgement != Judge(JudgeSettings(rule="skip-above")).judge(shown, {4: 0.0})
