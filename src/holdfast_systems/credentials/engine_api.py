"""The engine's routes: the signed webhook, which is public, and what operators read."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Annotated, Any, TypeVar

from fastapi import FastAPI, Query, Request, Response
from starlette.routing import Match

from holdfast.base import Secret
from holdfast.catalog import Dialect, Fault
from holdfast.http import BodyRule, Edge
from holdfast.http.asgi import Application, Receive, Scope, Send, below
from holdfast.http.client_address import address_of, client_group
from holdfast.http.operator import OperatorAccess
from holdfast.http.sessions import Sessions
from holdfast.http.sign_in import SignIn
from holdfast.store import Tx
from holdfast_systems.credentials import tables
from holdfast_systems.credentials.engine import BYTES_MAX, Engine
from holdfast_systems.credentials.faults import (
    CONTRIBUTION_NOT_FOUND,
    CREDENTIALS,
    INVALID_PAYLOAD,
    MEMBER_NOT_FOUND,
    NOT_FOUND,
    NOT_SIGNED_IN,
)
from holdfast_systems.credentials.fields import json_schema
from holdfast_systems.credentials.pages import EnginePages, is_page
from holdfast_systems.credentials.pages.page_access import PageAccess
from holdfast_systems.credentials.refusal_log import refusals as refusals_of
from holdfast_systems.credentials.refusals import Refusals
from holdfast_systems.credentials.webhook import Webhook, webhook_of

T = TypeVar("T")

WEBHOOK = "/v1/platforms/{platform}/webhook"
PATH_CHARS_MAX = 300

# The signature is over the bytes as they came, so they are not looked into before it is checked.
RAW = BodyRule(bytes_max=BYTES_MAX, json_checked=False)
SMALL = BodyRule(bytes_max=4_096)

EVENT_NOT_FOUND = CREDENTIALS["EVENT_NOT_FOUND"]

Place = Annotated[int | None, Query(ge=0, le=tables.REPUTATION_MAX)]
Count = Annotated[int, Query(ge=1, le=tables.PAGE_ROWS_MAX)]


def engine_application(engine: Engine, token: Secret, *, address: str, platform_beside: bool = False) -> Application:
    """The engine as an ASGI application that guards its own doors.

    Args:
        address: where the system stands.
        platform_beside: whether the platform stands beside it, for links.
    """
    api = FastAPI(title="Credential engine", docs_url=None, redoc_url=None, redirect_slashes=False)
    refusals = Refusals(engine.refusal_log)
    webhook = Webhook(engine, refusals)
    _add_webhook(api, webhook)
    _add_reads(api, engine)
    sessions = Sessions(engine.store, token)
    pages = EnginePages(engine, PageAccess(sessions, token, address=address), platform_beside=platform_beside)

    async def either(scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http" and scope["method"] == "POST" and webhook_of(scope) is not None:
            # Past the framework, whose way from a route to its function takes longer than the event itself.
            return await webhook(scope, receive, send)
        asked = scope["type"] == "http" and is_page(below(scope))
        return await (pages if asked else api)(scope, receive, send)

    edge = Edge(
        either,
        catalog=CREDENTIALS,
        dialect=Dialect.FLAT,
        remap={"VALIDATION_ERROR": INVALID_PAYLOAD, "UNAUTHORIZED": NOT_SIGNED_IN},
        access=OperatorAccess(token, public=lambda scope: _is_public(scope, api)),
        body=lambda scope: SMALL if is_page(below(scope)) else RAW,
        on_failure=refusals.tell,
    )
    told = refusals.around(edge, lambda scope: _asked(scope, engine))
    return SignIn(told, sessions, title="Credential engine", address=address, catalog=CREDENTIALS, dialect=Dialect.FLAT)


def _asked(scope: Scope, engine: Engine) -> tuple[str, str] | None:
    """Who sends this webhook, and from which address; None for strangers, whose names have no end."""
    platform = webhook_of(scope) if scope["type"] == "http" and scope["method"] == "POST" else None
    if platform is None or platform not in engine.settings.platforms:
        return None
    return platform, client_group(address_of(scope, engine.trusted_proxies))


def _is_public(scope: Scope, api: FastAPI) -> bool:
    """Also what is not there: a sender with a misspelt address is told so, and not to check its secret."""
    if scope["type"] != "http":
        return False
    if webhook_of(scope) is not None or is_page(below(scope)):
        return True
    return all(route.matches(scope)[0] is Match.NONE for route in api.routes)


def _add_webhook(api: FastAPI, webhook: Webhook) -> None:
    """The webhook's place in the description of the API, and its refusal of other methods."""
    described = {
        "requestBody": {"required": True, "content": {"application/json": {"schema": json_schema()}}},
        "parameters": [
            {
                "name": "X-GR-Signature",
                "in": "header",
                "required": True,
                "description": "sha256= and the HMAC-SHA256 of the body's bytes in hex",
                "schema": {"type": "string", "pattern": "^sha256=[0-9a-fA-F]{64}$"},
            }
        ],
        "security": [],
    }

    @api.post(WEBHOOK, openapi_extra=described, responses={202: {"description": "Parked"}})
    async def take(platform: str, request: Request) -> Response:
        """Take one event of a platform; the same event again gets the same result."""
        answer = await webhook.answer(platform, request.scope, request.receive)
        return Response(answer.body, answer.status, headers=dict(answer.headers))


