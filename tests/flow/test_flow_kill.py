"""kill -9 for real: the process dies wherever it is, another goes on from the store."""

import json
import random
import signal
import subprocess
import sys
import time

import pytest

KILLS = 8


def streamrank(*arguments):
    return [sys.executable, "-m", "streamrank", *arguments]


def last_json(output):
    return json.loads(output.strip().splitlines()[-1])


@pytest.mark.slow
def test_killed_again_and_again_the_state_is_that_of_an_undisturbed_run(tmp_path):
    log = tmp_path / "log.jsonl"
    subprocess.run(
        streamrank(
            "simulate", "--events", "30000", "--malformed", "0.01", "--duplicates", "0.02", "--late", "0.02",
            "--drift-at", "0.5", "--out", str(log),
        ),
        check=True,
        capture_output=True,
    )  # fmt: skip
    straight = subprocess.run(
        streamrank("replay", str(log), "--store", f"sqlite:///{tmp_path}/straight.db", "--json"),
        check=True,
        capture_output=True,
        text=True,
    )
    seconds = last_json(straight.stdout)["seconds"]
    rng, killed = random.Random(3), 0
    command = streamrank(
        "replay", str(log), "--store", f"sqlite:///{tmp_path}/killed.db", "--json", "--commit-every", "50"
    )
    for _ in range(KILLS):
        process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        time.sleep(rng.uniform(0.5, 1.5 + seconds / 4))
        if process.poll() is None:
            process.send_signal(signal.SIGKILL)
            killed += 1
        process.wait()
    assert killed >= KILLS // 2, "the runs ended before they could be killed: give them more to do"
    done = subprocess.run(command, check=True, capture_output=True, text=True)
    resumed, undisturbed = last_json(done.stdout), last_json(straight.stdout)
    for name in ("seconds", "events_per_second"):
        resumed.pop(name), undisturbed.pop(name)
    assert resumed == undisturbed
