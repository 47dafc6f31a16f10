"""PDGD as a learner: what it shows, and what it must learn."""

import numpy as np
import pytest

from streamrank.learners.lessons import named_lessons
from streamrank.learners.pdgd import PDGD
from streamrank.learners.registry import build


def test_it_explores_less_the_surer_it_is_and_asking_changes_nothing():
    ranker = build("pdgd", {})
    assert ranker.explores
    assert not build("ranknet", {}).explores
    scores = np.array([1.0, 0.0, -1.0, 0.5])

    def orders(scores):
        return [tuple(ranker.shown_order(scores, draw).tolist()) for draw in range(300)]

    best = (0, 3, 1, 2)
    assert 0.05 < np.mean([order == best for order in orders(scores)]) < 0.4
    assert np.mean([order == best for order in orders(20 * scores)]) > 0.99
    assert orders(scores) == orders(scores)
    assert build("ranknet", {}).shown_order(scores, 5).tolist() == list(best)


@pytest.mark.parametrize("kind", ["list", "pair", "example", "every other", "scored"])
def test_it_learns_a_known_taste_from(kind):
    ranker = PDGD(rate=0.1)
    for lesson in named_lessons(600, seed=1, kinds=(kind,)):
        lesson.teach(ranker)
    wrong = total = 0
    for lesson in named_lessons(100, seed=2, kinds=("list",)):
        order = {k: place for place, k in enumerate(ranker.rank(lesson.xs))}
        for i, y in enumerate(lesson.ys):
            for j, other in enumerate(lesson.ys):
                if y > other:
                    total += 1
                    wrong += order[i] > order[j]
    assert wrong / total < 0.12
