"""The platform's routes: events in, what became of them, endpoints, dead letters. All of it is for operators."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any

from fastapi import Body, FastAPI, Query, Request, Response
from pydantic import BaseModel, ConfigDict, Field

from holdfast.base import Secret, utc_text
from holdfast.catalog import Dialect
from holdfast.delivery import EVENT_BYTES_MAX, Delivery, Endpoint, EndpointSettings
from holdfast.http import BodyRule, Edge, Reach, checked
from holdfast.http.asgi import Application, Scope, header
from holdfast.http.operator import OperatorAccess
from holdfast.operate import actor_of
from holdfast.operate import endpoints as operate_endpoints
from holdfast.operate.deliveries import Moved
from holdfast_systems.credentials import alerts
from holdfast_systems.credentials.faults import CREDENTIALS, INVALID_PAYLOAD
from holdfast_systems.credentials.platform import (
    CONCURRENCY,
    PAGE_ROWS_MAX,
    REPROCESSED,
    SCHEME,
    TENANT,
    UNROUTED,
    Platform,
)

ROOM_BYTES = 4_096
"""Spaces and an id may be added on the way; what is stored is counted again."""
ATTEMPT_VERBS: Mapping[str, str] = {"finished": "delivered", "retried": "retried", "failed": "failed"}

Count = Annotated[int, Query(ge=1, le=PAGE_ROWS_MAX)]
# No database keeps that sign in a text.
NO_NUL = r"^[^\x00]*$"
Id = Annotated[str, Field(max_length=100, pattern=NO_NUL)]
Reason = Annotated[str, Field(max_length=500, pattern=NO_NUL)]
Why = Annotated[str | None, Query(max_length=500, pattern=NO_NUL)]
"""The reason of an action, for the audit that operators read."""
BODY = BodyRule(bytes_max=EVENT_BYTES_MAX + ROOM_BYTES)
JSON = "application/json"


class NewEndpoint(BaseModel):
    """Where events are to go."""

    model_config = ConfigDict(extra="forbid", strict=True)
    url: str = Field(max_length=2_000)
    secret: str | None = Field(None, min_length=1, max_length=1_000, pattern=NO_NUL)
    """Without one, one is made; the answer tells it, once."""
    event_types: list[str] = Field(default_factory=list, max_length=100)


class EndpointChange(BaseModel):
    """What is to be different."""

    model_config = ConfigDict(extra="forbid", strict=True)
    url: str | None = Field(None, max_length=2_000)
    event_types: list[str] | None = Field(None, max_length=100)


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


def platform_application(platform: Platform, token: Secret, reach: Reach) -> Application:
    """The platform as an ASGI application that guards its own doors."""
    api = FastAPI(title="Event platform", docs_url=None, redoc_url=None, redirect_slashes=False)
    _add_events(api, platform)
    _add_dead_letters(api, platform)
    _add_endpoints(api, platform, reach)
    return Edge(
        api,
        catalog=CREDENTIALS,
        dialect=Dialect.FLAT,
        remap={"VALIDATION_ERROR": INVALID_PAYLOAD},
        access=OperatorAccess(token),
        body=_body,
    )


def _body(scope: Scope) -> BodyRule:
    """The rule of every body here.

    Raises:
        Failure: UNSUPPORTED_MEDIA_TYPE when it does not say that it is JSON, which it would not be read as.
    """
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

    @api.get("/v1/events/{event_id}")
    def event(event_id: Id) -> dict[str, Any]:
        """An event, and every attempt to deliver it."""
        found = platform.history(event_id)
        return {
            "event_id": found.id,
            "event_type": found.type,
            "status": _status(found.deliveries),
            "payload": found.payload,
            "created_at": utc_text(found.created_us),
            "deliveries": [_delivery(one) for one in found.deliveries],
        }


def _add_dead_letters(api: FastAPI, platform: Platform) -> None:
    @api.get("/v1/dead-letters")
    def dead_letters(count: Count = 50, after: str = "", event_type: Id | None = None) -> dict[str, Any]:
        """What could not be delivered, the oldest first."""
        found = platform.dead_letters(count=count, after=_place(after), event_type=event_type)
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


def _add_endpoints(api: FastAPI, platform: Platform, reach: Reach) -> None:
    endpoints = platform.own.endpoints
    settings: EndpointSettings = {
        "delays_s": platform.settings.delays_s,
        "timeout_s": platform.settings.timeout_s,
        "in_flight_max": CONCURRENCY,
        "scheme": SCHEME,
    }

    @api.post("/v1/endpoints", status_code=201)
    def add(request: Request, asked: NewEndpoint, reason: Why = None) -> dict[str, Any]:
        """Send events to one more address."""
        checked(asked.url, reach)
        secret = None if asked.secret is None else Secret(asked.secret)
        wanted: EndpointSettings = {**settings, "event_types": asked.event_types}
        made = operate_endpoints.add(
            endpoints, asked.url, actor=actor_of(request.scope), reason=reason, secret=secret, **wanted
        )
        return {**_endpoint(made), "secret": made.secrets[0].secret.reveal()}

    @api.get("/v1/endpoints")
    def listed(count: Count = 50, after: Id = "") -> dict[str, Any]:
        """Where events go."""
        found = endpoints.list(count=count, after=after)
        return {"endpoints": [_endpoint(one) for one in found], "next": found[-1].id if len(found) == count else None}

    @api.get("/v1/endpoints/{endpoint_id}")
    def show(endpoint_id: Id) -> dict[str, Any]:
        """One endpoint."""
        return _endpoint(endpoints.show(endpoint_id))

    @api.patch("/v1/endpoints/{endpoint_id}")
    def change(request: Request, endpoint_id: Id, asked: EndpointChange, reason: Why = None) -> dict[str, Any]:
        """Change an endpoint."""
        changes = {name: value for name, value in asked.model_dump().items() if value is not None}
        if asked.url is not None:
            checked(asked.url, reach)
        actor = actor_of(request.scope)
        return _endpoint(operate_endpoints.update(endpoints, endpoint_id, actor=actor, reason=reason, **changes))

    @api.delete("/v1/endpoints/{endpoint_id}", status_code=204)
    def remove(request: Request, endpoint_id: Id, reason: Why = None) -> None:
        """Send nothing more there. What was sent, and what was not, stays on record."""
        actor, said = actor_of(request.scope), reason or "removed by an operator"
        operate_endpoints.disable(platform.store, endpoint_id, actor=actor, reason=said, tenant=TENANT)

    _add_endpoint_actions(api, platform)


def _add_endpoint_actions(api: FastAPI, platform: Platform) -> None:
    endpoints = platform.own.endpoints

    @api.post("/v1/endpoints/{endpoint_id}/enable")
    def enable(request: Request, endpoint_id: Id, reason: Why = None) -> dict[str, Any]:
        """Send again. What was under way is among the dead letters; what was accepted since then went nowhere."""
        actor = actor_of(request.scope)
        operate_endpoints.enable(platform.store, endpoint_id, actor=actor, reason=reason, tenant=TENANT)
        return _endpoint(endpoints.show(endpoint_id))

    @api.post("/v1/endpoints/{endpoint_id}/rotate-secret")
    def rotate(request: Request, endpoint_id: Id, reason: Why = None) -> dict[str, Any]:
        """Sign with a new secret from now on, which the receiver has to know besides the old one.

        The engine's own endpoint has the secret of the settings again after the next start.
        """
        # The header has room for one signature: to keep the old secret in force here would serve nobody.
        made = operate_endpoints.rotate_secret(
            endpoints, endpoint_id, actor=actor_of(request.scope), reason=reason, overlap_s=0
        )
        return {"endpoint_id": endpoint_id, "secret": made.reveal()}


def _rejected(moved: Moved) -> list[dict[str, Any]]:
    return [
        {"endpoint_id": endpoint_id, "dead_letters": count, "code": why.code, "message": why.message}
        for endpoint_id, (count, why) in moved.rejected.items()
    ]


def _endpoint(endpoint: Endpoint) -> dict[str, Any]:
    return {
        "endpoint_id": endpoint.id,
        "url": endpoint.url,
        "event_types": list(endpoint.event_types),
        "enabled": endpoint.enabled,
        "disabled_reason": endpoint.disabled_reason,
        "delays_s": list(endpoint.delays_s),
        "timeout_s": endpoint.timeout_s,
        "secrets_in_force": len(endpoint.secrets),
        "created_at": utc_text(endpoint.created_us),
    }


def _status(deliveries: Any) -> str:
    states = {one.state for one in deliveries}
    if "failed" in states:
        return "failed"
    if states & {"queued", "processing"}:
        return "pending"
    return "delivered" if deliveries else UNROUTED


def _delivery(delivery: Delivery) -> dict[str, Any]:
    return {
        "endpoint_id": delivery.endpoint_id,
        "status": _status([delivery]),
        "attempts": [_attempt(event) for event in delivery.events if event["verb"] in ATTEMPT_VERBS],
        "error_code": delivery.error_code,
        "error_message": delivery.error_message,
    }


def _attempt(event: Mapping[str, Any]) -> dict[str, Any]:
    duration_us, due_us = event["duration_us"], event["due_us"]
    return {
        "attempt": event["attempt"],
        "at": utc_text(event["at_us"]),
        "outcome": ATTEMPT_VERBS[event["verb"]],
        "status_code": event["upstream_status"],
        "error_code": event["code"],
        "duration_ms": None if duration_us is None else round(duration_us / 1_000, 3),
        "next_attempt_at": None if due_us is None else utc_text(due_us),
    }


def _place(after: str) -> tuple[int, str]:
    moment, _, job_id = after.partition(":")
    if after and not (moment.isdecimal() and len(moment) < 19 and job_id and "\0" not in job_id):
        raise INVALID_PAYLOAD("Invalid field: after (format)", field="after", reason="format")
    return (int(moment), job_id) if after else (-1, "")
