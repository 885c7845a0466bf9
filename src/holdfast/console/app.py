"""The console over HTTP: pure ASGI, mounted anywhere; every address stands below `root_path`.

Always true: without access nothing is answered but the way in; nothing changes without a form of our own; every reply
has a strict content security policy.
"""

from __future__ import annotations

from dataclasses import replace
from importlib.resources import files
from typing import TypeVar

from holdfast.catalog import Failure, continued, enriched, new_request_id
from holdfast.catalog.core import METHOD_NOT_ALLOWED, NOT_FOUND, UNAUTHORIZED
from holdfast.catalog.dialect import Dialect, render
from holdfast.console import layout
from holdfast.console.access import Access, Visitor
from holdfast.console.background import Background
from holdfast.console.forms import read_form
from holdfast.console.live import Streams
from holdfast.console.page import Desk
from holdfast.console.pages.entrance import entrance
from holdfast.console.routes import answer_form, page_for
from holdfast.console.visit import VALUE_CHARS_MAX, Visit, read_query
from holdfast.http.asgi import Receive, Reply, Scope, Send, give, header, prefers_html
from holdfast.http.aside import aside
from holdfast.operate import Actor, ActorKind
from holdfast.operate.wrong_tokens import WrongTokenAudit

T = TypeVar("T")

READING = ("GET", "HEAD")
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
        visit = Visit(root=scope.get("root_path", "").rstrip("/"), path=path_below_root(scope))
        try:
            visit = replace(visit, query=read_query(scope["query_string"].decode("ascii", "replace")))
            visitor = await self.access.visitor(scope)
            if visitor is not None:
                visit = replace(visit, who=visitor.who, csrf=visitor.csrf, actor=_actor(scope, visitor))
                if visit.path == "/live" and scope["method"] == "GET":
                    return await self.streams.serve(
                        visit, receive, send, GUARDED, allowed=lambda: self._may_stay(scope)
                    )
            reply = await self._reply(scope, receive, visit, visitor)
        except Failure as failure:
            reply = self._refused(failure, scope, visit)
        headers = {**GUARDED, **reply.headers}
        await give(replace(reply, headers=headers), send, head=scope["method"] == "HEAD")
        return None

    async def _may_stay(self, scope: Scope) -> bool:
        """Whether whoever opened a stream is still let in."""
        try:
            return await self.access.visitor(scope) is not None
        except Failure:
            return True  # a database that cannot be asked for a moment ends nothing

    async def _reply(self, scope: Scope, receive: Receive, visit: Visit, visitor: Visitor | None) -> Reply:
        method = scope["method"]
        if visit.parts[0] == "static":
            return _static(visit)
        if visit.path == "/enter" and method == "GET":
            return self._entered(visit, self.access.enter_by_link(scope, visit.query.get("token", "")))
        if visit.path == "/enter" and method == "POST":
            self.access.check_origin(scope)
            form = await read_form(scope, receive)
            return self._entered(visit, self.access.enter_by_token(scope, form.get("token", "")))
        if visitor is None:
            raise UNAUTHORIZED()
        if method in READING:
            page = await aside(lambda: page_for(self.desk, visit))
            return Reply(body=layout.whole(page, visit))
        if method != "POST":
            raise METHOD_NOT_ALLOWED(method=method)
        form = await read_form(scope, receive)
        self.access.check_form(scope, visitor, form.get("csrf", ""))
        if visit.path == "/leave":
            return await self._left(visit, visitor)
        address = await aside(lambda: answer_form(self.desk, self.background, visit, form))
        return _see(address)

    def _entered(self, visit: Visit, cookie: str) -> Reply:
        header_ = self.access.sessions.set_cookie(cookie, secure=self.access.secure)
        return _see(visit.to(""), **{"set-cookie": header_})

    async def _left(self, visit: Visit, visitor: Visitor) -> Reply:
        session = visitor.session
        if session is not None:
            await aside(lambda: self.access.sessions.end(session))
        gone = self.access.sessions.set_cookie("", secure=self.access.secure)
        return _see(visit.to(""), **{"set-cookie": gone})

    def _refused(self, failure: Failure, scope: Scope, visit: Visit) -> Reply:
        """The failure for whoever asked: a page for a person, RFC 9457 for a program."""
        rendered = render(failure, Dialect.PROBLEM)
        said = {name.lower(): value for name, value in rendered.headers} | {"vary": "accept"}
        if failure.status == UNAUTHORIZED.status:
            said["www-authenticate"] = "Bearer"
        if failure.status == METHOD_NOT_ALLOWED.status:
            said["allow"] = "GET, HEAD, POST"
        content_type = said.pop("content-type")
        if not prefers_html(header(scope, "accept")):
            return Reply(body=rendered.body, content_type=content_type, status=rendered.status, headers=said)
        if visit.who:
            body = layout.refusal(failure, visit)
        else:
            body = entrance(failure, visit)
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
    """The path as the pages know it, whether or not whoever mounted us has taken the root off."""
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
