"""The page of the stand-in shop: pay an order with one click, and open the account that it made."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from html import escape
from typing import Annotated, Any
from urllib.parse import quote

from fastapi import APIRouter, HTTPException, Request, Response
from pydantic import BaseModel, ConfigDict, Field

from holdfast.catalog import Failure
from holdfast_systems.commerce.pages.page_files import file_routes, filled, page, response, text_of

PRODUCTS = (
    ("agent-trial", "Trial", "An assistant with 20 credits to try it out."),
    ("agent-basic", "Basic", "An assistant with 100 credits."),
    ("credits-100", "100 credits", "A top-up for the assistants that you have."),
)
"""The products of the shop: those that exist in a new installation."""

Enter = Callable[[str], Awaitable[str]]
"""Makes the link that signs a buyer in, as the shop of a real installation does for the people that it knows."""


class Account(BaseModel):
    """Whose account to open."""

    model_config = ConfigDict(extra="forbid")
    userId: Annotated[str, Field(min_length=1, max_length=100)]  # noqa: N815 - the name of the wire


def shop_page(enter: Enter) -> APIRouter:
    """The page, its files, and the way into the account."""
    routes = APIRouter(include_in_schema=False)
    template = text_of("shop.html")
    products = "".join(_card(*product) for product in PRODUCTS)

    @routes.get("/")
    async def show(request: Request) -> Response:
        values = {"root": quote(request.scope.get("root_path", ""))}
        return response(page(filled(template, values, html={"products": products})))

    routes.include_router(file_routes("shop.js"))

    @routes.post("/account")
    async def account(given: Account) -> dict[str, Any]:
        try:
            return {"url": await enter(given.userId)}
        except Failure:
            raise HTTPException(503, "The platform does not answer. Try again in a moment.") from None

    return routes


def _card(sku: str, title: str, says: str) -> str:
    anchor = ' id="top-up"' if sku.startswith("credits") else ""
    return (
        f'<li class="card"{anchor}><h3>{escape(title)}</h3><p class="quiet">{escape(says)}</p>'
        f'<div class="row"><button type="button" data-sku="{escape(sku)}">Buy {escape(title)}</button></div></li>'
    )
