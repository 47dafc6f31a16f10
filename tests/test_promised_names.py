import subprocess
import sys

import pytest

import streamrank
from streamrank.metrics import running


def test_every_promised_name_is_there_and_the_list_is_sorted_and_whole():
    homes = {name for names in streamrank._HOMES.values() for name in names}
    assert homes == set(streamrank.__all__)
    for name in streamrank.__all__:
        assert getattr(streamrank, name).__name__ == name


def test_every_metric_is_promised():
    made = {
        name
        for name, value in vars(running).items()
        if isinstance(value, type)
        and issubclass(value, running.RankingMetric)
        and value is not running.RankingMetric
    }
    assert made - {"RankingMetric", "_AtK"} <= set(streamrank.__all__)


def test_an_unknown_name_says_what_there_is():
    with pytest.raises(AttributeError, match="RankNet"):
        streamrank.LambdaMART  # noqa: B018


def test_help_loads_nothing_heavy():
    heavy = "('numba', 'river', 'plotly', 'scipy')"
    code = f"import sys, streamrank.cli; print([m for m in {heavy} if m in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
