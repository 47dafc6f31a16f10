"""Machine code kept on disk is never older than what it was made from."""

import subprocess
import sys

CALLER = """
from {name}_callee import STEP, twice
from streamrank.kernels.jit import jit

@jit
def caller(x):
    return twice(x) + STEP

print(caller(10))
"""
CALLEE = """
from streamrank.kernels.jit import jit

STEP = {step}

@jit
def twice(x):
    return {factor} * x
"""


def test_a_change_in_another_file_is_seen_though_the_caller_stayed_as_it_was(tmp_path):
    (tmp_path / "kept.py").write_text(CALLER.format(name="kept"))

    def run(factor, step):
        (tmp_path / "kept_callee.py").write_text(CALLEE.format(factor=factor, step=step))
        done = subprocess.run(
            [sys.executable, "kept.py"], cwd=tmp_path, capture_output=True, text=True, check=True
        )
        return int(done.stdout)

    assert run(2, 1) == 21
    assert list((tmp_path / "__pycache__").glob("kept.caller*.nbc"))  # it is kept at all
    assert run(3, 1) == 31
    assert run(3, 5) == 35
