"""Workers as processes: one that is killed is started again, one that refuses ends them all."""

import signal
import subprocess
import sys
import time

import pytest

from streamrank.pipeline import supervisor
from streamrank.pipeline.supervisor import supervise


@pytest.fixture
def worker(tmp_path, monkeypatch):
    """The command of a worker that does `then` once it has been started as often as said."""
    monkeypatch.setattr(supervisor, "PAUSE_S", (0.01, 0.02))

    def command(then, first=""):
        script = f"""
import os, signal, sys, tempfile, time
starts = {str(tmp_path)!r}
tempfile.mkstemp(dir=starts)
if len(os.listdir(starts)) <= 2:
    {first or "pass"}
{then}
"""
        return [sys.executable, "-S", "-c", script]

    return command


def test_those_that_are_killed_are_started_again_and_what_they_tell_is_added(worker, tmp_path):
    command = worker("print('{\"records\": 3}')", first="os.kill(os.getpid(), signal.SIGKILL)")
    assert supervise(command, 2) == (0, {"records": 6})
    assert len(list(tmp_path.iterdir())) == 4


def test_one_that_refuses_to_go_on_ends_them_all_with_its_code(worker):
    command = worker(
        "time.sleep(60)", first="sys.exit(3) if len(os.listdir(starts)) == 2 else time.sleep(60)"
    )
    began = time.monotonic()
    assert supervise(command, 2) == (3, {})
    assert time.monotonic() - began < 30


def test_sigterm_is_passed_on_and_waited_for(worker, tmp_path):
    command = worker(
        "signal.signal(signal.SIGTERM, lambda *_: (print('{\"records\": 1}', flush=True), os._exit(0)))\n"
        "tempfile.mkstemp(dir=starts)\n"
        "time.sleep(60)"
    )
    script = f"from streamrank.pipeline.supervisor import supervise; print(supervise({command!r}, 2))"
    running = subprocess.Popen([sys.executable, "-c", script], stdout=subprocess.PIPE, text=True)
    while len(list(tmp_path.iterdir())) < 4:
        time.sleep(0.02)
    running.send_signal(signal.SIGTERM)
    assert running.communicate(timeout=30)[0].strip() == "(0, {'records': 2})"
