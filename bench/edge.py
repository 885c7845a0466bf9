"""What the edge costs a request: beside the bare application, and beside Starlette's own way to write middleware.

Each contender answers the same request with the same two messages; there is no server and no socket. Figures are CPU
time per request; `adds` is a contender less the application that it stands around. Requests with an idempotency key
are measured with a server and clients, because what they cost is commits.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.middleware.base import BaseHTTPMiddleware
from starlette.responses import PlainTextResponse
from starlette.routing import Route

from bench.edge_keyed import keyed_rows
from bench.measure import FULL, QUICK, Effort, call_ns
from bench.table import Asked, Row
from holdfast.http.access import Access
from holdfast.http.edge import Edge
from holdfast.http.keys import ApiKeys
from holdfast.http.limits import RateLimits, RateRule, by_client
from holdfast.policy import RateLimit
from holdfast.store import Store

TITLE = "edge: one request"
PACKAGES = ("holdfast", "starlette")
UNUSED_US_MAX = 5
RESULTS = Path(__file__).parent / "results"
API_KEY, API_KEY_US_MAX = "API key", 15

BARE, EDGE = "bare ASGI callable", "holdfast around it"
ROUTED, ROUTED_EDGE, ROUTED_BASE = "Starlette", "holdfast around Starlette", "Starlette, no-op BaseHTTPMiddleware"

App = Callable[[Any, Any, Any], Awaitable[None]]
Headers = tuple[tuple[bytes, bytes], ...]

REPLY: list[tuple[bytes, bytes]] = [(b"content-type", b"text/plain; charset=utf-8"), (b"content-length", b"2")]
HEADERS: Headers = (
    (b"host", b"127.0.0.1:8000"),
    (b"user-agent", b"bench/1"),
    (b"accept", b"*/*"),
    (b"accept-encoding", b"gzip, deflate"),
    (b"connection", b"keep-alive"),
)


def run(quick: bool) -> list[Row]:
    """All figures of the suite."""
    effort = QUICK if quick else FULL
    with TemporaryDirectory() as folder:
        store = Store.open(f"sqlite:///{Path(folder) / 'edge.db'}")
        store.migrate()
        try:
            rows = [*_unused(effort), *_used(store, effort)]
        finally:
            store.close()
    # Not the folder for temporary files: that one may be memory, where a commit costs nothing.
    RESULTS.mkdir(exist_ok=True)
    with TemporaryDirectory(dir=RESULTS) as folder:
        return rows + keyed_rows(Path(folder), quick)


def _unused(effort: Effort) -> list[Row]:
    """A request that uses nothing of the edge but its id."""
    apps = {
        BARE: bare,
        EDGE: Edge(bare),
        ROUTED: starlette(),
        ROUTED_EDGE: Edge(starlette()),
        ROUTED_BASE: starlette(Middleware(BaseHTTPMiddleware, dispatch=_no_op)),
    }
    for name, app in apps.items():
        _check(name, app)
    figures = call_ns({name: _asked(app) for name, app in apps.items()}, effort, awaited=True)
    return [_row("a request that uses none of it", name, figures) for name in apps]


def _used(store: Store, effort: Effort) -> list[Row]:
    """What each part adds to the same request."""
    keys = ApiKeys(store)
    bearer = f"Bearer {keys.issue('bench').secret.reveal()}".encode()
    rule = RateRule(name="client", rate=RateLimit(count=10_000_000, per_s=60), by=by_client)
    cases: dict[str, tuple[App, Headers]] = {
        EDGE: (Edge(bare), ()),
        "deadline": (Edge(bare), ((b"x-deadline-ms", b"30000"),)),
        "rate limit, in this process": (Edge(bare, limits=RateLimits(rule)), ()),
        "rate limit, shared through SQLite": (Edge(bare, limits=RateLimits(rule, store=store)), ()),
        API_KEY: (Edge(bare, access=Access(keys)), ((b"authorization", bearer),)),
        "a 404 told in the dialect": (Edge(missing), ()),
    }
    figures = call_ns({name: _asked(app, *headers) for name, (app, headers) in cases.items()}, effort, awaited=True)
    adds = {name: (figures[name] - figures[EDGE]) / 1_000 for name in cases if name != EDGE}
    asked = {API_KEY: Asked(bound=API_KEY_US_MAX, reached=adds[API_KEY], unit="µs added")}
    return [
        Row(group="what a part adds", name=name, figure=added, unit="µs", asked=asked.get(name))
        for name, added in adds.items()
    ]


def _row(group: str, name: str, figures: dict[str, float]) -> Row:
    around = {EDGE: BARE, ROUTED_EDGE: ROUTED, ROUTED_BASE: ROUTED}.get(name)
    if around is None:
        return Row(group=group, name=name, figure=figures[name] / 1_000, unit="µs")
    adds = (figures[name] - figures[around]) / 1_000
    ours = (figures[EDGE] - figures[BARE]) / 1_000
    asked = None if name == ROUTED_BASE else Asked(bound=UNUSED_US_MAX, reached=adds, unit="µs added")
    ratios = {"adds µs": adds, "× holdfast": adds / ours}
    return Row(group=group, name=name, figure=figures[name] / 1_000, unit="µs", ratios=ratios, asked=asked)


async def bare(scope: Any, receive: Any, send: Any) -> None:
    await send({"type": "http.response.start", "status": 200, "headers": REPLY})
    await send({"type": "http.response.body", "body": b"ok"})


async def missing(scope: Any, receive: Any, send: Any) -> None:
    await send({"type": "http.response.start", "status": 404, "headers": REPLY})
    await send({"type": "http.response.body", "body": b"Not Found"})


def starlette(*middleware: Middleware) -> App:
    async def home(request: Any) -> PlainTextResponse:
        return PlainTextResponse("ok")

    return Starlette(routes=[Route("/", home)], middleware=list(middleware))


async def _no_op(request: Any, call_next: Any) -> Any:
    return await call_next(request)


def _asked(app: App, *headers: tuple[bytes, bytes]) -> Callable[[int], Awaitable[None]]:
    given = [*HEADERS, *headers]

    async def receive() -> Any:
        return {"type": "http.request", "body": b"", "more_body": False}

    async def send(message: Any) -> None:
        pass

    async def ask(_: int) -> None:
        await app(_scope(given), receive, send)

    return ask


def _scope(headers: list[tuple[bytes, bytes]]) -> dict[str, Any]:
    return {
        "type": "http",
        "asgi": {"version": "3.0"},
        "http_version": "1.1",
        "method": "GET",
        "scheme": "http",
        "path": "/",
        "raw_path": b"/",
        "root_path": "",
        "query_string": b"",
        "headers": headers,
        "client": ("127.0.0.1", 50_000),
        "server": ("127.0.0.1", 8_000),
    }


def _check(name: str, app: App) -> None:
    """A contender that answers something else would win unfairly."""
    sent: list[Any] = []

    async def receive() -> Any:
        return {"type": "http.request", "body": b"", "more_body": False}

    async def send(message: Any) -> None:
        sent.append(message)

    asyncio.run(app(_scope(list(HEADERS)), receive, send))  # type: ignore[arg-type]
    body = b"".join(message.get("body", b"") for message in sent[1:])
    if (sent[0]["status"], body) != (200, b"ok"):
        raise AssertionError(f"{name} answered {sent[0]['status']} {body!r}")
