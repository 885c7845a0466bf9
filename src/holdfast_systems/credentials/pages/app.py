"""The pages as an application of their own: overview, one person. They ask for a session of the operator's."""

from __future__ import annotations

from importlib import resources
from typing import TYPE_CHECKING

from holdfast.base import Secret
from holdfast.delivery import Endpoints
from holdfast.http.asgi import Receive, Reply, Scope, Send, below, give
from holdfast.http.aside import aside
from holdfast.http.sessions import Sessions
from holdfast.http.sign_in import ask_to_sign_in, field, session_or_token
from holdfast.store import Tx
from holdfast_systems.credentials import tables
from holdfast_systems.credentials.faults import NOT_FOUND, UNAUTHORIZED
from holdfast_systems.credentials.pages import views
from holdfast_systems.credentials.platform import TENANT

if TYPE_CHECKING:
    from holdfast_systems.credentials.engine import Engine

LATEST = 10
ROWS = 50
PERSON = "/people/"
STYLE = "/style.css"

# As all pages here, but with one form that is sent to ourselves.
POLICY = (
    "default-src 'none'; style-src 'self'; img-src data:; base-uri 'none'; form-action 'self'; frame-ancestors 'none'"
)


def is_page(path: str) -> bool:
    """Whether the path is one of the pages, which ask for a session themselves."""
    return path in {"/", STYLE} or path.startswith(PERSON)


class EnginePages:
    """ASGI application of the pages."""

    page_routes = ("GET /", "GET /style.css", "GET /people/{platform}/{user_id}")

    def __init__(self, engine: Engine, sessions: Sessions, token: Secret) -> None:
        self._engine = engine
        self._endpoints = Endpoints(engine.store, {})  # only read: no scheme is needed
        self._sessions = sessions
        self._token = token
        self._style = resources.files(__package__).joinpath("style.css").read_bytes()

    async def __call__(self, scope: Scope, _: Receive, send: Send) -> None:
        method = scope["method"]
        if method not in {"GET", "HEAD"}:
            raise NOT_FOUND()
        return await give(await self._page(scope, below(scope)), send, head=method == "HEAD")

    async def _page(self, scope: Scope, path: str) -> Reply:
        if path == STYLE:
            return Reply(body=self._style, content_type="text/css; charset=utf-8")
        if not await session_or_token(self._sessions, self._token, scope):
            asked = ask_to_sign_in(scope)
            if asked is None:
                raise UNAUTHORIZED("You are not signed in.")
            return asked
        if path == "/":
            wanted = field(scope.get("query_string", b""), "platform")
            return _html(await aside(lambda: self._overview(wanted)))
        platform, _, user_id = path.removeprefix(PERSON).partition("/")
        page = await aside(lambda: self._person(platform, user_id))
        return _html(views.nobody(_root(path)), status=404) if page is None else _html(page)

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


def _root(path: str) -> str:
    """The way up from a page, so that its links hold wherever the system stands."""
    # The path is decoded: from the third one on, a slash is part of a user's id and no step of the browser's.
    return "../" * min(path.count("/") - 1, 2)


def _html(page: str, *, status: int = 200) -> Reply:
    # Not `no-referrer`: a form would then name no origin, and could not be told from another site's.
    headers = {"content-security-policy": POLICY, "cache-control": "no-store", "referrer-policy": "same-origin"}
    return Reply(body=page.encode(), status=status, headers=headers)
