"""The routes. What they do is in `service.py`."""

import asyncio
import hmac
import tempfile
import time
from collections import OrderedDict
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import msgspec
import plotly
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request
from starlette.responses import FileResponse, PlainTextResponse, Response
from starlette.routing import Route

from ..errors import ConfigError, MalformedEvent, SourceError, StoreError
from .metrics import exposition
from .openapi import description
from .service import Service
from .training import Busy

PAGE = Path(__file__).parent / "page"
PLOTLY = Path(plotly.__file__).parent / "package_data" / "plotly.min.js"
OPEN = {"/", "/app.js", "/plotly.js", "/health", "/ready", "/docs", "/openapi.json"}  # need no token
ELSEWHERE = {"cross-site", "same-site"}
MAX_CLIENTS = 10_000  # whose rate is remembered; the one silent for longest goes first
# what the page may do: its own scripts, talking to this server alone; charts set styles of their own
POLICY = "default-src 'self'; style-src 'self' 'unsafe-inline'; img-src 'self' data: blob:"
NOBODY = "nobody challenges: name a second model of the config in serve.challenger"

Handler = Callable[[Request], Awaitable[Response]]


def build_app(service: Service) -> Starlette:
    """The ASGI application; `service` lives as long as it does."""

    @asynccontextmanager
    async def lifespan(_: Starlette) -> AsyncIterator[None]:
        yield
        await asyncio.to_thread(service.close)

    async def rank(request: Request) -> Response:
        body = await _body(request, service)
        try:
            answer = service.rank(
                request.path_params["model"], body, explain=request.query_params.get("explain") == "true"
            )
        except ConfigError as error:
            return _error(404, str(error))
        return _error(400, str(answer)) if isinstance(answer, MalformedEvent) else _json(answer)

    async def recommend(request: Request) -> Response:
        body = await _body(request, service)
        try:
            answer = service.recommend(request.path_params["name"], body)
        except ConfigError as error:
            return _error(404, str(error))
        return _error(400, str(answer)) if isinstance(answer, MalformedEvent) else _json(answer)

    async def feedback(request: Request) -> Response:
        body = await _body(request, service)
        try:
            receipt = await asyncio.to_thread(service.feedback, body)
        except (StoreError, SourceError) as error:
            return _error(503, str(error))
        return _json(receipt, 400 if receipt.status == "rejected" else 200)

    async def flush(_: Request) -> Response:
        receipt = await asyncio.to_thread(service.flush)
        return (
            _error(503, "what was sent is not learnt yet: see /ready") if receipt is None else _json(receipt)
        )

    async def train(request: Request) -> Response:
        try:
            return _json(await asyncio.to_thread(service.train, request.path_params["model"]))
        except ConfigError as error:
            return _error(404, str(error))
        except Busy as error:
            return _error(409, str(error))

    async def snapshot(_: Request) -> Response:
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "state.safetensors"
            try:
                await asyncio.to_thread(service.snapshot, path)
            except StoreError as error:
                return _error(503, str(error))
            name = f'attachment; filename="streamrank-{int(time.time())}.safetensors"'
            return Response(
                path.read_bytes(),
                media_type="application/octet-stream",
                headers={"Content-Disposition": name},
            )

    async def ready(_: Request) -> Response:
        why = service.not_ready()
        return _error(503, why) if why else _json({"status": "ready"})

    async def live(request: Request) -> Response:
        since = request.query_params.get("since", "0")
        try:
            after = float(since)
        except ValueError:
            return _error(400, f"since={since!r} is no time: seconds since 1970")
        points = [point for point in list(service.points) if point["time"] > after]
        now = service.now() | {"reconciled": service.training.done, "rolled_back": service.training.undone}
        return _json({"now": now, "points": points})

    async def compared(_: Request) -> Response:
        found = service.comparison()
        return _error(404, NOBODY) if found is None else _json(found)

    async def health(_: Request) -> Response:
        return _json({"status": "ok"})

    async def metrics(_: Request) -> Response:
        return PlainTextResponse(exposition(service), media_type="text/plain; version=0.0.4")

    async def openapi(_: Request) -> Response:
        return _json(description())

    def file(path: Path) -> Handler:
        async def send(_: Request) -> Response:
            return FileResponse(path, headers={"Content-Security-Policy": POLICY})

        return send

    routes: list[tuple[str, Handler, str]] = [
        ("/rank/{model}", rank, "POST"),
        ("/recommend/{name}", recommend, "POST"),
        ("/feedback", feedback, "POST"),
        ("/flush", flush, "POST"),
        ("/train/{model}", train, "POST"),
        ("/snapshot", snapshot, "POST"),
        ("/health", health, "GET"),
        ("/ready", ready, "GET"),
        ("/live", live, "GET"),
        ("/comparison", compared, "GET"),
        ("/metrics", metrics, "GET"),
        ("/openapi.json", openapi, "GET"),
        ("/docs", file(PAGE / "docs.html"), "GET"),
        ("/", file(PAGE / "index.html"), "GET"),
        ("/app.js", file(PAGE / "app.js"), "GET"),
        ("/docs.js", file(PAGE / "docs.js"), "GET"),
        ("/plotly.js", file(PLOTLY), "GET"),
    ]
    guard = _guard(service)
    return Starlette(
        routes=[Route(path, guard(handler), methods=[method]) for path, handler, method in routes],
        lifespan=lifespan,
        exception_handlers={HTTPException: _unknown, Exception: _broken},
    )


