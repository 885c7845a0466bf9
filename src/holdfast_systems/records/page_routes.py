"""The operator's page: its files. What it shows comes from the API, which asks for a session."""

from __future__ import annotations

from html import escape
from importlib.resources import files
from urllib.parse import quote

from fastapi import APIRouter, Request, Response

from holdfast.http.sign_in import ask_to_sign_in
from holdfast_systems.records.session import Session

PAGE_HEADERS = {
    "content-security-policy": (
        "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src data:; "
        "base-uri 'none'; form-action 'self'; frame-ancestors 'none'"
    ),
    "x-content-type-options": "nosniff",
    # Not `no-referrer`: a form would then name no origin, and could not be told from another site's.
    "referrer-policy": "same-origin",
    # Whether the page is shown depends on the session: a copy in the browser would outlive it.
    "cache-control": "no-store",
}
ASSETS = {"page.js": "text/javascript; charset=utf-8", "page.css": "text/css; charset=utf-8"}


def page_routes(session: Session, *, root: str) -> APIRouter:
    """The page at the system's own address; `root` is its path."""
    routes = APIRouter()
    folder = files("holdfast_systems.records").joinpath("pages")
    page = folder.joinpath("page.html").read_text("utf-8").replace("{root}", escape(quote(root)))
    assets = {name: folder.joinpath(name).read_bytes() for name in ASSETS}

    @routes.get("/")
    async def show_page(request: Request) -> Response:
        asked = None if await session.holds(request.scope) else ask_to_sign_in(request.scope)
        if asked is not None:
            return Response(status_code=asked.status, headers=dict(asked.headers))
        return Response(page, media_type="text/html; charset=utf-8", headers=PAGE_HEADERS)

    async def asset(request: Request) -> Response:
        name = request.url.path.rpartition("/")[2]
        return Response(assets[name], media_type=ASSETS[name], headers=PAGE_HEADERS)

    for name in ASSETS:
        routes.add_api_route(f"/{name}", asset)

    return routes
