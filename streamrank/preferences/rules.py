"""What clicks say of a list: one named function a rule.

Every rule takes a shown ranking, its new clicks (place -> the grade it was learnt with before, 0 if never)
and the weight 1/theta of each place, clipped (None while theta, the chance that a place was looked at, is not
known), and returns a `Judgement`. Places clicked earlier were learnt when they came; their weight is 0 now,
so every click is learnt once.

Skip-above and last-click are here to be compared with and to warn of: each of their pairs contradicts the
order shown, so a ranker trained on them alone learns that order reversed.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

from ..features.batch import BY_LABEL, EVERY_OTHER, EXPLICIT, SCORED
from .shown import Shown

New = Mapping[int, float]
Weights = Sequence[float] | None


class Judgement(NamedTuple):
    """Labels y and weights c of a list, and how its pairs follow from them (see `features.batch`)."""

    y: list[float]
    c: list[float]
    mode: int
    pairs: Sequence[tuple[int, int, float]] = ()


def unclicked(shown: Shown, new: New, weights: Weights) -> Judgement:
    """A click beats every item shown and not clicked so far (or with a lower grade), its grade for weight.

    A purchase after a click adds the difference. What is clicked later was not known to be: with `settle_ms`
    the clicks of a ranking gather, and do not beat each other.
    """
    c = [0.0] * len(shown.items)
    for place, before in new.items():
        c[place] = shown.grades[place] - before
    return Judgement(shown.labels(), c, BY_LABEL)


def ips(shown: Shown, new: New, weights: Weights) -> Judgement:
    """A click beats every other item shown, with weight 1/theta a grade: unbiased if theta is right.

    Where theta is not known the list teaches nothing.
    """
    c = [0.0] * len(shown.items)
    if weights is not None:
        for place, before in new.items():
            c[place] = (shown.grades[place] - before) * weights[place]
    return Judgement(shown.labels(), c, EVERY_OTHER)


def scored(shown: Shown, new: New, weights: Weights) -> Judgement:
    """The whole list with labels y = grade/theta, at each judgement: set `settle_ms` so that clicks gather.

    Learnt click by click, the earlier ones are learnt again with each later one.
    """
    c = [1.0] * len(shown.items) if weights is None else list(weights)
    return Judgement(shown.labels(), c, SCORED)


def skip_above(shown: Shown, new: New, weights: Weights) -> Judgement:
    """A click beats the items above it that were not clicked. Reverses the logger: for comparison only."""
    pairs = [(place, above, 1.0) for place in new for above in range(place) if above not in shown.grades]
    return Judgement(shown.labels(), [1.0] * len(shown.items), EXPLICIT, pairs)


def last_click(shown: Shown, new: New, weights: Weights) -> Judgement:
    """As skip-above, for the last of the clicks that came together: comparison only.

    Where each click is learnt as it comes (`settle_ms` 0), it is skip-above.
    """
    last = list(new)[-1]
    return skip_above(shown, {last: new[last]}, weights)


def fair_pairs(shown: Shown, new: New, weights: Weights) -> Judgement:
    """In a swapped pair of neighbours, the lower one clicked and the upper not: the lower is better.

    Only rankings that say which pairs were swapped at random (`fair_pairs`) teach anything.
    """
    first = shown.fair_pairs
    pairs = [
        (place, place - 1, 1.0)
        for place in new
        if first is not None and place > first and (place - first) % 2 == 1 and place - 1 not in shown.grades
    ]
    return Judgement(shown.labels(), [1.0] * len(shown.items), EXPLICIT, pairs)


Rule = Callable[[Shown, New, Weights], Judgement]
RULES: dict[str, Rule] = {
    "unclicked": unclicked,
    "ips": ips,
    "scored": scored,
    "skip-above": skip_above,
    "last-click": last_click,
    "fair-pairs": fair_pairs,
}
