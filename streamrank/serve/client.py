"""The server from Python, over HTTP: `Client`, and `AsyncClient` with the same methods."""

import asyncio
import time
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, Self
from urllib.parse import quote

import httpx
import msgspec

from ..errors import ServerRefused
from ..events.types import Event, Field, Item, RankRequest, Value
from ..sources.feedback import SHARD
from .answers import Answer, Comparison, Receipt

POLL_S = 0.01
HOME = "http://127.0.0.1:8000"

Items = Mapping[str, Mapping[str, Value]] | Sequence[Item | str]  # {"a": {"price": 3.5}}, or in full
Events = Iterable[Event | Mapping[str, Any]] | Event | Mapping[str, Any] | bytes  # bytes: JSON as it is


def rank_request(items: Items, **of: Any) -> bytes:
    """The body of a request to rank; `of` are further fields of a `Ranking`, such as user or query.

    >>> rank_request({"a": {"price": 3.5}, "b": {}}, user="u1")[:55]
    b'{"event":"ranking","id":"-","timestamp":0,"items":[{"id'
    """
    if isinstance(items, Mapping):
        listed = [Item(name, [Field(k, v) for k, v in of_one.items()]) for name, of_one in items.items()]
    else:
        listed = [Item(item) if isinstance(item, str) else item for item in items]
    return msgspec.json.encode(RankRequest(items=listed, **of))


def feedback_body(events: Events) -> bytes:
    """The body of /feedback: JSON lines."""
    if isinstance(events, bytes):
        return events
    several = [events] if isinstance(events, Mapping | msgspec.Struct) else events
    return b"\n".join(msgspec.json.encode(event) for event in several)


class _Calls:
    """What both clients share: where things are, and what an answer means."""

    url: str

    @staticmethod
    def _rank(model: str, explain: bool) -> str:
        return f"/rank/{quote(model, safe='')}" + ("?explain=true" if explain else "")

    def _said(self, answer: httpx.Response) -> bytes:
        if answer.is_success:
            return answer.content
        try:
            said = answer.json()
            reason = said["error"] if "error" in said else said["rejected"][0]["reason"]
        except (ValueError, KeyError, IndexError, TypeError):
            reason = answer.text[:200]
        raise ServerRefused(answer.status_code, f"{answer.request.method} {answer.request.url}: {reason}")

    def _away(self, error: httpx.TransportError) -> ServerRefused:
        return ServerRefused(0, f"no answer from {self.url}: {type(error).__name__} {error}".rstrip())

    @staticmethod
    def _has_learnt(live: bytes, receipt: Receipt) -> bool:
        shards = msgspec.json.decode(live)["now"]["shards"]
        return bool(shards.get(SHARD, {}).get("offset", -1) >= receipt.offset)


def _options(url: str, token: str, timeout_s: float) -> dict[str, Any]:
    headers = {"Authorization": f"Bearer {token}"} if token else {}
    return {"base_url": url, "headers": headers, "timeout": timeout_s}