class _Refused(Exception):
    def __init__(self, status: int, reason: str) -> None:
        self.status, self.reason = status, reason


def _guard(service: Service) -> Callable[[Handler], Handler]:
    """Token, rate, and whatever a handler refuses."""
    serve = service.settings.serve
    # address -> (requests it may still make, when that was so)
    rates: OrderedDict[str, tuple[float, float]] = OrderedDict()

    def too_many(address: str) -> bool:
        now, limit = time.monotonic(), serve.max_per_second
        left, then = rates.pop(address, (float(limit), now))
        left = min(limit, left + (now - then) * limit)
        rates[address] = (max(left - 1.0, 0.0) if left >= 1.0 else left, now)
        while len(rates) > MAX_CLIENTS:
            rates.popitem(last=False)
        return left < 1.0

    def guard(handler: Handler) -> Handler:
        async def guarded(request: Request) -> Response:
            if serve.token and request.url.path not in OPEN | {"/docs.js"}:
                given = request.headers.get("authorization", "")
                if not hmac.compare_digest(given.encode(), f"Bearer {serve.token}".encode()):
                    return _error(
                        401, "send the token as `Authorization: Bearer …`", {"WWW-Authenticate": "Bearer"}
                    )
            # browsers say so of requests to this machine: any page one visits could teach the ranker
            if request.method == "POST" and request.headers.get("sec-fetch-site") in ELSEWHERE:
                return _error(403, "the page that asks is of another site: only this server's own may")
            address = request.client.host if request.client else ""
            if serve.max_per_second and request.url.path not in OPEN and too_many(address):
                return _error(
                    429, f"more than {serve.max_per_second} requests a second", {"Retry-After": "1"}
                )
            try:
                return await handler(request)
            except _Refused as refused:
                return _error(refused.status, refused.reason)

        return guarded

    return guard


async def _unknown(request: Request, error: Exception) -> Response:
    """A path or a method that is not there: told like every other refusal."""
    assert isinstance(error, HTTPException)
    what = f"{request.method} {request.url.path}: {error.detail.lower()}; see /docs"
    return _error(error.status_code, what, dict(error.headers or {}))


async def _broken(_: Request, __: Exception) -> Response:
    return _error(500, "the server has a fault: its log has the trace")


async def _body(request: Request, service: Service) -> bytes:
    serve = service.settings.serve
    parts: list[bytes] = []
    size = 0
    try:
        async with asyncio.timeout(serve.timeout_ms / 1000):
            async for part in request.stream():
                size += len(part)
                if size > serve.max_bytes:
                    raise _Refused(413, f"the body has more than {serve.max_bytes} bytes (serve.max_bytes)")
                parts.append(part)
    except TimeoutError:
        raise _Refused(408, f"the body did not arrive within {serve.timeout_ms} ms") from None
    except ClientDisconnect:
        raise _Refused(400, "the sender went away") from None
    return b"".join(parts)


def _json(value: Any, status: int = 200) -> Response:
    return Response(msgspec.json.encode(value), status, media_type="application/json")


def _error(status: int, reason: str, headers: dict[str, str] | None = None) -> Response:
    body = msgspec.json.encode({"error": reason})
    return Response(body, status, headers=headers, media_type="application/json")
