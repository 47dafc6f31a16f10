"""How long a connection may take over the head of a request."""

import asyncio
from typing import Any

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol


def impatient(seconds: float) -> type[HttpToolsProtocol]:
    """uvicorn's protocol, for which a request whose head is not there in time is none.

    By itself it waits for ever, so that whoever opens connections and says nothing could take all there are.
    """

    class Impatient(HttpToolsProtocol):
        _drop: asyncio.TimerHandle | None = None

        def connection_made(self, transport: Any) -> None:
            super().connection_made(transport)
            self._wait()

        def on_message_begin(self) -> None:
            super().on_message_begin()
            self._wait()

        def on_headers_complete(self) -> None:
            self._enough()
            super().on_headers_complete()

        def connection_lost(self, exc: Exception | None) -> None:
            self._enough()
            super().connection_lost(exc)

        def _wait(self) -> None:
            self._enough()
            self._drop = self.loop.call_later(seconds, self.transport.close)

        def _enough(self) -> None:
            if self._drop is not None:
                self._drop.cancel()

    return Impatient
