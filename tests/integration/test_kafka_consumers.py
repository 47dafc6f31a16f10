"""The consumers as processes: their start, what they tell on a terminal and elsewhere, and their end."""

import json
import os
import pty
import signal
import subprocess
import sys

import pytest

from streamrank.cli import consume, main
from streamrank.cli.consume import TOPICS
from streamrank.config import KafkaSettings
from streamrank.errors import SourceDown
from streamrank.sources.topics import open_topic
from streamrank.state import open_store
from streamrank.state.digest import shard_digests
from tests.integration.live import environ, events, learn, replayed, run, wait_for
from tests.servers import free_port

EXAMPLES = [
    {"event": "example", "id": f"e{n}", "timestamp": 1_700_000_000_000 + n, "query": f"q{n % 3}", "item": "a",
     "x": {"price": n % 7}, "y": n % 3}
    for n in range(40)
]  # fmt: skip


@pytest.mark.parametrize("what", TOPICS)
def test_each_consumer_has_a_topic_and_a_group_and_tells_in_json(
    what, admin, produce, settings, store_url, request
):
    from kafka.admin import NewTopic

    name = TOPICS[what]
    if name not in admin.list_topics():
        admin.create_topics([NewTopic(name, 1, 1)])
    request.addfinalizer(lambda: admin.delete_topics([name]))
    produce(name, events(0, 20) if what == "clicks" else EXAMPLES)
    done = run(
        f"consumers.{what}",
        "--store",
        store_url,
        "--until-idle",
        "0.5",
        "--json",
        env=environ(settings(name)),
    )
    assert done.returncode == 0, done.stderr
    first, *lines = done.stderr.splitlines()
    assert first.startswith(f"streamrank consume: {name} (1 partitions) at 127.0.0.1:")
    assert f"group streamrank.{what}, into redis://" in first
    assert "from earliest where nothing is known, models default (egdm)" in first
    told = [json.loads(line) for line in lines]
    assert any(line["message"] == f"{name}[0]: opened at offset 0, epoch 1" for line in told)
    assert {"time", "level", "logger", "pid", "message"} == set(told[0])
    result = json.loads(done.stdout)
    assert (result["records"], result["workers"]) == (40, 1)
    assert {n: (s["digest"], s["offset"]) for n, s in result["shards"].items()} == replayed(settings(name))


def test_on_a_terminal_one_line_is_written_over(new_topic, produce, settings, store_url):
    name = new_topic()
    produce(name, events(0, 20))
    ours, theirs = pty.openpty()
    command = ["consume", "clicks", "--topic", name, "--store", store_url, "--until-idle", "1.3"]
    process = subprocess.Popen(
        [sys.executable, "-m", "streamrank", *command],
        env=environ(settings(name)), stdin=theirs, stdout=theirs, stderr=theirs,
    )  # fmt: skip
    os.close(theirs)
    said = b""
    try:
        while piece := os.read(ours, 4096):
            said += piece
    except OSError:  # it has ended
        pass
    os.close(ours)
    assert process.wait(30) == 0
    assert b"\r40 records, " in said
    assert b"/s, lag 0, " in said
    assert b" commits, 0 refused, 1 partitions\x1b[K" in said
    assert said.endswith(b"\n")


def test_sigterm_commits_what_is_in_hand_and_leaves(new_topic, produce, settings, store, store_url):
    name = new_topic()
    s = settings(name)
    produce(name, events(0, 20))
    # nothing but the end commits; the status line tells that all was taken
    never = environ(s, STREAMRANK_COMMIT_EVERY="100000", STREAMRANK_COMMIT_MS="600000")
    command = [sys.executable, "-m", "consumers.clicks", "--topic", name, "--group", name]
    worker = subprocess.Popen([*command, "--store", store_url], env=never, stderr=subprocess.PIPE)
    wait_for(lambda: b"40 records" in worker.stderr.readline())
    assert store.offset(f"{name}[0]") == 0
    worker.send_signal(signal.SIGTERM)
    worker.communicate(timeout=30)
    assert worker.returncode == 0
    assert shard_digests(store) == replayed(s)
    assert store.offset(f"{name}[0]") == 40


def test_a_member_whose_supervisor_is_killed_ends_too(new_topic, produce, settings, store, store_url):
    name = new_topic()
    s = settings(name)
    produce(name, events(0, 20))
    member = f"{sys.executable} -m streamrank consume clicks --member $$ --topic {name} --group {name}"
    script = f"{member} --store '{store_url}' & wait"
    supervisor = subprocess.Popen(["sh", "-c", script], env=environ(s), stderr=subprocess.PIPE)
    wait_for(lambda: b"opened at" in supervisor.stderr.readline())
    supervisor.kill()
    supervisor.communicate(timeout=30)  # ends when nobody holds the pipe any more: it is gone
    learn(s, store)
    assert shard_digests(store) == replayed(s)


def test_a_member_whose_supervisor_was_killed_before_it_had_begun_ends_too(new_topic, settings, store_url):
    name = new_topic()
    done = run(
        "streamrank", "consume", "clicks", "--member", "1", "--topic", name, "--store", store_url,
        env=environ(settings(name)),
    )  # fmt: skip
    assert done.returncode == 0, done.stderr


def test_a_worker_that_takes_the_place_of_one_that_died_waits_for_its_store(
    new_topic, produce, settings, start_redis
):
    name, server = new_topic(), start_redis(appendonly="yes")
    produce(name, events(0, 20))
    server.kill()
    command = ["consume", "clicks", "--member", str(os.getpid()), "--topic", name, "--store", server.url]
    env = environ(settings(name), STREAMRANK_REDIS_RETRY_MS="0")
    worker = subprocess.Popen(
        [sys.executable, "-m", "streamrank", *command, "--again", "--until-idle", "0.5"],
        env=env, stderr=subprocess.PIPE,
    )  # fmt: skip
    wait_for(lambda: b"not started yet" in worker.stderr.readline())
    server.start()
    worker.communicate(timeout=60)
    assert worker.returncode == 0
    with open_store(server.url) as store:
        assert shard_digests(store) == replayed(settings(name))


def test_a_broker_that_is_away_at_the_start_is_an_error_and_waited_for_in_place_of_another(monkeypatch):
    monkeypatch.setattr(consume, "RETRY_S", 0.0)
    away = KafkaSettings(servers=f"127.0.0.1:{free_port()}", options={"bootstrap_timeout_ms": 50})
    tries = []

    def topic():
        tries.append(None)
        return "there" if len(tries) == 4 else open_topic(away, "t", "g")

    with pytest.raises(SourceDown, match="Look whether the broker runs"):
        consume._opened(topic, lambda: False, 0.0)
    with pytest.raises(SourceDown):
        consume._opened(topic, lambda: True, 600.0)  # told to stop meanwhile
    assert len(tries) == 2
    assert consume._opened(topic, lambda: False, 600.0) == "there"


def test_what_cannot_work_is_refused_before_anything_is_read(capsys, monkeypatch):
    assert main(["consume", "clicks", "--store", "memory://"]) == 2
    assert "ends with the process: give redis:// or sqlite:///" in capsys.readouterr().err
    for start in ("yesterday", "ts=yesterday"):
        monkeypatch.setenv("STREAMRANK_KAFKA_START", start)
        assert main(["consume", "clicks", "--store", "sqlite:///x.db"]) == 2
        assert f"kafka.start is '{start}'" in capsys.readouterr().err
