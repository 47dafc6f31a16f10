"""A way to a server on which questions or answers get lost: a fault that a server cannot be asked for."""

import contextlib
import socket
import threading
from collections.abc import Callable
from typing import Literal


class Proxy:
    """Passes every byte on, both ways, until told to lose something.

    ``lose("answer", b"EVAL", times=2)``: of the next two connections that send these bytes, the server gets
    what was sent and the client never an answer; with "question" the server does not get it either. Such a
    connection stays open, and silent, until the client gives up. `then` is called once something was lost.
    """

    def __init__(self, port: int) -> None:
        self._server = ("127.0.0.1", port)
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port = int(self._listener.getsockname()[1])
        self.lost = 0
        self._what: Literal["question", "answer"] = "answer"
        self._mark, self._times = b"", 0
        self._then: Callable[[], object] = lambda: None
        self._sockets = [self._listener]
        threading.Thread(target=self._accept, daemon=True).start()

    def lose(
        self,
        what: Literal["question", "answer"],
        mark: bytes,
        *,
        times: int = 1,
        then: Callable[[], object] = lambda: None,
    ) -> None:
        self._what, self._mark, self._times, self._then = what, mark, times, then

    def stop(self) -> None:
        for one in self._sockets:
            with contextlib.suppress(OSError):
                one.shutdown(socket.SHUT_RDWR)
            one.close()

    def _accept(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                client, _ = self._listener.accept()
                server = socket.create_connection(self._server)
                self._sockets += (client, server)
                silent = threading.Event()
                for work in (self._questions, self._answers):
                    threading.Thread(target=work, args=(client, server, silent), daemon=True).start()

    def _questions(self, client: socket.socket, server: socket.socket, silent: threading.Event) -> None:
        with contextlib.suppress(OSError):
            while data := client.recv(1 << 16):
                losing = not silent.is_set() and self._times > 0 and self._mark in data
                if losing:
                    self._times -= 1
                    silent.set()
                if not silent.is_set() or self._what == "answer":
                    server.sendall(data)
                if losing and self._what == "question":
                    self._was_lost()
        with contextlib.suppress(OSError):
            server.shutdown(socket.SHUT_RDWR)

    def _answers(self, client: socket.socket, server: socket.socket, silent: threading.Event) -> None:
        with contextlib.suppress(OSError):
            while data := server.recv(1 << 16):
                if silent.is_set():
                    self._was_lost()
                else:
                    client.sendall(data)

    def _was_lost(self) -> None:
        self._then()
        self.lost += 1
