"""A redis-server, or a Cluster of three: on loopback and free ports, each ended by its process id."""

import shutil
import subprocess
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import redis

from tests.servers import Unavailable, free_port

START_S = 30.0
SLOTS = 16_384


class Server:
    """One redis-server; `address` is HOST:PORT. Its data outlive `kill` and `restart`, and go with `stop`.

    Options are its own, with _ for -: ``Server(appendonly="yes", appendfsync="always")``.
    """

    def __init__(self, port: int = 0, **options: object) -> None:
        if shutil.which("redis-server") is None:
            raise Unavailable("no redis-server: install it (Debian has it), or set STREAMRANK_TEST_REDIS")
        self.port = port or free_port()
        self.address = f"127.0.0.1:{self.port}"
        self.url = f"redis://{self.address}"
        self._home = Path(tempfile.mkdtemp(prefix="streamrank-redis-"))
        given = {"port": self.port, "bind": "127.0.0.1", "dir": self._home, "save": ""}
        given |= {"repl-diskless-sync-delay": 0, **options}  # 5 s otherwise
        self._command = ["redis-server"]
        for name, value in given.items():
            self._command += [f"--{name.replace('_', '-')}", str(value)]
        self._process: subprocess.Popen[bytes] | None = None
        try:
            self.start()
        except BaseException:
            self.stop()
            raise

    def client(self, **options: Any) -> redis.Redis:
        """A client of its own, to look behind the store's back."""
        return redis.Redis(port=self.port, protocol=2, **options)

    def start(self, *more: str, wait: bool = True) -> None:
        """Start it, this once with more options, and wait until it answers."""
        with (self._home / "log").open("ab") as log:
            self._process = subprocess.Popen(
                [*self._command, *more],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,  # Ctrl-C is for who started it, who then stops it
            )
        if wait:
            self.wait_until(lambda client: bool(client.ping()))

    def wait_until(self, holds: Callable[[redis.Redis], bool]) -> None:
        """Wait for what is bound to become true."""
        deadline = time.monotonic() + START_S
        with self.client(retry=None) as client:
            while True:
                try:
                    if holds(client):
                        return
                except redis.RedisError:
                    pass
                if self._process is None or self._process.poll() is not None or time.monotonic() > deadline:
                    said = (self._home / "log").read_text()[-500:]
                    self.kill()
                    raise RuntimeError(f"the redis-server did not get there: {said}")
                time.sleep(0.01)

    def signal(self, number: int) -> None:
        """Such as SIGSTOP: it is there, and silent."""
        assert self._process is not None
        self._process.send_signal(number)

    def kill(self) -> None:
        """End it at once (kill -9)."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            self._process = None

    def restart(self) -> None:
        """Kill it, and start it again on the same port with the same data."""
        self.kill()
        self.start()

    def stop(self) -> None:
        """End it and remove its data."""
        self.kill()
        shutil.rmtree(self._home, ignore_errors=True)


class Cluster:
    """Three redis-servers that share the slots out; `url` names all of them."""

    def __init__(self, **options: object) -> None:
        self.nodes: list[Server] = []
        try:
            buses = [free_port() for _ in range(3)]
            for n, bus in enumerate(buses):
                node = Server(cluster_enabled="yes", cluster_port=bus, **options)
                self.nodes.append(node)
                with node.client() as client:
                    client.execute_command("CLUSTER SET-CONFIG-EPOCH", n + 1)
                    client.execute_command("CLUSTER ADDSLOTSRANGE", n * SLOTS // 3, (n + 1) * SLOTS // 3 - 1)
                    for k, earlier in enumerate(self.nodes[:n]):  # all of them: gossip alone takes seconds
                        client.execute_command("CLUSTER MEET", "127.0.0.1", earlier.port, buses[k])
            for node in self.nodes:
                node.wait_until(_is_whole)
        except BaseException:
            self.stop()
            raise
        self.url = "redis+cluster://" + ",".join(node.address for node in self.nodes)

    def stop(self) -> None:
        """End all three and remove their data."""
        for node in self.nodes:
            node.stop()


def _is_whole(client: redis.Redis) -> bool:
    info: Any = client.execute_command("CLUSTER INFO")
    return bool(info["cluster_state"] == "ok" and info["cluster_known_nodes"] == "3")
