"""The routes of buyers: sessions, and what a buyer has."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Request, Response
from pydantic import BaseModel, ConfigDict, Field

from holdfast.guard import Answer
from holdfast.http import documented
from holdfast_systems.commerce.admission import COOKIE, caller_of
from holdfast_systems.commerce.control_plane import buyers
from holdfast_systems.commerce.control_plane.fields import Identifier
from holdfast_systems.commerce.control_plane.service import Service, told
from holdfast_systems.commerce.faults import INVALID_REQUEST, NOT_ENTITLED, UNAUTHORIZED
from holdfast_systems.commerce.tokens import BUYER_S, CHARS_MAX, Tokens


class NewSession(BaseModel):
    """A buyer whom the calling service knows."""

    model_config = ConfigDict(extra="forbid")
    userId: Identifier  # noqa: N815


class Ticket(BaseModel):
    """What a buyer's link brings."""

    model_config = ConfigDict(extra="forbid")
    ticket: Annotated[str, Field(max_length=CHARS_MAX)]


def buyer_routes(service: Service, tokens: Tokens) -> APIRouter:
    """Sessions of buyers, and what a buyer has."""
    routes = APIRouter(prefix="/buyers", tags=["buyers"])

    @routes.post("/sessions", summary="Begin a session for a buyer", responses=documented(NOT_ENTITLED))
    async def begin(request: Request, new: NewSession) -> Response:
        if not caller_of(request.scope).sees(new.userId):
            raise NOT_ENTITLED()
        return told(Answer.of_json(buyers.begin(tokens, new.userId)))

    @routes.post("/enter", summary="Enter with the ticket of a link", responses=documented(UNAUTHORIZED))
    async def enter(request: Request, given: Ticket) -> Response:
        made = await service.store.atomic_async(lambda tx: buyers.enter(tx, tokens, given.ticket))
        response = told(Answer.of_json({"tenant": made["tenant"], "expiresAt": made["expiresAt"]}))
        response.headers["set-cookie"] = _cookie(request, made["token"])
        return response

    @routes.get("/me", summary="The wallet and the instances of the buyer who asks")
    async def me(request: Request) -> Response:
        tenant = caller_of(request.scope).tenant
        if not tenant:
            raise INVALID_REQUEST("Name the buyer with the header X-Tenant.", field="X-Tenant")
        return await service.read(lambda tx: buyers.overview(tx, tenant))

    return routes


def _cookie(request: Request, token: str) -> str:
    """For every service that stands beside this one."""
    path = str(request.scope.get("root_path", "")).rpartition("/")[0] or "/"
    guarded = f"{COOKIE}={token}; Path={path}; Max-Age={int(BUYER_S)}; HttpOnly; SameSite=Strict"
    return f"{guarded}; Secure" if request.url.scheme == "https" else guarded
