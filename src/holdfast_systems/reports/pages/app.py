"""The page as an application in front of the API: a script reads and draws what the API answers."""

from __future__ import annotations

from importlib import resources

from holdfast.catalog import CORE
from holdfast.http import BodyRule, Edge
from holdfast.http.asgi import Application, Receive, Reply, Scope, Send, give
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


class Pages:
    """ASGI application: the page, and behind it the API."""

    page_routes = ("GET /", *(f"GET {path}" for path in ASSETS))

    def __init__(self, api: Application, session: Session) -> None:
        self._session = session
        self._api = api
        folder = resources.files(__package__)
        self._assets = {path: folder.joinpath(path[1:]).read_bytes() for path in ASSETS}
        self._page = folder.joinpath("page.html").read_bytes()
        self._own = Edge(self._answer, catalog=REPORTS, body=NO_BODY)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http" and _is_own(_below(scope)):
            await self._own(scope, receive, send)
        else:
            await self._api(scope, receive, send)

    async def _answer(self, scope: Scope, _: Receive, send: Send) -> None:
        path, method = _below(scope), scope["method"]
        if method not in ("GET", "HEAD"):
            raise CORE["METHOD_NOT_ALLOWED"]()
        return await give(await self._shown(scope, path), send, head=method == "HEAD")

    async def _shown(self, scope: Scope, path: str) -> Reply:
        if path in ASSETS:
            return Reply(body=self._assets[path], content_type=ASSETS[path], headers={"cache-control": "no-cache"})
        if path == "":
            return Reply(body=b"", status=303, headers={"location": f"{scope.get('root_path', '')}/"})
        asked = None if await self._session.admits(scope) else ask_to_sign_in(scope)
        return _html(self._page) if asked is None else asked


def _is_own(path: str) -> bool:
    return path in ("", "/") or path in ASSETS


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
