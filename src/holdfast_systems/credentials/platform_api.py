"""The platform's routes: events in, what became of them, dead letters. All of it is for operators."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from fastapi import Body, FastAPI, Request, Response
from pydantic import BaseModel, ConfigDict, Field

from holdfast.base import Secret
from holdfast.catalog import Dialect
from holdfast.delivery import EVENT_BYTES_MAX
from holdfast.http import BodyRule, Edge, Reach
from holdfast.http.asgi import Application, Receive, Scope, Send, below, header
from holdfast.http.operator import OperatorAccess
from holdfast.http.sessions import Sessions
from holdfast.http.sign_in import FORM, SignIn
from holdfast.operate import actor_of
from holdfast.operate.deliveries import Moved
from holdfast_systems.credentials import alerts
from holdfast_systems.credentials.endpoint_api import NO_NUL, Count, Id, add_endpoint_routes
from holdfast_systems.credentials.faults import CREDENTIALS, INVALID_PAYLOAD, NOT_SIGNED_IN
from holdfast_systems.credentials.pages import PlatformPages, is_platform_page
from holdfast_systems.credentials.pages.page_access import PageAccess
from holdfast_systems.credentials.platform import REPROCESSED, Platform
from holdfast_systems.credentials.platform_lists import delivery_page, event_page, read_place
from holdfast_systems.credentials.shown import shown_event

ROOM_BYTES = 4_096
"""Spaces and an id may be added on the way; what is stored is counted again."""

Reason = Annotated[str, Field(max_length=500, pattern=NO_NUL)]
DeliveryStatus = Literal["pending", "sending", "delivered", "failed"]
BODY = BodyRule(bytes_max=EVENT_BYTES_MAX + ROOM_BYTES)
JSON = "application/json"
FIRST = (-1, "")


class Reprocess(BaseModel):
    """Which dead letters are to be sent again."""

    model_config = ConfigDict(extra="forbid", strict=True)
    limit: int | None = Field(REPROCESSED, ge=1)
    """None is all of them."""
    event_id: Id | None = None
    endpoint_id: Id | None = None
    reason: Reason | None = None


class Discard(BaseModel):
    """Which dead letters are to be deleted: those of an event, of an endpoint, or of both."""

    model_config = ConfigDict(extra="forbid", strict=True)
    event_id: Id | None = None
    endpoint_id: Id | None = None
    reason: Reason | None = None


def platform_application(
    platform: Platform, token: Secret, reach: Reach, *, address: str, engine_beside: bool = False
) -> Application:
    """The platform as an ASGI application that guards its own doors.

    Args:
        address: where the system stands.
        engine_beside: whether the engine stands beside it, for links.
    """
    api = FastAPI(title="Event platform", docs_url=None, redoc_url=None, redirect_slashes=False)
    _add_events(api, platform)
    _add_dead_letters(api, platform)
    add_endpoint_routes(api, platform, reach)
    sessions = Sessions(platform.store, token)
    pages = PlatformPages(platform, PageAccess(sessions, token, address=address), engine_beside=engine_beside)

    async def either(scope: Scope, receive: Receive, send: Send) -> None:
        await (pages if _is_page(scope) else api)(scope, receive, send)

    edge = Edge(
        either,
        catalog=CREDENTIALS,
        dialect=Dialect.FLAT,
        remap={"VALIDATION_ERROR": INVALID_PAYLOAD, "UNAUTHORIZED": NOT_SIGNED_IN},
        # The pages ask for a session or the token themselves.
        access=OperatorAccess(token, public=_is_page),
        body=_body,
    )
    return SignIn(edge, sessions, title="Event platform", address=address, catalog=CREDENTIALS, dialect=Dialect.FLAT)


def _is_page(scope: Scope) -> bool:
    return scope["type"] == "http" and is_platform_page(below(scope))


def _body(scope: Scope) -> BodyRule:
    """The rule of every body here.

    Raises:
        Failure: UNSUPPORTED_MEDIA_TYPE when it does not say that it is JSON, which it would not be read as.
    """
    if _is_page(scope):
        return FORM
    if header(scope, "content-type").partition(";")[0].strip().lower() != JSON:
        raise CREDENTIALS["UNSUPPORTED_MEDIA_TYPE"](supported=[JSON])
    return BODY


def _add_events(api: FastAPI, platform: Platform) -> None:
    @api.post("/v1/events", status_code=202)
    def accept(document: Annotated[dict[str, Any], Body()], response: Response) -> dict[str, Any]:
        """Write an event down and let it be delivered; without an `event_id` it gets one."""
        told = platform.accept(document)
        response.headers["Location"] = f"events/{told['event_id']}"
        return told

    @api.get("/v1/events")
    def events(count: Count = 50, before: str = "", event_type: Id | None = None) -> dict[str, Any]:
        """Events, the newest first, each with what became of it."""
        found = event_page(platform.store, count=count, before=before, event_type=event_type)
        return {"events": found.rows, "next": found.next}

    @api.get("/v1/events/{event_id}")
    def event(event_id: Id) -> dict[str, Any]:
        """An event, and every attempt to deliver it."""
        return shown_event(platform.history(event_id))

    @api.get("/v1/deliveries")
    def deliveries(
        count: Count = 50, before: str = "", endpoint_id: Id | None = None, status: DeliveryStatus | None = None
    ) -> dict[str, Any]:
        """Events on their way to endpoints, the newest first, each with the reason of its last failed attempt."""
        found = delivery_page(platform.store, count=count, before=before, endpoint_id=endpoint_id, status=status)
        return {"deliveries": found.rows, "next": found.next}


def _add_dead_letters(api: FastAPI, platform: Platform) -> None:
    @api.get("/v1/dead-letters")
    def dead_letters(count: Count = 50, after: str = "", event_type: Id | None = None) -> dict[str, Any]:
        """What could not be delivered, the oldest first."""
        found = platform.dead_letters(count=count, after=read_place(after, "after", first=FIRST), event_type=event_type)
        following = f"{found[-1].failed_us}:{found[-1].id}" if len(found) == count else None
        return {"total": platform.dead_count(), "dead_letters": [one.shown() for one in found], "next": following}

    @api.post("/v1/dead-letters/reprocess")
    def reprocess(request: Request, asked: Reprocess | None = None) -> dict[str, Any]:
        """Deliver dead letters again, the oldest first; those that no endpoint would receive are rejected by name."""
        asked = asked or Reprocess(limit=REPROCESSED)
        done = platform.reprocess(actor=actor_of(request.scope), **asked.model_dump())
        return {"reprocessed": done.done, "event_ids": done.event_ids, "rejected": _rejected(done)}

    @api.post("/v1/dead-letters/discard")
    def discard(request: Request, asked: Discard) -> dict[str, Any]:
        """Delete dead letters, for example those whose endpoint is gone for good."""
        done = platform.discard(actor=actor_of(request.scope), **asked.model_dump())
        return {"discarded": done.done, "event_ids": done.event_ids}

    @api.get("/v1/alerts")
    def raised(count: Count = 50) -> dict[str, Any]:
        """What operators were told, the latest first."""
        return {"alerts": alerts.recent(platform.store, count)}


def _rejected(moved: Moved) -> list[dict[str, Any]]:
    return [
        {"endpoint_id": endpoint_id, "dead_letters": count, "code": why.code, "message": why.message}
        for endpoint_id, (count, why) in moved.rejected.items()
    ]
