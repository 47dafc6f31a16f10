"""POST /rank over loopback, by another process, idle and while the worker learns at full speed.

Requests are 100 and 1000 items of 46 numbers, by name, as JSON. At full speed: the feedback log always holds
judged lists of 10 x 46 that are not learnt yet. Two loads: as fast as two connections are answered, and
steadily, at a rate that leaves the server time. Milliseconds as the client sees them.
"""

import json
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path

import httpx
import numpy as np

from streamrank.config import ServeSettings, Settings
from streamrank.serve.embedded import Embedded
from streamrank.serve.server import Server

FEATURES, CONNECTIONS, SECONDS, WARM_S = 46, 2, 5.0, 0.5
PAUSE_MS = {100: 20, 1000: 50}  # of a connection under steady load
CHUNK, BACKLOG_MB = (
    25,
    8,
)  # lists added at a time (many would hold up the server); when less than that is left


def ranking(name: str, n: int, rng: np.random.Generator, **more: object) -> dict[str, object]:
    """n items."""
    x = rng.standard_normal((n, FEATURES)).round(2).tolist()
    items = [
        {"id": f"i{k}", "fields": [{"name": f"f{j}", "value": v} for j, v in enumerate(row)]}
        for k, row in enumerate(x)
    ]
    return {"event": "ranking", "id": name, "timestamp": 1_700_000_000_000, "items": items, **more}


def judged(n: int, first: int) -> list[bytes]:
    """Judged lists of ten; a few, over and over under other names."""
    return [few()[k % 50].replace(b"NAME", b"l%d" % k) for k in range(first, first + n)]


@cache
def few() -> list[bytes]:
    """Fifty of them."""
    rng, lists = np.random.default_rng(0), []
    for _ in range(50):
        event = ranking("NAME", 10, rng)
        for item in event["items"]:  # type: ignore[attr-defined]
            item["label"] = float(item["fields"][0]["value"] - item["fields"][1]["value"] > 1)
        lists.append(json.dumps(event).encode())
    return lists


def main() -> None:
    """A row for each size and load, idle and learning."""
    with tempfile.TemporaryDirectory() as folder:
        store = f"sqlite:///{Path(folder) / 's.db'}"
        with Server(Settings(store=store, serve=ServeSettings(port=0, timeout_ms=120_000))) as server:
            feed = server.service.feed
            assert isinstance(feed, Embedded)
            feed.log.append(judged(400, 0))
            wait_for_the_worker(server)
            print(f"{'/rank, ms':30} {'req/s':>7} {'p50':>8} {'p99':>8} {'p99 / idle':>11} {'failed':>7}")
            for n in (100, 1000):
                for pause_ms in (0, PAUSE_MS[n]):
                    load = f"{n} items, {'steady' if pause_ms else 'as fast as it goes'}"
                    idle = tell(load, ask(server, n, pause_ms), None)
                    with never_at_rest(feed):
                        before = time.perf_counter(), learnt(server)
                        tell("  while learning", ask(server, n, pause_ms), idle)
                        rate = (learnt(server) - before[1]) / (time.perf_counter() - before[0])
                    print(f"  {rate:.0f} lists/s learnt meanwhile", flush=True)
                    wait_for_the_worker(server)


@contextmanager
def never_at_rest(feed: Embedded) -> Iterator[None]:
    """Lists keep coming into the log, before the worker has learnt those that are there."""
    done = threading.Event()

    def fill() -> None:
        while not done.wait(0.002):
            if feed.behind < BACKLOG_MB << 20:
                feed.log.append(judged(CHUNK, time.monotonic_ns()))

    filling = threading.Thread(target=fill)
    filling.start()
    try:
        yield
    finally:
        done.set()
        filling.join()


def tell(name: str, result: dict[str, float], idle: dict[str, float] | None) -> dict[str, float]:
    """One line of the table."""
    ratio = f"{result['p99'] / idle['p99']:11.2f}" if idle else f"{'':11}"
    figures = (
        f"{result['rate']:7.0f} {result['p50']:8.2f} {result['p99']:8.2f} {ratio} {result['failed']:7.0f}"
    )
    print(f"{name:30} {figures}", flush=True)
    return result


def learnt(server: Server) -> int:
    """Lists that rankings know of."""
    served = server.service.live.served
    return served.counts["judged"] if served else 0


def wait_for_the_worker(server: Server) -> None:
    """Until there is nothing left to learn."""
    while httpx.post(f"{server.url}/flush", timeout=150).status_code != 200:
        pass


def ask(server: Server, n: int, pause_ms: int) -> dict[str, float]:
    """Load from a process of its own: the client is not to share the interpreter with the server."""
    command = [sys.executable, "-m", "tests.bench.serve", server.url, str(n), str(pause_ms)]
    done = subprocess.run(command, stdout=subprocess.PIPE, check=True)
    result: dict[str, float] = json.loads(done.stdout)
    return result


def client(url: str, n: int, pause_ms: int) -> None:
    """Requests on a few connections; prints what they met."""
    host, port = url.removeprefix("http://").split(":")
    took: list[float] = []
    failed: list[bytes] = []

    def connection(seed: int) -> None:
        rng, messages = np.random.default_rng(seed), []
        for k in range(8):
            body = json.dumps(ranking(f"r{k}", n, rng)).encode()
            head = f"POST /rank/default HTTP/1.1\r\nHost: {host}\r\nContent-Length: {len(body)}\r\n\r\n"
            messages.append(head.encode() + body)
        with socket.create_connection((host, int(port))) as link:
            link.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            start, k = time.perf_counter(), 0
            while (began := time.perf_counter()) < start + WARM_S + SECONDS:
                link.sendall(messages[k % 8])
                answer = receive(link)
                if began > start + WARM_S:
                    took.append(1000 * (time.perf_counter() - began))
                if not answer.startswith(b"HTTP/1.1 200"):
                    failed.append(answer)
                k += 1
                if pause_ms:
                    time.sleep(pause_ms / 1000)

    threads = [threading.Thread(target=connection, args=(seed,)) for seed in range(CONNECTIONS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    p50, p99 = np.quantile(took, [0.5, 0.99])
    print(json.dumps({"rate": len(took) / SECONDS, "p50": p50, "p99": p99, "failed": len(failed)}))


def receive(link: socket.socket) -> bytes:
    """One answer."""
    data = link.recv(1 << 16)
    while b"\r\n\r\n" not in data:
        data += link.recv(1 << 16)
    head, _, body = data.partition(b"\r\n\r\n")
    length = int(head.lower().partition(b"content-length:")[2].split(b"\r\n")[0])
    size = len(body)
    while size < length:
        size += len(link.recv(1 << 16))
    return head


if __name__ == "__main__":
    client(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]))
