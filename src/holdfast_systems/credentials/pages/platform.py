"""The platform's pages as an application: endpoints and their health, events, deliveries, dead letters.

Always true: without a session or the token nothing is shown; nothing changes without a form of our own.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from importlib import resources
from urllib.parse import quote, urlencode

from holdfast.catalog import Failure
from holdfast.catalog.core import METHOD_NOT_ALLOWED
from holdfast.delivery import Endpoint
from holdfast.http.asgi import Receive, Reply, Scope, Send, below, give, header, prefers_html
from holdfast.http.aside import aside
from holdfast.http.exchange import note
from holdfast.http.route_table import Route, RouteTable
from holdfast.http.sign_in import whole as whole_body
from holdfast.operate import Actor, actor_of
from holdfast.operate.bulk import Verb
from holdfast_systems.credentials.endpoint_health import healths
from holdfast_systems.credentials.faults import INVALID_PAYLOAD
from holdfast_systems.credentials.pages import dead_views, platform_views
from holdfast_systems.credentials.pages.dead_views import Chosen
from holdfast_systems.credentials.pages.layout import Frame, health_of
from holdfast_systems.credentials.pages.page_access import PageAccess, Visitor, html, read_fields, refused, to_sign_in
from holdfast_systems.credentials.platform import PAGE_ROWS_MAX, Platform
from holdfast_systems.credentials.platform_lists import (
    dead_groups,
    delivery_page,
    event_page,
    event_types,
    read_place,
)
from holdfast_systems.credentials.shown import DELIVERY_STATES, shown_event

STYLE = "/style.css"
EVENT = "/events/"
REPROCESS, DISCARD = "/dead-letters/reprocess", "/dead-letters/discard"
ACTS = {REPROCESS: Verb.REVIVE, DISCARD: Verb.DISCARD}
KEPT = frozenset({"event_id", "endpoint_id", "reason"})
"""What a form is filled in with again after a sign-in."""
ROWS = 50
LATEST = 10
MOVED_MAX = 10_000
"""Maximum number of dead letters that one form reprocesses; the page tells when some are left."""
NAME = "Event platform"
Look = Callable[..., Reply]
"""Makes a page from what the address asks, who asks, and the names in the path."""
DONE = {"reprocessed": "are delivered again", "discarded": "were discarded", "rejected": "stay as they are"}


def is_page(path: str) -> bool:
    """Whether the path is one of the pages, which ask for a session themselves."""
    return path in {"/", STYLE, "/events", "/deliveries", "/dead-letters", *ACTS} or path.startswith(EVENT)


class PlatformPages:
    """ASGI application of the pages."""

    def __init__(self, platform: Platform, access: PageAccess, *, engine_beside: bool) -> None:
        self._platform = platform
        self._access = access
        self._engine_beside = engine_beside
        self._style = resources.files(__package__).joinpath("style.css").read_bytes()
        routes: list[Route[Look | Verb]] = [
            Route("GET /", lambda *_: html(self._overview())),
            Route(f"GET {STYLE}", self._styled),
            Route("GET /events", lambda asked, _: self._events(asked)),
            Route("GET /events/{event_id:path}", self._event),
            Route("GET /deliveries", lambda asked, _: html(self._deliveries(asked))),
            Route("GET /dead-letters", lambda asked, _: html(self._dead(asked))),
            *(Route(f"GET {path}", partial(self._question, verb)) for path, verb in ACTS.items()),
            *(Route(f"POST {path}", verb) for path, verb in ACTS.items()),
        ]
        self.table = RouteTable(routes)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        path, method = below(scope), scope["method"]
        try:
            reply = await self._reply(scope, receive, path, method)
        except Failure as failure:
            if not prefers_html(header(scope, "accept")):
                raise
            note(scope, failure, written=True)
            reply = refused(self._framed("../" * (path.count("/") - 1), ""), failure)
        await give(reply, send, head=method == "HEAD")

    async def _reply(self, scope: Scope, receive: Receive, path: str, method: str) -> Reply:
        found = self.table.find(method, path)
        if path == STYLE and found is not None:
            return self._styled()
        visitor = await self._access.visitor(scope)
        if visitor is None and method in {"GET", "HEAD"}:
            return to_sign_in(scope)
        if found is None:
            raise METHOD_NOT_ALLOWED(method=method)
        if not isinstance(found.answer, Verb):
            look, names = found.answer, found.names.values()
            asked = read_fields(scope.get("query_string", b""))
            return await aside(lambda: look(asked, visitor, *names))
        verb, form = found.answer, read_fields(await whole_body(receive))
        if visitor is None:
            # The question is asked again after the sign-in, with everything that was filled in.
            kept = {name: value for name, value in form.items() if name in KEPT}
            return to_sign_in(scope, wanted=f"{path}?{urlencode(kept)}")
        self._access.check_form(scope, visitor, form.get("csrf", ""))
        return await aside(lambda: self._moved(verb, form, actor_of(scope)))

    def _styled(self, *_: object) -> Reply:
        return Reply(body=self._style, content_type="text/css; charset=utf-8")

    def _event(self, _: dict[str, str], __: Visitor, event_id: str) -> Reply:
        found = self._platform.history(event_id)
        return html(platform_views.event(self._frame("../", ""), shown_event(found), urls=self._urls()))

    def _overview(self) -> str:
        frame, endpoints = self._frame("", ""), self._endpoints()
        dead: dict[str, int] = {}
        for group in dead_groups(self._platform.store):
            dead[group.endpoint_id] = dead.get(group.endpoint_id, 0) + group.letters
        health = healths(self._platform.store, endpoints, dead=dead)
        removed = sum(count for endpoint_id, count in dead.items() if endpoint_id not in health)
        latest = event_page(self._platform.store, count=LATEST).rows
        return platform_views.overview(frame, endpoints=endpoints, health=health, removed_dead=removed, latest=latest)

    def _events(self, asked: dict[str, str]) -> Reply:
        if "event_id" in asked:  # somebody looks for one
            return Reply(body=b"", status=303, headers={"location": f"events/{quote(asked['event_id'], safe='')}"})
        event_type = asked.get("event_type")
        page = event_page(self._platform.store, count=ROWS, before=asked.get("before", ""), event_type=event_type)
        types = event_types(self._platform.store)
        return html(platform_views.events(self._frame("", "events"), page, types=types, event_type=event_type))

    def _deliveries(self, asked: dict[str, str]) -> str:
        status, endpoint_id = asked.get("status"), asked.get("endpoint_id")
        if status is not None and status not in DELIVERY_STATES:
            raise INVALID_PAYLOAD("Invalid field: status (enum)", field="status", reason="enum")
        wanted = {"endpoint_id": endpoint_id, "status": status}
        page = delivery_page(self._platform.store, count=ROWS, before=asked.get("before", ""), **wanted)
        return platform_views.deliveries(self._frame("", "deliveries"), page, urls=self._urls(), **wanted)

    def _dead(self, asked: dict[str, str]) -> str:
        chosen = Chosen(**{name: asked.get(name) for name in ("event_id", "endpoint_id", "error_code")})
        place = read_place(asked.get("after", ""), "after", first=(-1, ""))
        letters = self._platform.dead_letters(count=ROWS, after=place, **chosen.query())
        groups = dead_groups(self._platform.store, **chosen.subject())
        if chosen.error_code is not None:
            groups = [one for one in groups if one.error_code == chosen.error_code]
        return dead_views.dead_letters(
            self._frame("", "dead-letters"),
            groups=groups,
            letters=letters,
            following=f"{letters[-1].failed_us}:{letters[-1].id}" if len(letters) == ROWS else None,
            urls=self._urls(),
            chosen=chosen,
            done=_done(asked),
        )

    def _question(self, verb: Verb, asked: dict[str, str], visitor: Visitor) -> Reply:
        chosen = _chosen(asked)
        if verb is Verb.DISCARD and not any(chosen.subject().values()):
            raise INVALID_PAYLOAD("Choose the event or the endpoint whose dead letters are to be discarded.")
        known = {one.id: one for one in self._endpoints()}
        groups = dead_groups(self._platform.store, **chosen.subject())
        page = dead_views.confirm(
            self._frame("../", "dead-letters"),
            verb,
            groups=groups,
            urls=self._urls(),
            blocked={one.endpoint_id: why for one in groups if (why := _why_blocked(known.get(one.endpoint_id)))},
            chosen=chosen,
            csrf=visitor.csrf,
            reason=asked.get("reason", ""),
        )
        return html(page)

    def _moved(self, verb: Verb, form: dict[str, str], actor: Actor) -> Reply:
        asked = {**_chosen(form).subject(), "reason": form.get("reason")}
        if verb is Verb.REVIVE:
            moved = self._platform.reprocess(actor=actor, limit=MOVED_MAX, **asked)
        else:
            moved = self._platform.discard(actor=actor, **asked)
        told = {"reprocessed" if verb is Verb.REVIVE else "discarded": moved.done}
        told["rejected"] = sum(count for count, _ in moved.rejected.values())
        address = f"../dead-letters?{urlencode({name: count for name, count in told.items() if count})}"
        return Reply(body=b"", status=303, headers={"location": address, "cache-control": "no-store"})

    def _endpoints(self) -> list[Endpoint]:
        return list(self._platform.own.endpoints.list(count=PAGE_ROWS_MAX))

    def _urls(self) -> dict[str, str]:
        return {one.id: one.url for one in self._endpoints()}

    def _frame(self, root: str, current: str) -> Frame:
        # Two are enough to know that there is not just one.
        return self._framed(root, current, [one.id for one in self._platform.own.endpoints.list(count=2)])

    def _framed(self, root: str, current: str, endpoint_ids: Sequence[str] = ()) -> Frame:
        """The frame, without asking the database: it may be away."""
        health = health_of(endpoint_ids)
        links = [("Events", "events"), ("Deliveries", "deliveries"), ("Dead letters", "dead-letters")]
        beside = [("Engine", f"{root}../engine/")] if self._engine_beside else []
        return Frame(name=NAME, root=root, links=[*links, *beside, ("Health", health)], current=current)


def _chosen(asked: dict[str, str]) -> Chosen:
    return Chosen(event_id=asked.get("event_id"), endpoint_id=asked.get("endpoint_id"))


def _why_blocked(endpoint: Endpoint | None) -> str:
    if endpoint is None:
        return "the endpoint was removed."
    return "" if endpoint.enabled else f"the endpoint is disabled ({endpoint.disabled_reason})."


def _done(asked: dict[str, str]) -> str:
    """What the form before has done; only numbers are taken from the address."""
    counts = {name: int(asked[name]) for name in DONE if asked.get(name, "").isdecimal() and len(asked[name]) < 10}
    return ", ".join(f"{count:,} {DONE[name]}" for name, count in counts.items())
