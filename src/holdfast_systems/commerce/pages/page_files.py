"""The files of the pages, and the headers that they are sent with.

Always true: a page runs no script but its own, and loads nothing from elsewhere.
"""

from __future__ import annotations

from collections.abc import Mapping
from html import escape
from importlib.resources import files

from fastapi import APIRouter, Request, Response

from holdfast.http.asgi import Reply

FOLDER = "holdfast_systems.commerce.pages"
JAVASCRIPT = "text/javascript; charset=utf-8"
CSS = "text/css; charset=utf-8"
HTML = "text/html; charset=utf-8"
HEADERS = {
    "x-content-type-options": "nosniff",
    # Not `no-referrer`: a request of the page would then name no origin, and could not be told from another site's.
    "referrer-policy": "same-origin",
    "cache-control": "no-cache",
}


def text_of(name: str) -> str:
    """The text of a file."""
    return files(FOLDER).joinpath("files", name).read_text("utf-8")


def filled(template: str, values: Mapping[str, str], *, html: Mapping[str, str] | None = None) -> str:
    """The template with its `{name}`s replaced: `values` are escaped, `html` is markup already."""
    for name, value in values.items():
        template = template.replace(f"{{{name}}}", escape(value))
    for name, value in (html or {}).items():
        template = template.replace(f"{{{name}}}", value)
    return template


def asset(name: str, content_type: str) -> Reply:
    """A script or a style sheet."""
    return Reply(body=text_of(name).encode(), content_type=content_type, headers=HEADERS)


def page(body: str, *, connects: str = "'self'", embedded: bool = False) -> Reply:
    """A page.

    Args:
        connects: the origins that its script may call.
        embedded: whether other sites may show it in a frame.
    """
    policy = (
        f"default-src 'none'; script-src 'self'; style-src 'self'; connect-src {connects}; img-src data:; "
        f"base-uri 'none'; form-action 'self'; frame-ancestors {'*' if embedded else chr(39) + 'none' + chr(39)}"
    )
    return Reply(body=body.encode(), content_type=HTML, headers={**HEADERS, "content-security-policy": policy})


def response(reply: Reply) -> Response:
    """The reply for a route of FastAPI."""
    return Response(reply.body, status_code=reply.status, media_type=reply.content_type, headers=dict(reply.headers))


def file_routes(script: str) -> APIRouter:
    """The script and the style sheet of a page, beside it."""
    routes = APIRouter(include_in_schema=False)
    replies = {"/page.js": asset(script, JAVASCRIPT), "/page.css": asset("page.css", CSS)}

    async def file(request: Request) -> Response:
        return response(replies[f"/{request.url.path.rpartition('/')[2]}"])

    for path in replies:
        routes.add_api_route(path, file)
    return routes
