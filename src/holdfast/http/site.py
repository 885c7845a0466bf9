"""The site: an index of what runs here, a page for every fault, and the health check. Pure ASGI, read-only, no script.

Always true: every reply has a strict content security policy, and every refusal is an error body of our own.
"""

from __future__ import annotations

from collections.abc import Sequence
from importlib.resources import files

from holdfast.base import encode, now_us, utc_text
from holdfast.catalog import CORE, Catalog, Failure, continued, enriched, new_request_id
from holdfast.catalog.dialect import Dialect, render
from holdfast.http import pages
from holdfast.http.asgi import Application, Receive, Reply, Scope, Send, give, header, prefers_html
from holdfast.http.health import Health
from holdfast.http.pages import Place

METHODS = ("GET", "HEAD")
PATHS = ("/errors", "/health", "/ready", "/site.css")
"""What the site answers beside the index: an application mounted at `/` leaves these paths to it."""
HEALTH_PATHS = ("/health", "/ready")
PATH_CHARS_SHOWN_MAX = 200


def site(catalogs: Sequence[Catalog], *, places: Sequence[Place] = (), health: Health | None = None) -> Application:
    """An ASGI application that shows these catalogs; where codes meet, the first one's words come first.

    Args:
        places: what else stands here, for the index.
        health: what `/health` and `/ready` tell; without it, `/health` only says that the process answers.
    """
    shown = tuple(catalogs)

    async def application(scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            await _live(receive, send)
        elif scope["type"] != "http":
            await send({"type": "websocket.close"})
        elif health is not None and health.answers(scope["path"]) and scope["method"] in METHODS:
            await health.say(scope["path"], send, head=scope["method"] == "HEAD")
        else:
            with enriched(request_id=new_request_id(), **continued(header(scope, "traceparent"))):
                reply = _reply(shown, places, scope, checked=health is not None)
            await give(reply, send, head=scope["method"] == "HEAD")

    return application


def _reply(catalogs: Sequence[Catalog], places: Sequence[Place], scope: Scope, *, checked: bool) -> Reply:
    path = scope["path"]
    found = Reply(body=b"") if checked and path in HEALTH_PATHS else _found(catalogs, places, path)
    accept = header(scope, "accept")
    if found is None:
        return _refused(CORE["NOT_FOUND"](path=path[:PATH_CHARS_SHOWN_MAX]), accept)
    if scope["method"] not in METHODS:
        return _refused(CORE["METHOD_NOT_ALLOWED"](method=scope["method"]), accept, allow=", ".join(METHODS))
    return found


def _found(catalogs: Sequence[Catalog], places: Sequence[Place], path: str) -> Reply | None:
    match path.split("/")[1:]:
        case [""]:
            return _page(pages.index(catalogs, places))
        case ["health"]:
            return _health(catalogs)
        case ["site.css"]:
            return Reply(body=_style(), content_type="text/css; charset=utf-8")
        case ["errors"]:
            return Reply(body=b"", status=308, headers={"location": "/errors/"})
        case ["errors", ""]:
            return _page(pages.fault_list(catalogs))
        case ["errors", code]:
            told = pages.fault(catalogs, code)
            return None if told is None else _page(told)
        case _:
            return None


def _page(text: str) -> Reply:
    return Reply(body=text.encode())


def _health(catalogs: Sequence[Catalog]) -> Reply:
    state = {
        "status": "ok",
        "version": pages.version(),
        "time": utc_text(now_us()),
        "faults": {catalog.name: len(catalog) for catalog in catalogs},
    }
    return Reply(body=encode(state).encode(), content_type="application/json", headers={"cache-control": "no-store"})


def _refused(failure: Failure, accept: str, **headers: str) -> Reply:
    """The failure for the client: a page for a person, RFC 9457 for a program."""
    rendered = render(failure, Dialect.PROBLEM)
    said = {name.lower(): value for name, value in rendered.headers} | {"vary": "accept"} | headers
    content_type = said.pop("content-type")
    if prefers_html(accept):
        return Reply(body=pages.refusal(failure).encode(), status=rendered.status, headers=said)
    return Reply(body=rendered.body, content_type=content_type, status=rendered.status, headers=said)


def _style() -> bytes:
    return files("holdfast.http").joinpath("site.css").read_bytes()


async def _live(receive: Receive, send: Send) -> None:
    """Agree to start and to stop: there is nothing to open or to close."""
    for event in ("startup", "shutdown"):
        await receive()
        await send({"type": f"lifespan.{event}.complete"})
