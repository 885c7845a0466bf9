"""The console over HTTP: pure ASGI, mounted anywhere; every address stands below `root_path`.

Always true: without access nothing is answered but the way in; nothing changes without a form of our own; every reply
has a strict content security policy.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from dataclasses import replace
from importlib.resources import files

from holdfast.catalog import Failure, continued, enriched, new_request_id
from holdfast.catalog.core import FORBIDDEN, METHOD_NOT_ALLOWED, NOT_FOUND, UNAUTHORIZED
from holdfast.catalog.dialect import Dialect, render
from holdfast.console import layout
from holdfast.console.access import Access, Visitor
from holdfast.console.background import Background
from holdfast.console.forms import FORM_BYTES_MAX, FORM_FIELDS_MAX, read_form
from holdfast.console.live import Streams
from holdfast.console.page import Desk
from holdfast.console.pages.entrance import entrance, send_again
from holdfast.console.pending_request import PendingRequest, pending_form, pending_page, read_pending
from holdfast.console.routes import OPEN, ROUTES, Does, Door, Sent, Shows, page_for, route_of
from holdfast.console.visit import VALUE_CHARS_MAX, Visit, read_query
from holdfast.http.asgi import Receive, Reply, Scope, Send, give, header, prefers_html
from holdfast.http.aside import aside
from holdfast.operate import Actor, ActorKind
from holdfast.operate.wrong_tokens import WrongTokenAudit

READING = ("GET", "HEAD")
ENTER_BYTES_MAX = 2 * FORM_BYTES_MAX
ENTER_FIELDS_MAX = FORM_FIELDS_MAX + 3
"""A form that was sent too late comes along with the token."""
STATIC = {
    "console.css": ("text/css; charset=utf-8", (("holdfast.http", "site.css"), ("holdfast.console", "console.css"))),
    "console.js": ("text/javascript; charset=utf-8", (("holdfast.console", "console.js"),)),
}
GUARDED = {
    "content-security-policy": (
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; "
        "base-uri 'none'; form-action 'self'; frame-ancestors 'none'"
    ),
    # Not `no-referrer`: a form would then name no origin, and could not be told from another site's.
    "referrer-policy": "same-origin",
    "x-frame-options": "DENY",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    "cache-control": "no-store",
}


class App:
    """The ASGI application of one console."""

    def __init__(self, desk: Desk, access: Access) -> None:
        self.desk = desk
        self.access = access
        self.background = Background(desk.store)
        self.streams = Streams(desk)
        self.table = ROUTES
        self.wrong_tokens = WrongTokenAudit(desk.store)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            return await self._live_and_die(receive, send)
        if scope["type"] != "http":
            return await send({"type": "websocket.close", "code": 1008})
        with enriched(request_id=new_request_id(), **continued(header(scope, "traceparent"))):
            await self._answer(scope, receive, send)
        return None

    async def _answer(self, scope: Scope, receive: Receive, send: Send) -> None:
        visit = Visit(root=scope.get("root_path", "").rstrip("/"), path=path_below_root(scope), codes=self.desk.codes)
        try:
            visit = replace(visit, query=read_query(scope["query_string"].decode("ascii", "replace")))
            visitor = await self.access.visitor(scope)
            found = ROUTES.find(scope["method"], visit.path)
            if visitor is not None:
                visit = replace(visit, who=visitor.who, csrf=visitor.csrf, actor=_actor(scope, visitor))
                if found is not None and found.answer is Door.LIVE and scope["method"] == "GET":
                    return await self.streams.serve(
                        visit, receive, send, GUARDED,
                        seen=header(scope, "last-event-id"), allowed=lambda: self._may_stay(scope),
                    )  # fmt: skip
            if found is not None and found.answer in OPEN:
                reply = await self._entered(scope, receive, visit, found.answer)
            elif visitor is None:
                reply = await self._asked(scope, receive, visit)
            else:
                reply = await self._reply(scope, receive, visit, visitor)
        except Failure as failure:
            reply = self._refused(failure, scope, visit, pending_page(visit))
        headers = {**GUARDED, **reply.headers}
        await give(replace(reply, headers=headers), send, head=scope["method"] == "HEAD")
        return None

    async def _may_stay(self, scope: Scope) -> bool:
        """Whether the visitor that opened a stream is still let in."""
        try:
            return await self.access.visitor(scope) is not None
        except Failure:
            return True  # a database that cannot be asked for a moment ends nothing

    async def _entered(self, scope: Scope, receive: Receive, visit: Visit, door: object) -> Reply:
        """What is answered without access: the way in, and what its page looks like."""
        if door is Door.STATIC:
            return _static(visit)
        if door is Door.LINK:
            if not visit.get("token"):
                return (
                    _see(visit.to("")) if visit.who else self._refused(UNAUTHORIZED(), scope, visit, PendingRequest())
                )
            return self._let_in(visit, self.access.enter_by_link(scope, visit.query["token"]), PendingRequest())
        self.access.check_origin(scope)
        form = await read_form(scope, receive, bytes_max=ENTER_BYTES_MAX, fields_max=ENTER_FIELDS_MAX)
        pending = read_pending(form)
        try:
            return self._let_in(visit, self.access.enter_by_token(scope, form.get("token", "")), pending)
        except Failure as failure:
            return self._refused(failure, scope, visit, pending)

    def _let_in(self, visit: Visit, cookie: str, pending: PendingRequest) -> Reply:
        """Give the cookie, and what was wanted; a form is not done by itself: it is shown, to be sent again."""
        given = {"set-cookie": self.access.sessions.set_cookie(cookie, secure=self.access.secure)}
        if not pending.action:
            return _see(visit.root + pending.back, **given)
        newcomer = self.access.newcomer(cookie)
        now = replace(visit, who=newcomer.who, csrf=newcomer.csrf)
        return Reply(body=layout.whole(send_again(now, pending), now), headers=given)

    async def _asked(self, scope: Scope, receive: Receive, visit: Visit) -> Reply:
        """Ask for the token, and remember what was wanted."""
        pending = pending_page(visit) if scope["method"] in READING else PendingRequest()
        found = ROUTES.find(scope["method"], visit.path)
        # Nothing is read of what another site sends.
        if found is not None and isinstance(found.answer, Does) and self.access.is_own(scope):
            with suppress(Failure):
                pending = pending_form(visit, await read_form(scope, receive))
        return self._refused(UNAUTHORIZED(), scope, visit, pending)

    async def _reply(self, scope: Scope, receive: Receive, visit: Visit, visitor: Visitor) -> Reply:
        answer = route_of(scope["method"], visit).answer
        if isinstance(answer, Shows):
            page = await aside(lambda: page_for(self.desk, visit))
            if page.refused is not None and not prefers_html(header(scope, "accept")):
                raise page.refused
            status = 200 if page.refused is None else page.refused.status
            return Reply(body=layout.whole(page, visit), status=status)
        if scope["method"] in READING:
            raise METHOD_NOT_ALLOWED(method=scope["method"])  # HEAD of a stream
        if not visitor.bearer:
            self.access.check_origin(scope)
        form = await read_form(scope, receive)
        if not self.access.is_current(visitor, form.get("csrf", "")):
            return self._too_old(scope, visit, form)
        if not isinstance(answer, Does):
            return await self._left(visit, visitor)
        return _see(await self._done(answer, visit, form))

    async def _done(self, does: Does, visit: Visit, form: Mapping[str, str]) -> str:
        names = route_of("POST", visit).names.values()
        sent = Sent(desk=self.desk, background=self.background, visit=visit, form=form)
        try:
            return await aside(lambda: does.act(sent, *names))
        finally:
            # Also after a refusal: a visitor that presses again is to see how things are now.
            self.streams.forget()

    def _too_old(self, scope: Scope, visit: Visit, form: Mapping[str, str]) -> Reply:
        """A form of our own page, but of a session that has ended: nothing is done, and it can be sent again."""
        failure = FORBIDDEN("The form belongs to a session that has ended. Load the page again and repeat.")
        if not isinstance(route_of("POST", visit).answer, Does) or not prefers_html(header(scope, "accept")):
            raise failure
        return Reply(body=layout.whole(send_again(visit, pending_form(visit, form)), visit), status=failure.status)

    async def _left(self, visit: Visit, visitor: Visitor) -> Reply:
        session = visitor.session
        if session is not None:
            await aside(lambda: self.access.sessions.end(session))
        gone = self.access.sessions.set_cookie("", secure=self.access.secure)
        return _see(visit.to(""), **{"set-cookie": gone})

    def _refused(self, failure: Failure, scope: Scope, visit: Visit, pending: PendingRequest) -> Reply:
        """The failure in the form that the caller reads: a page for a person, RFC 9457 for a program."""
        rendered = render(failure, Dialect.PROBLEM)
        said = {name.lower(): value for name, value in rendered.headers} | {"vary": "accept"}
        if failure.status == UNAUTHORIZED.status:
            said["www-authenticate"] = "Bearer"
        if failure.status == METHOD_NOT_ALLOWED.status:
            said["allow"] = ", ".join(ROUTES.methods(visit.path))
        content_type = said.pop("content-type")
        if not prefers_html(header(scope, "accept")):
            return Reply(body=rendered.body, content_type=content_type, status=rendered.status, headers=said)
        body = layout.refusal(failure, visit) if visit.who else entrance(failure, visit, pending)
        return Reply(body=body, status=rendered.status, headers=said)

    async def _live_and_die(self, receive: Receive, send: Send) -> None:
        await receive()
        await send({"type": "lifespan.startup.complete"})
        await receive()
        await aside(self.close)
        await send({"type": "lifespan.shutdown.complete"})

    def close(self) -> None:
        """End the open streams, and stop work on many after the transactions that are under way."""
        self.streams.close()
        self.background.close()
        self.wrong_tokens.close()


def _actor(scope: Scope, visitor: Visitor) -> Actor:
    """Who acts: a program that brought the token itself came through the API, everybody else through a page."""
    client = scope.get("client")
    address = str(client[0]) if client else ""
    return Actor(ActorKind.API if visitor.bearer else ActorKind.CONSOLE, visitor.who, address)


def path_below_root(scope: Scope) -> str:
    """The path as the pages know it, whether or not the application that mounted us has taken the root off."""
    root, path = scope.get("root_path", "").rstrip("/"), scope["path"]
    if root and (path == root or path.startswith(f"{root}/")):
        path = path[len(root) :]
    # No database stores a NUL, so nothing has it in its name.
    return path.replace("\0", "\ufffd") or "/"


def _static(visit: Visit) -> Reply:
    kind, parts = STATIC.get(visit.path.removeprefix("/static/"), ("", ()))
    if not parts:
        raise NOT_FOUND(path=visit.path[:VALUE_CHARS_MAX])
    body = b"\n".join(files(package).joinpath(name).read_bytes() for package, name in parts)
    return Reply(body=body, content_type=kind, headers={"cache-control": "no-cache"})


def _see(address: str, **headers: str) -> Reply:
    return Reply(body=b"", status=303, headers={"location": address, **headers})