def _add_reads(api: FastAPI, engine: Engine) -> None:
    def read(phase: Callable[[Tx], T]) -> T:
        return engine.store.atomic(phase, write=False)

    @api.get("/v1/platforms")
    def platforms() -> dict[str, Any]:
        """Every platform that may send, and what has come of it."""
        told = read(lambda tx: {name: tables.totals(tx, name) for name in engine.platforms})
        return {"platforms": [{"platform": name, **one} for name, one in told.items()]}

    @api.get("/v1/platforms/{platform}/users")
    def users(
        platform: str, count: Count = tables.PAGE_ROWS, before_reputation: Place = None, before_id: str = ""
    ) -> dict[str, Any]:
        """People, those with the most reputation first."""
        _check(engine, platform, before_id)
        place = None if before_reputation is None else (before_reputation, before_id)
        found = read(lambda tx: tables.members(tx, platform, count=count, before=place))
        return {"users": found, "next": _next(found, count)}

    @api.get("/v1/platforms/{platform}/users/{user_id}")
    def user(platform: str, user_id: str) -> dict[str, Any]:
        """One person: counts, reputation, and the latest contributions."""
        _check(engine, platform, user_id)
        found = read(lambda tx: tables.member(tx, platform, user_id))
        return _found(found, MEMBER_NOT_FOUND, user_id=user_id)

    @api.get("/v1/platforms/{platform}/contributions/{contribution_id}")
    def contribution(platform: str, contribution_id: str) -> dict[str, Any]:
        """One contribution and everything that was said about it."""
        _check(engine, platform, contribution_id)
        found = read(lambda tx: tables.contribution(tx, platform, contribution_id))
        return _found(found, CONTRIBUTION_NOT_FOUND, contribution_id=contribution_id)

    @api.get("/v1/platforms/{platform}/refusals")
    def refused(platform: str) -> dict[str, Any]:
        """Webhooks that were refused, the latest first: why, from where, and how often."""
        _check(engine, platform, "")
        return {"refusals": read(lambda tx: refusals_of(tx, platform))}

    @api.get("/v1/platforms/{platform}/events/{event_id}")
    def event(platform: str, event_id: str) -> dict[str, Any]:
        """One event that was processed, with its result."""
        _check(engine, platform, event_id)
        found = read(lambda tx: tables.processed(tx, platform, event_id))
        return _found(found, EVENT_NOT_FOUND, event_id=event_id)


def _check(engine: Engine, platform: str, key: str) -> None:
    """Refuse a platform that nobody knows, and a key that no database could look for."""
    if platform not in engine.platforms or "\0" in key or len(key) > PATH_CHARS_MAX:
        raise NOT_FOUND()


def _found(found: dict[str, Any] | None, fault: Fault, **facts: Any) -> dict[str, Any]:
    if found is None:
        raise fault(**facts)
    return found


def _next(found: Sequence[dict[str, Any]], count: int) -> dict[str, Any] | None:
    if len(found) < count:
        return None
    return {"before_reputation": found[-1]["reputation"], "before_id": found[-1]["user_id"]}
