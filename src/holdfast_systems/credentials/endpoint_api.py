"""The platform's routes of endpoints: add, list, show, change, disable, enable, remove, new secrets."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import FastAPI, Query, Request
from pydantic import BaseModel, ConfigDict, Field

from holdfast.base import Secret
from holdfast.delivery import EndpointSettings
from holdfast.http import Reach, checked
from holdfast.operate import actor_of
from holdfast.operate import endpoints as operate_endpoints
from holdfast_systems.credentials.platform import CONCURRENCY, PAGE_ROWS_MAX, SCHEME, TENANT, Platform
from holdfast_systems.credentials.shown import shown_endpoint
from holdfast_systems.credentials.subscriptions import check_event_types

# No database keeps that sign in a text.
NO_NUL = r"^[^\x00]*$"
Id = Annotated[str, Field(max_length=100, pattern=NO_NUL)]
Count = Annotated[int, Query(ge=1, le=PAGE_ROWS_MAX)]
Why = Annotated[str | None, Query(max_length=500, pattern=NO_NUL)]
"""The reason of an action, for the audit that operators read."""


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


def add_endpoint_routes(api: FastAPI, platform: Platform, reach: Reach) -> None:
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
        check_event_types(asked.event_types)
        secret = None if asked.secret is None else Secret(asked.secret)
        wanted: EndpointSettings = {**settings, "event_types": asked.event_types}
        made = operate_endpoints.add(
            endpoints, asked.url, actor=actor_of(request.scope), reason=reason, secret=secret, **wanted
        )
        return {**shown_endpoint(made), "secret": made.secrets[0].secret.reveal()}

    @api.get("/v1/endpoints")
    def listed(count: Count = 50, after: Id = "") -> dict[str, Any]:
        """Where events go."""
        found = endpoints.list(count=count, after=after)
        return {
            "endpoints": [shown_endpoint(one) for one in found],
            "next": found[-1].id if len(found) == count else None,
        }

    @api.get("/v1/endpoints/{endpoint_id}")
    def show(endpoint_id: Id) -> dict[str, Any]:
        """One endpoint."""
        return shown_endpoint(endpoints.show(endpoint_id))

    @api.patch("/v1/endpoints/{endpoint_id}")
    def change(request: Request, endpoint_id: Id, asked: EndpointChange, reason: Why = None) -> dict[str, Any]:
        """Change an endpoint."""
        changes = {name: value for name, value in asked.model_dump().items() if value is not None}
        if asked.url is not None:
            checked(asked.url, reach)
        check_event_types(asked.event_types or ())
        actor = actor_of(request.scope)
        return shown_endpoint(operate_endpoints.update(endpoints, endpoint_id, actor=actor, reason=reason, **changes))

    @api.delete("/v1/endpoints/{endpoint_id}", status_code=204)
    def remove(request: Request, endpoint_id: Id, reason: Why = None) -> None:
        """Forget an endpoint and its secrets. What was sent, and what was not, stays on record.

        The engine's own endpoint is there again after the next start: disable it to keep events away.
        """
        actor = actor_of(request.scope)
        operate_endpoints.remove(platform.store, endpoint_id, actor=actor, reason=reason, tenant=TENANT)

    _add_endpoint_actions(api, platform)


def _add_endpoint_actions(api: FastAPI, platform: Platform) -> None:
    endpoints = platform.own.endpoints

    @api.post("/v1/endpoints/{endpoint_id}/disable")
    def disable(request: Request, endpoint_id: Id, reason: Why = None) -> dict[str, Any]:
        """Send nothing more there until it is enabled. What is under way ends among the dead letters."""
        actor, said = actor_of(request.scope), reason or "disabled by an operator"
        operate_endpoints.disable(platform.store, endpoint_id, actor=actor, reason=said, tenant=TENANT)
        return shown_endpoint(endpoints.show(endpoint_id))

    @api.post("/v1/endpoints/{endpoint_id}/enable")
    def enable(request: Request, endpoint_id: Id, reason: Why = None) -> dict[str, Any]:
        """Send again. What was under way is among the dead letters; what was accepted since then went nowhere."""
        actor = actor_of(request.scope)
        operate_endpoints.enable(platform.store, endpoint_id, actor=actor, reason=reason, tenant=TENANT)
        return shown_endpoint(endpoints.show(endpoint_id))

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
