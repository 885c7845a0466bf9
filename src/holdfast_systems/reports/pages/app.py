"""The page as an application in front of the API: a script reads and draws what the API answers."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from importlib import resources

from holdfast.catalog import CORE
from holdfast.http import BodyRule, Edge
from holdfast.http.asgi import Application, Receive, Reply, Scope, Send, give
from holdfast.http.route_table import Route, RouteTable
from holdfast.http.sign_in import ask_to_sign_in
from holdfast_systems.reports.faults import REPORTS
from holdfast_systems.reports.pages.session import Session

NO_BODY = BodyRule(bytes_max=0, json_checked=False)
POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self' data:; "
    "frame-src 'self'; base-uri 'none'; form-action 'self'; frame-ancestors 'none'"
)
ASSETS = {
    "/page.js": "text/javascript; charset=utf-8",
    "/graph.js": "text/javascript; charset=utf-8",
    "/page.css": "text/css; charset=utf-8",
    "/sample.json": "application/json",
}
Answer = Callable[[Scope], Awaitable[Reply]]


class Pages:
    """ASGI application: the page, and behind it the API."""

    def __init__(self, api: Application, session: Session) -> None:
        self._session = session
        self._api = api
        folder = resources.files(__package__)
        self._assets = {path: folder.joinpath(path[1:]).read_bytes() for path in ASSETS}
        self._page = folder.joinpath("page.html").read_bytes()
        self._own = Edge(self._answer, catalog=REPORTS, body=NO_BODY)
        routes: list[Route[Answer]] = [
            Route("GET /", self._front),
            *(Route(f"GET {path}", self._asset) for path in ASSETS),
        ]
        self.table = RouteTable(routes)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        own = scope["type"] == "http" and (_below(scope) == "" or bool(self.table.methods(_below(scope))))
        await (self._own if own else self._api)(scope, receive, send)

    async def _answer(self, scope: Scope, _: Receive, send: Send) -> None:
        path, method = _below(scope), scope["method"]
        found = self.table.find(method, path or "/")
        if found is None:
            raise CORE["METHOD_NOT_ALLOWED"](method=method)
        reply = await found.answer(scope) if path else _moved(f"{scope.get('root_path', '')}/")
        return await give(reply, send, head=method == "HEAD")

    async def _asset(self, scope: Scope) -> Reply:
        path = _below(scope)
        return Reply(body=self._assets[path], content_type=ASSETS[path], headers={"cache-control": "no-cache"})

    async def _front(self, scope: Scope) -> Reply:
        asked = None if await self._session.admits(scope) else ask_to_sign_in(scope)
        return _html(self._page) if asked is None else asked


def _moved(address: str) -> Reply:
    return Reply(body=b"", status=303, headers={"location": address})


def _below(scope: Scope) -> str:
    return str(scope["path"]).removeprefix(scope.get("root_path", ""))


def _html(page: bytes) -> Reply:
    headers = {
        "content-security-policy": POLICY,
        "cache-control": "no-store",
        "x-content-type-options": "nosniff",
        # Not `no-referrer`: a form would then name no origin, and could not be told from another site's.
        "referrer-policy": "same-origin",
    }
    return Reply(body=page, headers=headers)
