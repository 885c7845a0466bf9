"""The buyer's page at the control plane's own address: wallet, ledger, assistants, and what each run cost.

Always true: the page itself holds nothing of anybody; its script asks the API for what it shows, with the buyer's
cookie.
"""

from __future__ import annotations

from urllib.parse import quote, urlsplit

from fastapi import APIRouter, Request, Response

from holdfast_systems.commerce.model import GATEWAY
from holdfast_systems.commerce.pages.page_files import file_routes, filled, page, response, text_of
from holdfast_systems.commerce.parts import Context

PATHS = ("/", "/page.js", "/page.css")


def buyer_page(context: Context) -> APIRouter:
    """The page and its files."""
    routes = APIRouter(include_in_schema=False)
    template, gateway, shop = text_of("buyer.html"), context.known_address(GATEWAY), context.standin("saleor")
    origins = {_origin(address) for address in (gateway,) if address}

    @routes.get("/")
    async def show(request: Request) -> Response:
        values = {
            "root": quote(request.scope.get("root_path", "")),
            "gateway": gateway,
            "shop": f"{shop}/" if shop else "",
        }
        return response(page(filled(template, values), connects=" ".join(["'self'", *sorted(origins)])))

    routes.include_router(file_routes("buyer.js"))
    return routes


def _origin(address: str) -> str:
    parts = urlsplit(address)
    return f"{parts.scheme}://{parts.netloc}"
