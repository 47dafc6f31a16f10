"""RoBiRank's two types beside the logistic loss, and its sampled sums beside the full ones."""

import numpy as np
import pytest

from streamrank.features.batch import BY_LABEL
from streamrank.kernels.losses import RANKNET, ROBIRANK, loss_of
from streamrank.kernels.losses.robirank import beside, robirank

LOGISTIC, TYPE_I, TYPE_II = (RANKNET, 0.0), (ROBIRANK, 1.0), (ROBIRANK, 2.0)


def pair(loss, lead):
    """Value and slope where the relevant row of two leads by so much, or trails."""
    ds = np.empty(2)
    value = loss_of(*loss, np.array([lead, 0.0]), np.array([1.0, 0.0]), np.ones(2), BY_LABEL, ds)
    return value, -ds[0]


def test_far_down_the_logistic_loss_grows_type_one_slowly_type_two_not_at_all():
    far = [-10.0, -100.0, -300.0, -600.0]
    logistic, one, two = ([pair(loss, lead) for lead in far] for loss in (LOGISTIC, TYPE_I, TYPE_II))
    assert logistic[-1][0] / logistic[0][0] == pytest.approx(60, rel=0.01)
    assert one[-1][0] - one[0][0] == pytest.approx(np.log2(601 / 11), rel=0.01)
    assert two[0][0] < two[-1][0] < 1.0
    pulls = np.array([[slope for _, slope in some] for some in (logistic, one, two)])
    assert (pulls > 0).all()
    np.testing.assert_allclose(pulls[0], pulls[0, 0], rtol=1e-3)  # never less
    np.testing.assert_allclose(pulls[1] * (1 + np.abs(far)), 1 / np.log(2), rtol=0.01)  # as 1/distance
    assert (pulls[2] < pulls[1] / 3).all()  # vanishes sooner: what makes type II hard to learn with


def best_weight(loss, outlier):
    """Of nine lists whose relevant row leads by 1 in the only feature, and one where it trails by more."""
    sizes = np.geomspace(1e-9, 30.0, 400)

    def total(w):
        return 9 * pair(loss, w)[0] + pair(loss, -outlier * w)[0]

    return min(np.concatenate([-sizes, sizes]), key=total)


@pytest.mark.parametrize(
    ("outlier", "right"),
    [(0.5, [LOGISTIC, TYPE_I, TYPE_II]), (20.0, [TYPE_I, TYPE_II]), (1e6, [TYPE_II])],
    ids=["none", "outlier", "extreme"],
)
def test_the_order_of_nine_lists_survives_an_outlier_as_far_as_the_loss_is_robust(outlier, right):
    for loss in (LOGISTIC, TYPE_I, TYPE_II):
        assert (best_weight(loss, outlier) > 0) == (loss in right)


def test_a_sampled_sum_is_right_on_average_and_the_rows_are_as_likely_each():
    rng, generator = np.random.default_rng(0), np.array([9], np.uint64)
    terms, rows, n = np.exp(rng.normal(size=30)), np.empty(29, np.int64), 4
    sums, seen = [], np.zeros(30)
    for _ in range(20_000):
        assert beside(7, 30, n, generator, rows) == n
        sums.append(29 / n * terms[rows[:n]].sum())
        seen[rows[:n]] += 1
    error = np.std(sums) / np.sqrt(len(sums))
    assert np.mean(sums) == pytest.approx(terms.sum() - terms[7], abs=3 * error)
    assert seen[7] == 0
    share = np.delete(seen, 7) * 29 / seen.sum()
    assert np.abs(share - 1).max() < 5 * np.sqrt(29 / seen.sum())


@pytest.mark.parametrize("bounded", [False, True])
def test_slopes_of_large_samples_are_those_of_all_rows(bounded):
    rng = np.random.default_rng(1)
    s, y, c = 2 * rng.normal(size=200), (rng.random(200) < 0.05).astype(float), np.ones(200)
    full, mean, ds = np.empty(200), np.zeros(200), np.empty(200)
    value = robirank(s, y, c, BY_LABEL, bounded, 0, np.zeros(1, np.uint64), full)
    generator, times = np.array([3], np.uint64), 2000
    for _ in range(times):
        assert robirank(s, y, c, BY_LABEL, bounded, 100, generator, ds) == pytest.approx(value, rel=0.2)
        mean += ds / times
    # the same rows give S and the slope, so a bias of about 1/100 is left
    assert np.abs(mean - full).max() < 0.03 * np.abs(full).max()
    assert robirank(s, y, c, BY_LABEL, bounded, 199, generator, ds) == value
