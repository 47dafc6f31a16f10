"""Kafka -> learner -> Redis beside the client's bare poll, both of the same topic, in turn; best of several.

Four logs of lists of 10 x 46 numbers: rankings and clicks as named JSON and packed; judged lists packed one
by one and 64 to a record. Then (`live`) a click's way to what is served, a commit, and two workers.
"""

from contextlib import ExitStack

import msgspec

from streamrank.config import Settings
from streamrank.sources.topics import CLIENTS
from tests.servers import Unavailable
from tests.servers.kafka import Broker
from tests.servers.redis import Server

from . import live
from .replay import LISTS_A_BLOCK, Log, click_logs, judged_logs
from .topics import Bench, Stopwatch

REPEATS = 3


def again(log: Log, times: int) -> Log:
    """The records so many times, under new ids each time, and later: neither seen before nor late."""
    events = [msgspec.msgpack.decode(record) for record in log]
    stamps = [event["timestamp"] for event in events]
    span = max(stamps) - min(stamps) + 1000
    return [
        msgspec.msgpack.encode(
            {**event, "id": f"{turn}.{event['id']}", "timestamp": event["timestamp"] + turn * span}
        )
        for turn in range(times)
        for event in events
    ]


def rates(bench: Bench, logs: dict[str, tuple[Log, int]]) -> None:
    """A row a log and client: the bare poll, the whole, their ratio, and where the time goes."""
    print(f"records/s, one partition, one worker, best of {REPEATS}; share: of kafka-python bare, and")
    print("of the client bare")
    columns = ("bytes", "poll", "learnt", "lists/s", "share", "own")
    print(f"  {'':28} {'client':12} " + " ".join(f"{column:>8}" for column in columns))
    for name, (log, lists) in logs.items():
        topic, n = bench.topic(log), len(log)
        bench.learn(topic, n, "confluent")  # compiles
        polls: dict[str, list[Stopwatch]] = {client: [] for client in CLIENTS}
        wholes: dict[str, list[Stopwatch]] = {client: [] for client in CLIENTS}
        for _ in range(REPEATS):
            for client in CLIENTS:
                polls[client].append(bench.poll(topic, n, client))
                wholes[client].append(bench.learn(topic, n, client))
        bare = min(one.wall for one in polls["kafka-python"])
        for client in CLIENTS:
            poll, whole = min(one.wall for one in polls[client]), min(one.wall for one in wholes[client])
            figures = (sum(map(len, log)) / n, 1 / poll, 1 / whole, lists / n / whole)
            print(
                f"  {name:28} {client:12} "
                + " ".join(f"{figure:8.0f}" for figure in figures)
                + f" {bare / whole:8.2f} {poll / whole:8.2f}"
            )
            spent: dict[str, float] = {}
            bench.learn(topic, n, client, spent)
            spent["decode, join, judge"] = spent.pop("step") - spent["learn"]
            total, parts = sum(spent.values()), sorted(spent.items(), key=lambda part: -part[1])
            cpu = [1e6 * min(one.cpu for one in some) for some in (polls[client], wholes[client])]
            print(
                f"    CPU us a record: {cpu[0]:.1f} to poll, {cpu[1]:.1f} in all; time: "
                + ", ".join(f"{part} {100 * seconds / total:.0f} %" for part, seconds in parts),
                flush=True,
            )


def main() -> None:
    """Print it all."""
    with ExitStack() as stack:
        try:
            broker = Broker()
            stack.callback(broker.stop)
            server = Server(appendonly="yes", appendfsync="everysec")
            stack.callback(server.stop)
        except Unavailable as error:
            print(f"kafka: {error}")
            return
        bench = Bench(broker, server)
        named, packed = click_logs()
        _, judged, blocks = judged_logs(named)
        logs = {
            "clicks, named JSON": (named, len(named)),
            "clicks, packed": (packed, len(packed)),
            "judged lists, packed": (again(judged, 3), 3 * len(judged)),
            f"judged lists, packed by {LISTS_A_BLOCK}": (again(blocks, 8), 8 * len(judged)),
        }
        rates(bench, logs)
        live.commits(bench, packed)
        live.served(bench, named, commit_ms=20, clicks=100)
        live.served(bench, named, commit_ms=Settings().commit_ms, clicks=40)
        live.two(bench, named[: len(named) // 2])


if __name__ == "__main__":
    main()