class Client(_Calls):
    """Rank, and say what was shown and clicked. Anything but success raises `ServerRefused`.

    One client may be shared by threads. Where the server cannot be reached, show your own order: a ranker
    that is away must not keep a page from coming.
    """

    def __init__(self, url: str = HOME, *, token: str = "", timeout_s: float = 10.0) -> None:
        self.url = url
        self._http = httpx.Client(**_options(url, token, timeout_s))

    def rank(self, items: Items, *, model: str = "default", explain: bool = False, **of: Any) -> Answer:
        """Order items; `of` are further fields of a `Ranking`: user, session, query, fields."""
        body = rank_request(items, **of)
        return msgspec.json.decode(self._call("POST", self._rank(model, explain), body), type=Answer)

    def feedback(self, events: Events) -> Receipt:
        """Send events; returns when they are on disk. All refused: `ServerRefused`; some: see the receipt."""
        return msgspec.json.decode(self._call("POST", "/feedback", feedback_body(events)), type=Receipt)

    def wait_until_learnt(self, receipt: Receipt, timeout_s: float = 10.0) -> bool:
        """Until rankings know of these events; False when that took too long. Embedded feedback only."""
        deadline = time.monotonic() + timeout_s
        while not self._has_learnt(self._call("GET", "/live?since=inf"), receipt):
            if time.monotonic() > deadline:
                return False
            time.sleep(POLL_S)
        return True

    def train(self, model: str = "default", timeout_s: float = 3600.0) -> dict[str, Any]:
        """Reconcile a model; the report."""
        said: dict[str, Any] = msgspec.json.decode(
            self._call("POST", f"/train/{quote(model, safe='')}", timeout_s=timeout_s)
        )
        return said

    def snapshot(self, path: str | Path) -> None:
        """Save the state of the server to a file."""
        Path(path).write_bytes(self._call("POST", "/snapshot", timeout_s=600.0))

    def comparison(self) -> Comparison:
        """How the challenger does against the champion. `ServerRefused`: nobody challenges."""
        return msgspec.json.decode(self._call("GET", "/comparison"), type=Comparison)

    def ready(self) -> str:
        """Why no traffic should go there; empty when it may."""
        try:
            self._call("GET", "/ready")
        except ServerRefused as refused:
            return refused.reason
        return ""

    def _call(self, method: str, path: str, body: bytes = b"", timeout_s: float | None = None) -> bytes:
        try:
            timeout = self._http.timeout if timeout_s is None else timeout_s
            return self._said(self._http.request(method, path, content=body, timeout=timeout))
        except httpx.TransportError as error:
            raise self._away(error) from None

    def close(self) -> None:
        """Let go of the connections."""
        self._http.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


class AsyncClient(_Calls):
    """`Client`, awaited."""

    def __init__(self, url: str = HOME, *, token: str = "", timeout_s: float = 10.0) -> None:
        self.url = url
        self._http = httpx.AsyncClient(**_options(url, token, timeout_s))

    async def rank(self, items: Items, *, model: str = "default", explain: bool = False, **of: Any) -> Answer:
        """Order items; `of` are further fields of a `Ranking`: user, session, query, fields."""
        body = rank_request(items, **of)
        return msgspec.json.decode(await self._call("POST", self._rank(model, explain), body), type=Answer)

    async def feedback(self, events: Events) -> Receipt:
        """Send events; returns when they are on disk. All refused: `ServerRefused`; some: see the receipt."""
        return msgspec.json.decode(await self._call("POST", "/feedback", feedback_body(events)), type=Receipt)

    async def wait_until_learnt(self, receipt: Receipt, timeout_s: float = 10.0) -> bool:
        """Until rankings know of these events; False when that took too long. Embedded feedback only."""
        deadline = time.monotonic() + timeout_s
        while not self._has_learnt(await self._call("GET", "/live?since=inf"), receipt):
            if time.monotonic() > deadline:
                return False
            await asyncio.sleep(POLL_S)
        return True

    async def train(self, model: str = "default", timeout_s: float = 3600.0) -> dict[str, Any]:
        """Reconcile a model; the report."""
        said: dict[str, Any] = msgspec.json.decode(
            await self._call("POST", f"/train/{quote(model, safe='')}", timeout_s=timeout_s)
        )
        return said

    async def snapshot(self, path: str | Path) -> None:
        """Save the state of the server to a file."""
        content = await self._call("POST", "/snapshot", timeout_s=600.0)
        await asyncio.to_thread(Path(path).write_bytes, content)

    async def comparison(self) -> Comparison:
        """How the challenger does against the champion. `ServerRefused`: nobody challenges."""
        return msgspec.json.decode(await self._call("GET", "/comparison"), type=Comparison)

    async def ready(self) -> str:
        """Why no traffic should go there; empty when it may."""
        try:
            await self._call("GET", "/ready")
        except ServerRefused as refused:
            return refused.reason
        return ""

    async def _call(self, method: str, path: str, body: bytes = b"", timeout_s: float | None = None) -> bytes:
        try:
            timeout = self._http.timeout if timeout_s is None else timeout_s
            return self._said(await self._http.request(method, path, content=body, timeout=timeout))
        except httpx.TransportError as error:
            raise self._away(error) from None

    async def close(self) -> None:
        """Let go of the connections."""
        await self._http.aclose()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()
