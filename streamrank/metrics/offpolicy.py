"""Off-policy estimates: what clicks on lists that were shown say of an order that was not.

The click model is position-based: an item of attraction r at rank k is clicked with chance theta_k r,
whatever stands above it; theta_k is the propensity of rank k. An item clicked at rank k, put at rank k' by
the candidate, then stands for theta_k'/theta_k clicks. With c the reward of each clicked item (its grade),
over n lists, clicked or not:

    IPS      (1/n) sum_lists sum_clicked c theta_k'/theta_k                                (1)
    clipped  the same with theta_k'/theta_k at most M                                      (2)
    SNIPS    (sum c theta_k'/theta_k) / (sum c/theta_k)                                    (3)

(1) is the reward a list that the candidate would get, without bias if theta is right up to a constant factor.
(2) never exceeds (1): rewards are not negative, so what is cut off is missing, and its bias is downwards; its
variance is bounded. (3) is the chance that what people like is looked at, the mean of theta_k' over what they
like, sum c/theta_k being how much that is: it lies between the lowest and the highest theta, and does not
move when lists happen to be clicked more; adding a constant to every theta_k' adds the same constant to it,
which (1) does not do. Its bias is of order 1/n.
"""

import math
from typing import NamedTuple

import numpy as np

from ..features.batch import Floats, Ints
from .intervals import Z


class Estimate(NamedTuple):
    """A value, its standard error, and the interval that covers the truth in 95 of 100 logs."""

    value: float
    error: float
    low: float
    high: float


class Estimates(NamedTuple):
    """What a log says of one candidate; `lift` is its IPS less that of the order shown, list by list."""

    ips: Estimate
    snips: Estimate
    clipped: Estimate
    lift: Estimate
    largest_weight: float
    effective_clicks: float  # (sum w)^2 / sum w^2: as many clicks of equal weight would say as much


def off_policy(
    lists: Ints, rewards: Floats, shown: Floats, candidate: Floats, n_lists: int, clip: float
) -> Estimates:
    """The estimates from every clicked item: the number of its list, reward, theta where it was shown and
    where the candidate puts it. Lists are taken as independent; theta as known, not as estimated.

    >>> found = off_policy(np.array([0, 2]), np.ones(2), np.array([1.0, 0.5]), np.array([0.5, 1.0]), 4, 10.0)
    >>> found.ips.value, round(found.snips.value, 3), found.lift.value
    (0.625, 0.833, 0.125)
    """
    weights = candidate / shown
    total = _by_list(lists, rewards * weights, n_lists)  # (1)
    cut = _by_list(lists, rewards * np.minimum(weights, clip), n_lists)  # (2)
    squares = float(weights @ weights)
    return Estimates(
        ips=_mean(total),
        snips=_ratio(total, _by_list(lists, rewards / shown, n_lists)),  # (3)
        clipped=_mean(cut),
        lift=_mean(total - _by_list(lists, rewards, n_lists)),
        largest_weight=float(weights.max(initial=0.0)),
        effective_clicks=float(weights.sum()) ** 2 / squares if squares else 0.0,
    )


def _by_list(lists: Ints, values: Floats, n_lists: int) -> Floats:
    return np.bincount(lists, values, n_lists).astype(np.float64)


def _ratio(above: Floats, below: Floats) -> Estimate:
    """Of two sums over lists, its error by the delta method."""
    mass = float(below.sum())
    if not mass:
        return _around(math.nan, math.nan)
    ratio = float(above.sum()) / mass
    return _around(ratio, math.sqrt(float(((above - ratio * below) ** 2).sum())) / mass)


def _mean(values: Floats) -> Estimate:
    n = len(values)
    return _around(float(values.mean()), float(values.std(ddof=1)) / math.sqrt(n) if n > 1 else math.nan)


def _around(value: float, error: float) -> Estimate:
    return Estimate(value, error, value - Z * error, value + Z * error)
