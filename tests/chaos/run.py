"""One run: a stream, its faults, and whether every shard ends as if nothing had happened."""

import contextlib
import json
import random
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from confluent_kafka import Consumer, KafkaException, TopicPartition

from streamrank.config import Settings
from streamrank.events.types import Record
from streamrank.pipeline.flow import Flow
from streamrank.pipeline.memory import all_entries
from streamrank.state import open_store
from streamrank.state.digest import digest_of
from tests.servers.kafka import Broker
from tests.servers.redis import Server

from . import naive
from .faults import MIX, plan, workers_at
from .fleet import Fleet
from .traffic import Traffic

STREAMRANK = [sys.executable, "-m", "streamrank"]
QUIET = {"log_level": 0, "enable.auto.commit": False}
TIMEOUT_MS = 1500  # the group gives a silent worker's partitions away after this
SLEEP_S = 4.0  # past TIMEOUT_MS and max.poll.interval: a sleeper wakes as a zombie
AHEAD = 4  # the producer is so many faults ahead: a worker that can work has work
PATIENCE_S = 120.0
OPTIONS = {  # as each client names them
    "kafka-python": {
        "session_timeout_ms": TIMEOUT_MS,
        "heartbeat_interval_ms": TIMEOUT_MS // 4,
        "max_poll_interval_ms": int(1000 * SLEEP_S / 2),
    },
    "confluent": {
        "session.timeout.ms": TIMEOUT_MS,
        "heartbeat.interval.ms": TIMEOUT_MS // 4,
        "max.poll.interval.ms": int(1000 * SLEEP_S / 2),
    },
}


@dataclass(frozen=True)
class Chaos:
    """What is to happen."""

    events: int = 200_000
    faults: int = 100
    partitions: int = 4
    seed: int = 7
    fsync: str = "everysec"
    client: str = "kafka-python"
    naive: bool = False
    naive_dies_at: int = 0  # this store of the naive workers ends between its two writes; 0: if it so happens
    mix: Mapping[str, int] = field(default_factory=lambda: MIX)


@dataclass
class Outcome:
    """What came of it."""

    faults: Counter[str] = field(default_factory=Counter)
    records: list[int] = field(default_factory=list)
    live: dict[str, str] = field(default_factory=dict)
    undisturbed: dict[str, str] = field(default_factory=dict)
    deaths: list[str] = field(default_factory=list)
    seconds: float = 0.0

    @property
    def wrong(self) -> list[str]:
        """The shards whose state is not that of a replay without faults."""
        both = {*self.live, *self.undisturbed}
        return sorted(s for s in both if self.live.get(s) != self.undisturbed.get(s))


