"""How people click: models of examination and of attraction by grade.

Each model is a function of the grades (0..4) of a list, from the top down, and of a generator; it returns
which items were clicked. `noise` is the share of decisions made by tossing a coin: with it P becomes
(1 - noise) P + noise / 2.
"""

from typing import Protocol

import numpy as np
import numpy.typing as npt

from streamrank.errors import ConfigError
from streamrank.simulation.draws import Floats, Ints

Clicks = npt.NDArray[np.bool_]


class ClickModel(Protocol):
    """Which items of a list, given their grades from the top down, were clicked."""

    def __call__(self, relevance: Ints, rng: np.random.Generator, /, *, noise: float = 0.0) -> Clicks:
        """One list, one user."""
        ...


ATTRACTION = np.array([0.05, 0.15, 0.35, 0.6, 0.9])  # P(click | examined) by grade
PERFECT = np.array([0.0, 0.2, 0.4, 0.8, 1.0])
# A cascade: P(click | examined) and P(stop | clicked), by grade.
NAVIGATIONAL = (np.array([0.05, 0.3, 0.5, 0.7, 0.95]), np.array([0.2, 0.3, 0.5, 0.7, 0.9]))
INFORMATIONAL = (np.array([0.4, 0.6, 0.7, 0.8, 0.9]), np.array([0.1, 0.2, 0.3, 0.4, 0.5]))


def pbm(
    relevance: Ints, rng: np.random.Generator, theta: Floats | None = None, *, noise: float = 0.0
) -> Clicks:
    """Position-based: rank k is examined with probability theta_k, whatever stands above it.

    P(click at k) = theta_k ((1 - noise) a(grade_k) + noise / 2), with theta_k = 1/k unless given.

    >>> from streamrank.simulation.draws import generator
    >>> pbm(np.array([4, 0, 4]), generator(1))
    array([ True, False,  True])
    """
    examined = position_theta(len(relevance)) if theta is None else theta
    return rng.random(len(relevance)) < examined * _stirred(ATTRACTION, noise)[relevance]


def perfect(relevance: Ints, rng: np.random.Generator, *, noise: float = 0.0) -> Clicks:
    """Every item is examined and nobody stops; grade 0 is never clicked, grade 4 always."""
    return rng.random(len(relevance)) < _stirred(PERFECT, noise)[relevance]


def navigational(relevance: Ints, rng: np.random.Generator, *, noise: float = 0.0) -> Clicks:
    """Cascade of someone after one good result: clicks what looks right and seldom goes on."""
    return _cascade(relevance, rng, *NAVIGATIONAL, noise)


def informational(relevance: Ints, rng: np.random.Generator, *, noise: float = 0.0) -> Clicks:
    """Cascade of someone who collects: clicks nearly anything and often goes on."""
    return _cascade(relevance, rng, *INFORMATIONAL, noise)


CLICK_MODELS: dict[str, ClickModel] = {
    "pbm": pbm,
    "cascade": informational,
    "perfect": perfect,
    "navigational": navigational,
    "informational": informational,
}


def spread_grades(y: npt.NDArray[np.float64]) -> Ints:
    """Labels 0..max as grades 0..4, spread evenly: of three labels the middle one is grade 2.

    The tables above are those usual in online learning to rank for five grades, [1] table 1. For labels 0..2
    and 0..1 every entry but one is that of the grades spread so: navigational clicks .05, .5, .95 and stops
    .2, .5, .9; informational .4, .7, .9 and .1, .3, .5. (A perfect user clicks label 1 of 2 with .4 here, .5
    in [1].) Labels below 0 are grade 0.

    >>> spread_grades(np.array([0.0, 1.0, 2.0])), spread_grades(np.array([1.0, 0.0, 3.0, 4.0]))
    (array([0, 2, 4]), array([1, 0, 3, 4]))

    References
    ----------
    [1] Differentiable unbiased online learning to rank (Oosterhuis, de Rijke), CIKM 2018.
    """
    highest = max(float(y.max(initial=0.0)), 1.0)
    return np.round(np.maximum(y, 0.0) * (len(ATTRACTION) - 1) / highest).astype(np.int64)


def position_theta(n: int, eta: float = 1.0) -> Floats:
    """Return theta_k = (1/k)^eta for ranks 1..n.

    >>> position_theta(4)
    array([1.        , 0.5       , 0.33333333, 0.25      ])
    """
    ranks: Floats = np.arange(1, n + 1, dtype=np.float64)
    inverse: Floats = 1.0 / ranks
    return inverse if eta == 1.0 else inverse**eta


def theta(name: str, n: int) -> Floats | None:
    """Return the examination probabilities by rank; None for a cascade, where they depend on the list."""
    if name not in CLICK_MODELS:
        raise ConfigError(f"click_model = {name!r}: known are {', '.join(CLICK_MODELS)}")
    if name == "pbm":
        return position_theta(n)
    return np.ones(n) if name == "perfect" else None


def _stirred(probability: Floats, noise: float) -> Floats:
    return probability if noise == 0.0 else (1.0 - noise) * probability + noise / 2.0


def _cascade(relevance: Ints, rng: np.random.Generator, click: Floats, stop: Floats, noise: float) -> Clicks:
    """From the top down: click with click[grade], and after a click stop with stop[grade]."""
    # all numbers are drawn at once, used or not: what follows does not depend on where this person stopped
    draws = rng.random((2, len(relevance)))
    clicked: Clicks = draws[0] < _stirred(click, noise)[relevance]
    stops = np.flatnonzero(clicked & (draws[1] < stop[relevance]))
    if len(stops):
        clicked[stops[0] + 1 :] = False
    return clicked
