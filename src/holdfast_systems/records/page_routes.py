"""The operator's page: its files, and signing in and out. What it shows comes from the API."""

from __future__ import annotations

from html import escape
from importlib.resources import files
from urllib.parse import quote

from fastapi import APIRouter, Request, Response

from holdfast.guard import Answer
from holdfast.http.arrival import REQUEST_ID_KEY
from holdfast_systems.records.callers import no_key
from holdfast_systems.records.fields import problem, readable, refused
from holdfast_systems.records.service import body_of, told
from holdfast_systems.records.session import Session

PAGE_HEADERS = {
    "content-security-policy": (
        "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src data:; "
        "base-uri 'none'; form-action 'self'; frame-ancestors 'none'"
    ),
    "x-content-type-options": "nosniff",
    "referrer-policy": "no-referrer",
    "cache-control": "no-cache",
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
        shown = page.replace("{signed_in}", "yes" if await session.holds(request.scope) else "no")
        return Response(shown, media_type="text/html; charset=utf-8", headers=PAGE_HEADERS)

    async def asset(request: Request) -> Response:
        name = request.url.path.rpartition("/")[2]
        return Response(assets[name], media_type=ASSETS[name], headers=PAGE_HEADERS)

    for name in ASSETS:
        routes.add_api_route(f"/{name}", asset)

    @routes.post("/session")
    async def sign_in(request: Request) -> Response:
        document = await body_of(request)
        if not isinstance(document, dict):
            raise refused([problem("token", None, "required", "The token is required")])
        cookie = session.enter(request.scope, readable(document, "token"))
        if cookie is None:
            raise no_key()
        reply = told(Answer.of_json({"status": "signed_in", "request_id": request.scope[REQUEST_ID_KEY]}))
        reply.headers["set-cookie"] = session.set_cookie_here(cookie, request.scope)
        return reply

    @routes.delete("/session")
    async def sign_out(request: Request) -> Response:
        await session.leave(request.scope)
        reply = told(Answer.of_json({"status": "signed_out", "request_id": request.scope[REQUEST_ID_KEY]}))
        reply.headers["set-cookie"] = session.set_cookie_here("", request.scope)
        return reply

    return routes
