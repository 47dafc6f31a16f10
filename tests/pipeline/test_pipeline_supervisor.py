"""Workers as processes: one that is killed is started again, one that refuses ends them all."""

import os
import signal
import subprocess
import sys
import time

import pytest

from streamrank.pipeline import supervisor
from streamrank.pipeline.supervisor import STOP_S, supervise


@pytest.fixture
def worker(tmp_path, monkeypatch):
    """The command of a worker that does `then` once it has been started as often as said."""
    monkeypatch.setattr(supervisor, "PAUSE_S", (0.01, 0.02))

    def command(then, first=""):
        script = f"""
import os, signal, subprocess, sys, tempfile, time
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


def test_one_that_takes_the_place_of_another_is_told_so(worker):
    command = worker("print('{\"again\": %d}' % len(sys.argv[1:]))", first="sys.exit(1)")
    assert supervise(command, 2, again=["--again"]) == (0, {"again": 2})


def test_what_a_killed_one_has_started_keeps_nobody_waiting(worker, tmp_path):
    sleeper = "subprocess.Popen(['sleep', '300'], start_new_session=True).pid"
    noted = f"open({str(tmp_path)!r} + '.pid', 'a').write(str({sleeper}) + '\\n')"
    command = worker("print('{\"records\": 1}')", first=f"{noted}; os.kill(os.getpid(), signal.SIGKILL)")
    began = time.monotonic()
    assert supervise(command, 2) == (0, {"records": 2})
    assert time.monotonic() - began < 200
    for pid in (tmp_path.parent / f"{tmp_path.name}.pid").read_text().split():
        os.kill(int(pid), signal.SIGKILL)


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


def test_a_second_ctrl_c_does_not_wait_for_those_that_do_not_end(worker, tmp_path):
    command = worker(
        "signal.signal(signal.SIGTERM, lambda *_: tempfile.mkstemp(dir=starts))\n"
        "tempfile.mkstemp(dir=starts)\n"
        "while True: time.sleep(60)"
    )
    script = f"from streamrank.pipeline.supervisor import supervise; print(supervise({command!r}, 1))"
    running = subprocess.Popen([sys.executable, "-c", script], stderr=subprocess.PIPE)
    for files in (2, 3):  # it is up; it was told, and goes on
        while len(list(tmp_path.iterdir())) < files:
            time.sleep(0.02)
        running.send_signal(signal.SIGINT)
    assert (
        b"KeyboardInterrupt" in running.communicate(timeout=STOP_S)[1]
    )  # once nobody holds the pipe: it is gone
