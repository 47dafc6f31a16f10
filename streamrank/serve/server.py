"""The HTTP server around the application: where it listens, and how it ends."""

import ipaddress
import socket
import sys
import threading
import time
from types import TracebackType
from typing import Self

import uvicorn

from ..config import Settings
from ..errors import ConfigError
from ..pipeline.replay import stop_signals
from .http import build_app
from .patience import impatient
from .service import Service

START_S = 60.0


class Server:
    """A server in a thread of its own; `url` is where. `wait` lasts until Ctrl-C or SIGTERM."""

    def __init__(self, settings: Settings) -> None:
        serve = settings.serve
        if not serve.token and not _is_loopback(serve.host):
            raise ConfigError(
                f"serve.host is {serve.host}: whoever reaches it could teach the ranker. Give a token "
                "(--token, or STREAMRANK_SERVE_TOKEN), or listen on 127.0.0.1 behind a proxy that asks."
            )
        family = socket.AF_INET6 if ":" in serve.host else socket.AF_INET
        self._socket = socket.socket(family, socket.SOCK_STREAM)
        try:
            self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            self._socket.bind((serve.host, serve.port))
        except OSError as error:
            self._socket.close()
            raise ConfigError(f"cannot listen on {serve.host}:{serve.port}: {error.strerror}") from None
        port = self._socket.getsockname()[1]
        self.url = f"http://{f'[{serve.host}]' if ':' in serve.host else serve.host}:{port}"
        # a thread that reads the state gives way to one that answers, sooner than after 5 ms
        sys.setswitchinterval(0.0005)
        self.service = Service(settings)
        config = uvicorn.Config(
            build_app(self.service), log_level="warning", access_log=False, timeout_keep_alive=30,
            timeout_graceful_shutdown=5, server_header=False, http=impatient(serve.timeout_ms / 1000),
        )  # fmt: skip
        self._server = uvicorn.Server(config)
        self._thread = threading.Thread(
            target=self._server.run, kwargs={"sockets": [self._socket]}, name="http", daemon=True
        )
        self._thread.start()
        deadline = time.monotonic() + START_S
        while not self._server.started and self._thread.is_alive() and time.monotonic() < deadline:
            time.sleep(0.005)

    def wait(self) -> None:
        """Until Ctrl-C or SIGTERM."""
        with stop_signals() as stopped:
            while not stopped() and self._thread.is_alive():
                time.sleep(0.1)

    def close(self) -> None:
        """Finish what is being answered, let the worker commit, end."""
        self._server.should_exit = True
        self._thread.join()
        self._socket.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def _is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"
