"""The page as an application in front of the API: sign in, then a script reads and draws what the API answers."""

from __future__ import annotations

from importlib import resources
from urllib.parse import parse_qs

from holdfast.catalog import CORE
from holdfast.http import BodyRule, Edge
from holdfast.http.asgi import Application, Receive, Reply, Scope, Send, give
from holdfast.http.origin import is_foreign
from holdfast_systems.reports.faults import REPORTS
from holdfast_systems.reports.pages.session import Session

FIELDS_MAX = 10
FORM = BodyRule(bytes_max=4_096, json_checked=False)
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
WRONG = '<p class="wrong" role="alert">That is not the token.</p>'


class Pages:
    """ASGI application: the page and its session, and behind them the API."""

    def __init__(self, api: Application, session: Session) -> None:
        self._session = session
        self._api = api
        folder = resources.files(__package__)
        self._assets = {path: folder.joinpath(path[1:]).read_bytes() for path in ASSETS}
        self._page = folder.joinpath("page.html").read_bytes()
        self._sign_in = folder.joinpath("sign_in.html").read_text("utf-8")
        self._own = Edge(self._answer, catalog=REPORTS, body=FORM)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http" and _is_own(_below(scope)):
            await self._own(scope, receive, send)
        else:
            await self._api(scope, receive, send)

    async def _answer(self, scope: Scope, receive: Receive, send: Send) -> None:
        path, method = _below(scope), scope["method"]
        if path == "/sign-in" and method == "POST":
            return await give(await self._signed_in(scope, receive), send, head=False)
        if path == "/sign-out" and method == "POST":
            return await give(await self._signed_out(scope), send, head=False)
        if method not in ("GET", "HEAD"):
            raise CORE["METHOD_NOT_ALLOWED"]()
        return await give(await self._shown(scope, path), send, head=method == "HEAD")

    async def _shown(self, scope: Scope, path: str) -> Reply:
        if path in ASSETS:
            return Reply(body=self._assets[path], content_type=ASSETS[path], headers={"cache-control": "no-cache"})
        if path == "":
            return _moved(f"{scope.get('root_path', '')}/")
        if path != "/":
            return _moved("./")
        if not await self._session.admits(scope):
            return self._asked(status=200)
        return _html(self._page)

    async def _signed_out(self, scope: Scope) -> Reply:
        _check_origin(scope)
        await self._session.leave(scope)
        return _moved("./", cookie=self._session.set_cookie_here("", scope))

    async def _signed_in(self, scope: Scope, receive: Receive) -> Reply:
        _check_origin(scope)
        body, more = b"", True
        while more:  # the edge bounds it
            message = await receive()
            body += message.get("body", b"")
            more = message.get("more_body", False)
        cookie = self._session.enter(scope, _field(body, "token").strip())
        if cookie is None:
            return self._asked(status=401, wrong=True)
        return _moved("./", cookie=self._session.set_cookie_here(cookie, scope))

    def _asked(self, *, status: int, wrong: bool = False) -> Reply:
        return _html(self._sign_in.replace("{wrong}", WRONG if wrong else "").encode(), status=status)


def _check_origin(scope: Scope) -> None:
    """Let no page of another site sign anybody in or out.

    Raises:
        Failure: FORBIDDEN.
    """
    if is_foreign(scope, ""):
        raise CORE["FORBIDDEN"]("The request came from another site.")


def _is_own(path: str) -> bool:
    return path in ("", "/", "/sign-in", "/sign-out") or path in ASSETS


def _below(scope: Scope) -> str:
    return str(scope["path"]).removeprefix(scope.get("root_path", ""))


def _field(form: bytes, name: str) -> str:
    try:
        return parse_qs(form.decode("latin-1"), max_num_fields=FIELDS_MAX).get(name, [""])[0]
    except ValueError:
        return ""


def _html(page: bytes, *, status: int = 200) -> Reply:
    headers = {
        "content-security-policy": POLICY,
        "cache-control": "no-store",
        "x-content-type-options": "nosniff",
        # Not `no-referrer`: a form would then name no origin, and could not be told from another site's.
        "referrer-policy": "same-origin",
    }
    return Reply(body=page, status=status, headers=headers)


def _moved(where: str, *, cookie: str | None = None) -> Reply:
    told = {} if cookie is None else {"set-cookie": cookie}
    return Reply(body=b"", status=303, headers={"location": where, "cache-control": "no-store", **told})
