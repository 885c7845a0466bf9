"""The engine's pages as an application: who has earned what, what arrived, and what was refused.

Always true: without a session or the token nothing is shown, and nothing here changes anything.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from functools import partial
from importlib import resources
from typing import TYPE_CHECKING, Any

from holdfast.catalog import Failure
from holdfast.delivery import Endpoints
from holdfast.http.asgi import Receive, Reply, Scope, Send, below, give, header, prefers_html
from holdfast.http.aside import aside
from holdfast.http.exchange import note
from holdfast.http.route_table import Route, RouteTable
from holdfast.http.sign_in import field
from holdfast.store import Tx
from holdfast_systems.credentials import tables
from holdfast_systems.credentials.faults import NOT_FOUND
from holdfast_systems.credentials.pages import engine_views as views
from holdfast_systems.credentials.pages.layout import Frame, health_of
from holdfast_systems.credentials.pages.page_access import PageAccess, html, refused, to_sign_in
from holdfast_systems.credentials.platform import TENANT
from holdfast_systems.credentials.refusal_log import refusals

if TYPE_CHECKING:
    from holdfast_systems.credentials.engine import Engine

LATEST = 10
ROWS = 50
PERSON, EVENT = "/people/", "/events/"
STYLE = "/style.css"
NAME = "Credential engine"
Answer = Callable[..., Awaitable[Reply | None]]
"""Takes the request and the names in its path; None when there is nothing to show."""
Look = Callable[[Tx, str, str], dict[str, Any] | None]
Show = Callable[[Frame, str, Mapping[str, Any]], str]


def is_page(path: str) -> bool:
    """Whether the path is one of the pages, which ask for a session themselves."""
    return path in {"/", STYLE} or path.startswith((PERSON, EVENT))


class EnginePages:
    """ASGI application of the pages."""

    def __init__(self, engine: Engine, access: PageAccess, *, platform_beside: bool) -> None:
        self._engine = engine
        self._endpoints = Endpoints(engine.store, {})  # only read: no scheme is needed
        self._access = access
        self._platform_beside = platform_beside
        self._style = resources.files(__package__).joinpath("style.css").read_bytes()
        routes: list[Route[Answer]] = [
            Route("GET /", self._front),
            Route(f"GET {STYLE}", self._styled),
            # The path is decoded: a slash may be part of an id.
            Route("GET /people/{platform}/{user_id:path}", partial(self._one, tables.member, views.person)),
            Route("GET /events/{platform}/{event_id:path}", partial(self._one, tables.processed, views.event)),
        ]
        self.table = RouteTable(routes)

    async def __call__(self, scope: Scope, _: Receive, send: Send) -> None:
        method = scope["method"]
        if method not in {"GET", "HEAD"}:
            raise NOT_FOUND()
        path = below(scope)
        try:
            reply = await self._page(scope, path)
        except Failure as failure:
            if not prefers_html(header(scope, "accept")):
                raise
            note(scope, failure, written=True)
            reply = refused(self._framed(_root_of(path)), failure)
        await give(reply, send, head=method == "HEAD")

    async def _page(self, scope: Scope, path: str) -> Reply:
        found = self.table.find("GET", path)
        if path != STYLE and await self._access.visitor(scope) is None:
            return to_sign_in(scope)
        reply = None if found is None else await found.answer(scope, *found.names.values())
        return html(views.nobody(await self._frame_of(path)), status=404) if reply is None else reply

    async def _styled(self, _: Scope) -> Reply:
        return Reply(body=self._style, content_type="text/css; charset=utf-8")

    async def _front(self, scope: Scope) -> Reply:
        wanted = field(scope.get("query_string", b""), "platform")
        return html(await aside(lambda: self._overview(wanted)))

    async def _frame_of(self, path: str) -> Frame:
        return await aside(lambda: self._frame(_root_of(path)))

    def _overview(self, wanted: str) -> str:
        names = self._engine.platforms
        platform = wanted if wanted in names else names[0]
        frame = self._frame("")

        def phase(tx: Tx) -> str:
            return views.overview(
                frame,
                platforms=names,
                platform=platform,
                totals=tables.totals(tx, platform),
                members=tables.members(tx, platform, count=ROWS),
                latest=tables.latest(tx, platform, count=LATEST),
                refused=refusals(tx, platform),
            )

        return self._engine.store.atomic(phase, write=False)

    async def _one(self, look: Look, show: Show, scope: Scope, platform: str, key: str) -> Reply | None:
        """The page of a person or an event; None when there is no such one."""
        if platform not in self._engine.platforms or "\0" in key:
            return None
        found = await aside(lambda: self._engine.store.atomic(lambda tx: look(tx, platform, key), write=False))
        return None if found is None else html(show(await self._frame_of(below(scope)), platform, found))

    def _frame(self, root: str) -> Frame:
        # Two are enough to know that there is not just one.
        return self._framed(root, [one.id for one in self._endpoints.list(tenant=TENANT, count=2)])

    def _framed(self, root: str, endpoint_ids: Sequence[str] = ()) -> Frame:
        """The frame, without asking the database: it may be away."""
        health = health_of(endpoint_ids)
        beside = [("Platform", f"{root}../platform/")] if self._platform_beside else []
        return Frame(name=NAME, root=root, links=[*beside, ("Health", health)])


def _root_of(path: str) -> str:
    """The way up to the front page. The path is decoded: from the third one on, a slash is part of an id."""
    return "../" * min(path.count("/") - 1, 2)
