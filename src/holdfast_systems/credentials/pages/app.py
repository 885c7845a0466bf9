"""The pages as an application of their own: sign in, overview, one person."""

from __future__ import annotations

from importlib import resources
from typing import TYPE_CHECKING
from urllib.parse import parse_qs, unquote

from holdfast.base import Secret
from holdfast.http.asgi import Receive, Reply, Scope, Send, give
from holdfast.http.aside import aside
from holdfast.store import Tx
from holdfast_systems.credentials import tables
from holdfast_systems.credentials.faults import MEMBER_NOT_FOUND, NOT_FOUND
from holdfast_systems.credentials.pages import views
from holdfast_systems.credentials.pages.session import Session, set_cookie
from holdfast_systems.credentials.platform import TENANT

if TYPE_CHECKING:
    from holdfast_systems.credentials.engine import Engine

LATEST = 10
ROWS = 50
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
        self._session = Session(token)
        self._style = resources.files(__package__).joinpath("style.css").read_bytes()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        path = scope["path"].removeprefix(scope.get("root_path", "")) or "/"
        method = scope["method"]
        if path == "/sign-in" and method == "POST":
            return await give(await self._sign_in(scope, receive), send, head=False)
        if path == "/sign-out" and method == "POST":
            return await give(_moved("./", set_cookie("", scope, seconds=0)), send, head=False)
        if method not in {"GET", "HEAD"} or not is_page(path) or path in {"/sign-in", "/sign-out"}:
            raise NOT_FOUND()
        return await give(await self._page(scope, path), send, head=method == "HEAD")

    async def _page(self, scope: Scope, path: str) -> Reply:
        if path == "/style.css":
            return Reply(body=self._style, content_type="text/css; charset=utf-8")
        if not self._session.holds(scope):
            return _html(views.sign_in(_root(path)), status=200 if path == "/" else 401)
        if path == "/":
            asked = parse_qs(scope.get("query_string", b"").decode("latin-1"), max_num_fields=10)
            return _html(await aside(lambda: self._overview(asked.get("platform", [""])[0])))
        platform, _, user_id = path.removeprefix(PERSON).partition("/")
        return _html(await aside(lambda: self._person(platform, unquote(user_id))))

    async def _sign_in(self, scope: Scope, receive: Receive) -> Reply:
        body = b""
        more = True
        while more:  # the edge bounds it
            message = await receive()
            body += message.get("body", b"")
            more = message.get("more_body", False)
        given = parse_qs(body.decode("latin-1"), max_num_fields=10).get("token", [""])[0]
        cookie = self._session.begin(given.strip())
        if cookie is None:
            return _html(views.sign_in("", wrong=True), status=401)
        return _moved("./", set_cookie(cookie, scope))

    def _overview(self, wanted: str) -> str:
        names = self._engine.platforms
        platform = wanted if wanted in names else names[0]

        def phase(tx: Tx) -> str:
            return views.overview(
                platforms=names,
                platform=platform,
                totals=tables.totals(tx, platform),
                members=tables.members(tx, platform, count=ROWS),
                latest=tables.latest(tx, platform, count=LATEST),
                health=_health(tx),
            )

        return self._engine.store.atomic(phase, write=False)

    def _person(self, platform: str, user_id: str) -> str:
        known = platform in self._engine.platforms and "\0" not in user_id

        def phase(tx: Tx) -> str | None:
            found = tables.member(tx, platform, user_id) if known else None
            return None if found is None else views.person(platform, found, _health(tx))

        page = self._engine.store.atomic(phase, write=False)
        if page is None:
            raise MEMBER_NOT_FOUND(user_id=user_id[:200])
        return page


def _health(tx: Tx) -> str:
    # Two are enough to know that there is not just one.
    return views.health_of([row[0] for row in tx.rows("delivery.endpoints", after="", tenant=TENANT, count=2)])


def _root(path: str) -> str:
    """The way up from a page, so that its links hold wherever the system stands."""
    return "../" * (path.count("/") - 1)


def _html(page: str, *, status: int = 200) -> Reply:
    headers = {"content-security-policy": POLICY, "cache-control": "no-store"}
    return Reply(body=page.encode(), status=status, headers=headers)


def _moved(place: str, cookie: str) -> Reply:
    return Reply(body=b"", status=303, headers={"location": place, "set-cookie": cookie, "cache-control": "no-store"})
