"""The store is killed while rankings are asked for: none fails, and nobody has to start anything again."""

import threading

import httpx
import pytest

from streamrank import Client
from streamrank.config import RedisSettings, ServeSettings, Settings
from streamrank.errors import ServerRefused
from streamrank.serve.server import Server
from tests.serve.test_serve_http import until

ITEMS = {"low": {"fresh": 0.1}, "high": {"fresh": 0.9}}
BETTER = {"event": "preference", "better": {"fresh": 1.0}, "worse": {"fresh": 0.0}}


class Load:
    """Threads that ask as fast as they are answered."""

    def __init__(self, url, n):
        self.answers, self.failures, self._stop = [], [], threading.Event()
        self._threads = [threading.Thread(target=self._ask, args=(url,)) for _ in range(n)]
        for thread in self._threads:
            thread.start()

    def _ask(self, url):
        with Client(url) as client:
            while not self._stop.wait(0.002):
                try:
                    self.answers.append(client.rank(ITEMS))
                except ServerRefused as refused:
                    self.failures.append(str(refused))

    def stop(self):
        self._stop.set()
        for thread in self._threads:
            thread.join()


@pytest.mark.xdist_group("serve")
def test_a_redis_killed_under_load_fails_no_request_and_is_taken_up_again(start_redis, tmp_path):
    redis = start_redis(appendonly="yes", appendfsync="always")
    settings = Settings(
        store=f"{redis.url}/0",
        redis=RedisSettings(timeout_ms=500, retry_ms=200),
        serve=ServeSettings(port=0, log=str(tmp_path / "log"), timeout_ms=120_000),
    )
    with Server(settings) as server, Client(server.url, timeout_s=120) as client:
        assert client.wait_until_learnt(client.feedback(BETTER), 120)
        load = Load(server.url, 3)
        try:
            until(lambda: len(load.answers) > 20)
            redis.kill()
            until(lambda: load.answers[-1].degraded)
            assert "cannot be read" in client.ready()
            receipt = client.feedback([BETTER, BETTER])  # the log takes it all the same
            assert receipt.accepted == 2
            degraded = len(load.answers)
            until(lambda: len(load.answers) > degraded + 50)
            redis.start()
            assert client.wait_until_learnt(receipt, 120)
            until(lambda: not load.answers[-1].degraded)
            until(lambda: client.ready() == "")
        finally:
            load.stop()
        assert load.failures == []
        assert {tuple(r.item for r in answer.items) for answer in load.answers} == {("high", "low")}
        counts = httpx.get(f"{server.url}/live").json()["now"]["events"]
        assert counts["preference"] == 3  # each once
