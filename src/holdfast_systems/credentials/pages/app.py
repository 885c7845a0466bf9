"""The pages as an application of their own: sign in, overview, one person."""

from __future__ import annotations

from importlib import resources
from typing import TYPE_CHECKING
from urllib.parse import parse_qs

from holdfast.base import Secret
from holdfast.catalog.core import FORBIDDEN
from holdfast.delivery import Endpoints
from holdfast.http.asgi import Receive, Reply, Scope, Send, give
from holdfast.http.aside import aside
from holdfast.http.origin import is_foreign
from holdfast.http.sessions import Sessions
from holdfast.store import Tx
from holdfast_systems.credentials import tables
from holdfast_systems.credentials.faults import NOT_FOUND
from holdfast_systems.credentials.pages import views
from holdfast_systems.credentials.platform import TENANT

if TYPE_CHECKING:
    from holdfast_systems.credentials.engine import Engine

COOKIE = "holdfast_credentials"
LATEST = 10
ROWS = 50
FIELDS_MAX = 10
PERSON = "/people/"

# As all pages here, but with one form that is sent to ourselves.
POLICY = (
    "default-src 'none'; style-src 'self'; img-src data:; base-uri 'none'; form-action 'self'; frame-ancestors 'none'"
)


def is_page(path: str) -> bool:
    """Whether the path is one of the pages, which ask for the token themselves."""
    return path in {"/", "/sign-in", "/sign-out", "/style.css"} or path.startswith(PERSON)


class EnginePages:
    """ASGI application of the pages."""

    def __init__(self, engine: Engine, token: Secret) -> None:
        self._engine = engine
        self._endpoints = Endpoints(engine.store, {})  # only read: no scheme is needed
        self._sessions = Sessions(engine.store, token, cookie=COOKIE)
        self._style = resources.files(__package__).joinpath("style.css").read_bytes()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        path = scope["path"].removeprefix(scope.get("root_path", "")) or "/"
        method = scope["method"]
        if path == "/sign-in" and method == "POST":
            return await give(await self._sign_in(scope, receive), send, head=False)
        if path == "/sign-out" and method == "POST":
            return await give(await self._sign_out(scope), send, head=False)
        if method not in {"GET", "HEAD"}:
            raise NOT_FOUND()
        return await give(await self._page(scope, path), send, head=method == "HEAD")

    async def _page(self, scope: Scope, path: str) -> Reply:
        if path in {"/sign-in", "/sign-out"}:
            return _moved()  # somebody loads again what a form led to
        if path == "/style.css":
            return Reply(body=self._style, content_type="text/css; charset=utf-8")
        if not await self._sessions.holds(scope):
            return _html(views.sign_in(_root(path)), status=200 if path == "/" else 401)
        if path == "/":
            wanted = _field(scope.get("query_string", b""), "platform")
            return _html(await aside(lambda: self._overview(wanted)))
        platform, _, user_id = path.removeprefix(PERSON).partition("/")
        page = await aside(lambda: self._person(platform, user_id))
        return _html(views.nobody(_root(path)), status=404) if page is None else _html(page)

    async def _sign_out(self, scope: Scope) -> Reply:
        _check_origin(scope)
        await self._sessions.leave(scope)
        return _moved(self._sessions.set_cookie_here("", scope))

    async def _sign_in(self, scope: Scope, receive: Receive) -> Reply:
        _check_origin(scope)
        body = b""
        more = True
        while more:  # the edge bounds it
            message = await receive()
            body += message.get("body", b"")
            more = message.get("more_body", False)
        cookie = self._sessions.enter(scope, _field(body, "token").strip())
        if cookie is None:
            return _html(views.sign_in("", wrong=True), status=401)
        return _moved(self._sessions.set_cookie_here(cookie, scope))

    def _overview(self, wanted: str) -> str:
        names = self._engine.platforms
        platform = wanted if wanted in names else names[0]

        health = self._health()

        def phase(tx: Tx) -> str:
            return views.overview(
                platforms=names,
                platform=platform,
                totals=tables.totals(tx, platform),
                members=tables.members(tx, platform, count=ROWS),
                latest=tables.latest(tx, platform, count=LATEST),
                health=health,
            )

        return self._engine.store.atomic(phase, write=False)

    def _person(self, platform: str, user_id: str) -> str | None:
        if platform not in self._engine.platforms or "\0" in user_id:
            return None
        found = self._engine.store.atomic(lambda tx: tables.member(tx, platform, user_id), write=False)
        return None if found is None else views.person(platform, found, self._health())

    def _health(self) -> str:
        # Two are enough to know that there is not just one.
        return views.health_of([one.id for one in self._endpoints.list(tenant=TENANT, count=2)])


def _check_origin(scope: Scope) -> None:
    """Let no page of another site sign anybody in or out.

    Raises:
        Failure: FORBIDDEN.
    """
    if is_foreign(scope, ""):
        raise FORBIDDEN("The request came from another site.")


def _field(form: bytes, name: str) -> str:
    """One field of a form; empty where it is not there, or where this is no form of ours."""
    try:
        return parse_qs(form.decode("latin-1"), max_num_fields=FIELDS_MAX).get(name, [""])[0]
    except ValueError:
        return ""


def _root(path: str) -> str:
    """The way up from a page, so that its links hold wherever the system stands."""
    # The path is decoded: from the third one on, a slash is part of a user's id and no step of the browser's.
    return "../" * min(path.count("/") - 1, 2)


def _html(page: str, *, status: int = 200) -> Reply:
    # Not `no-referrer`: a form would then name no origin, and could not be told from another site's.
    headers = {"content-security-policy": POLICY, "cache-control": "no-store", "referrer-policy": "same-origin"}
    return Reply(body=page.encode(), status=status, headers=headers)


def _moved(cookie: str | None = None) -> Reply:
    """To the front page; with a cookie, signed in or out."""
    told = {} if cookie is None else {"set-cookie": cookie}
    return Reply(body=b"", status=303, headers={"location": "./", "cache-control": "no-store", **told})
