"""A missing number is taken for average, a missing category for absent."""

import numpy as np
import pytest

from streamrank.config import FeatureSettings, Settings
from streamrank.events.codec import encode_json
from streamrank.events.types import Field, Item, Ranking, Record
from streamrank.features.batch import BatchBuilder
from streamrank.features.offsets import SETTLED
from streamrank.features.space import FeatureSpace
from streamrank.metrics.functions import pairwise_error
from streamrank.pipeline.flow import Flow


def ranking(number, *items, labels=None):
    shown = [
        Item(id=f"i{k}", fields=[Field(n, v) for n, v in fields.items()], label=labels[k] if labels else None)
        for k, fields in enumerate(items)
    ]
    return Ranking(id=f"r{number}", timestamp=number, items=shown)


def test_the_offset_is_the_mean_of_the_first_values_and_then_stays():
    space = FeatureSpace(FeatureSettings())
    rng = np.random.default_rng(0)
    years = rng.normal(2000.0, 8.0, size=SETTLED)
    for k, year in enumerate(years):
        space.rows(ranking(k, {"year": float(year)}))
    later = space.rows(ranking(999, {"year": 3000.0}))
    assert later.values[0] == pytest.approx(3000.0 - years.mean(), rel=1e-12)


def test_words_and_categories_have_no_offset():
    space = FeatureSpace(FeatureSettings())
    for k in range(5):
        rows = space.rows(ranking(k, {"colour": "red", "title": "a b c d"}))
    assert sorted(rows.values.tolist()) == [0.5, 0.5, 0.5, 0.5, 1.0]


def test_metadata_numbers_are_counted_from_the_same_offset():
    space = FeatureSpace(FeatureSettings())
    for k in range(SETTLED):
        space.rows(ranking(k, {"year": 2000.0}))
    assert space.rows(ranking(999, {"year": 2003.0, "colour": "red"})).values.tolist() == [3.0, 1.0]


@pytest.mark.parametrize("missing", [0.0, 0.01, 0.05, 0.2])
def test_a_number_far_from_zero_is_learnt_although_some_items_lack_it(missing):
    """`year` is 2000 +- 8 and decides; items without it must not drown what it says."""
    rng = np.random.default_rng(1)
    flow = Flow(Settings())
    for number in range(1, 1500):
        years = rng.normal(2000.0, 8.0, size=8)
        labels = (years > np.median(years)).astype(float).tolist()
        items = [{"year": float(y)} if rng.random() >= missing else {"other": 1.0} for y in years]
        flow.step(Record(number, encode_json(ranking(number, *items, labels=labels))))
    flow.learn()
    errors = []
    for number in range(100):
        years = rng.normal(2000.0, 8.0, size=8)
        rows = flow.features.rows(ranking(number, *[{"year": float(y)} for y in years]), learn=False)
        builder = BatchBuilder()
        builder.add(rows, [0.0] * 8, [0.0] * 8)
        scores = flow.models[0].learner.scores(builder.build())
        errors.append(pairwise_error((years > np.median(years)).astype(float), scores))
    assert np.mean(errors) < 0.02
