"""The commands as they are written down: servers, a simulated stream, two workers, and the replay."""

import json
import os
import signal
import subprocess
import sys

import pytest

from streamrank.cli import main
from tests import servers
from tests.servers import free_port


@pytest.fixture
def addresses(broker, redis_url):
    """What `make servers` prints, of servers of its own on the ports that were asked for."""
    ports = {"KAFKA_PORT": str(free_port()), "REDIS_PORT": str(free_port())}
    process = subprocess.Popen(
        [sys.executable, "-m", "tests.servers"], env=os.environ | ports, stdout=subprocess.PIPE, text=True
    )
    lines = [process.stdout.readline() for _ in ports]
    if not lines[0] and not servers.required():
        pytest.skip("there are no servers here")
    assert lines == [f"kafka=127.0.0.1:{ports['KAFKA_PORT']}\n", f"redis=127.0.0.1:{ports['REDIS_PORT']}\n"]
    assert process.poll() is None
    yield [line.split("=")[1].strip() for line in lines]
    process.send_signal(signal.SIGINT)  # as Ctrl-C does
    assert process.communicate(timeout=60)[0] == ""
    assert process.returncode == 0


def test_a_simulated_stream_is_learnt_by_two_workers_to_the_digests_of_a_replay(addresses, capsys):
    kafka, redis = addresses
    at = ["--kafka", kafka, "--topic", "streamrank.events"]
    store = ["--store", f"redis://{redis}/0"]
    live = [*at, *store, "--workers", "2", "--until-idle", "1", "--json"]
    told = []
    for command in (
        ["simulate", "--events", "2000", "--seed", "7", *at, "--json"],
        ["consume", "clicks", *live],
        ["digest", *store, "--by-shard", "--json"],
        ["replay", *at, "--store", "memory://", "--json"],
    ):
        assert main(command) == 0
        told.append(json.loads(capsys.readouterr().out))
    _, consumed, digests, replayed = told
    assert len(replayed["shards"]) == 4
    assert consumed["shards"] == digests["shards"] == replayed["shards"]
    assert consumed["digest"] == digests["digest"] == replayed["digest"]