def run(chaos: Chaos, broker: Broker, say: Callable[[str], None] = lambda _: None) -> Outcome:
    """Produce, disturb, wait until all is learnt, compare."""
    outcome, chance, began = Outcome(), random.Random(chaos.seed), time.monotonic()
    topic = f"chaos.{time.time_ns()}"
    faults = plan(chaos.faults, chaos.seed, chaos.mix)
    with _redis(chaos.fsync) as server, tempfile.TemporaryDirectory() as folder:
        traffic = Traffic(
            broker.address, topic, events=chaos.events, partitions=chaos.partitions, seed=chaos.seed
        )
        learner = (_Naive if chaos.naive else _Streamrank)(broker, server, topic, traffic, chaos)
        fleet = Fleet(learner.command, learner.environ, Path(folder), chance)
        act: dict[str, Callable[[], object]] = {
            "kill": fleet.kill,
            "term": fleet.term,
            "stop": lambda: fleet.stop(SLEEP_S),
            "redis": server.restart,
            "broker": broker.restart,
            "duplicates": lambda: traffic.send_again(chance.randint(1, 200)),
        }
        chunk = -(-len(traffic) // (len(faults) + 1))
        traffic.send(AHEAD * chunk)
        try:
            for number, fault in enumerate(faults):
                n = workers_at(number / len(faults))
                traffic.send(chunk)
                # amid the work, wherever that is: a fault that meets workers at rest shows nothing
                _await(learner, fleet, n, at_least=int((number + chance.random()) * chunk))
                act[fault]()
                outcome.faults[fault] += 1
                if number % 10 == 9:
                    stand = sum(learner.offsets())
                    say(
                        f"{number + 1} of {len(faults)} faults, {stand} of {sum(traffic.ends)} records learnt"
                    )
            traffic.send(len(traffic))
            traffic.flush()
            outcome.records = traffic.ends
            _await(learner, fleet, workers_at(1.0), at_least=sum(traffic.ends))
        finally:
            fleet.end()
        outcome.deaths = fleet.deaths
        outcome.live = learner.live()
        outcome.undisturbed = learner.undisturbed()
    outcome.seconds = time.monotonic() - began
    return outcome


class _Streamrank:
    """The worker under test: the command that users run, and the replay that users compare with."""

    def __init__(self, broker: Broker, server: Server, topic: str, _: Traffic, chaos: Chaos) -> None:
        self._url, self._store = server.url, open_store(server.url)
        at = ["--kafka", broker.address, "--topic", topic, "--store"]
        self.command = [*STREAMRANK, "consume", "clicks", "--group", topic, *at, server.url]
        self._replay = [*STREAMRANK, "replay", *at, "memory://", "--json"]
        self.environ = {
            "STREAMRANK_COMMIT_EVERY": "200",
            "STREAMRANK_COMMIT_MS": "100",
            "STREAMRANK_REDIS_RETRY_MS": "30000",
            "STREAMRANK_KAFKA_CLIENT": chaos.client,
            "STREAMRANK_KAFKA_OPTIONS": json.dumps(OPTIONS[chaos.client]),
        }

    def offsets(self) -> list[int]:
        return [self._store.offset(shard) for shard in self._store.shards()]

    def live(self) -> dict[str, str]:
        return _digests([*STREAMRANK, "digest", "--by-shard", "--json", "--store", self._url])

    def undisturbed(self) -> dict[str, str]:
        return _digests(self._replay)


class _Naive:
    """The control, compared with the same flow in this process."""

    def __init__(self, broker: Broker, server: Server, topic: str, traffic: Traffic, chaos: Chaos) -> None:
        self._server, self._traffic = server, traffic
        arguments = [broker.address, topic, str(server.port), str(TIMEOUT_MS), str(chaos.naive_dies_at)]
        self.command = [sys.executable, "-m", "tests.chaos.naive", *arguments]
        self.environ: dict[str, str] = {}
        self._parts = [TopicPartition(topic, p) for p in range(traffic.partitions)]
        self._consumer = Consumer({"bootstrap.servers": broker.address, "group.id": topic, **QUIET})
        self._last = [0] * traffic.partitions

    def offsets(self) -> list[int]:
        with contextlib.suppress(KafkaException):  # the broker is away
            self._last = [max(one.offset, 0) for one in self._consumer.committed(self._parts, timeout=1.0)]
        return self._last

    def live(self) -> dict[str, str]:
        with self._server.client() as client:
            return {
                str(p): _digest({k.decode(): v for k, v in client.hgetall(naive.key(p)).items()})
                for p in range(self._traffic.partitions)
            }

    def undisturbed(self) -> dict[str, str]:
        return {
            str(p): self._learnt(one, end)
            for p, (one, end) in enumerate(zip(self._parts, self._traffic.ends, strict=True))
        }

    def _learnt(self, one: TopicPartition, end: int) -> str:
        flow = Flow(Settings())
        self._consumer.assign([TopicPartition(one.topic, one.partition, 0)])
        while flow.offset < end:
            for record in self._consumer.consume(1000, 0.5):
                if record.error() is None:
                    flow.step(Record(record.offset(), record.value(), ""))
        flow.learn()
        return _digest(all_entries(flow))


@contextmanager
def _redis(fsync: str) -> Iterator[Server]:
    server = Server(appendonly="yes", appendfsync=fsync)
    try:
        yield server
    finally:
        server.stop()


def _digest(entries: dict[str, bytes]) -> str:
    return digest_of([("", entries, 0)])


def _digests(command: list[str]) -> dict[str, str]:
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise RuntimeError(f"{' '.join(command[1:])}: {done.stderr[-2000:]}")
    shards = json.loads(done.stdout.strip().splitlines()[-1])["shards"]
    return {shard: f"{one['offset']} {one['digest']}" for shard, one in shards.items()}


def _await(learner: _Streamrank | _Naive, fleet: Fleet, workers: int, *, at_least: int) -> None:
    deadline = time.monotonic() + PATIENCE_S
    while (now := sum(learner.offsets())) < at_least:
        if time.monotonic() > deadline:
            raise TimeoutError(f"the workers stand at {now} and not at {at_least}: {fleet.deaths}")
        fleet.keep(workers)
        time.sleep(0.02)
