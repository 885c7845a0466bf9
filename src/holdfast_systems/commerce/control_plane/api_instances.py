"""The routes of instances and of what they may do."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import APIRouter, Query, Request, Response
from pydantic import BaseModel, ConfigDict, Field, model_validator

from holdfast.http import documented
from holdfast.store import Tx
from holdfast_systems.commerce.admission import caller_of
from holdfast_systems.commerce.control_plane import bindings, instances
from holdfast_systems.commerce.control_plane.cursors import Cursors
from holdfast_systems.commerce.control_plane.fields import (
    PAGE_ROWS,
    PRINTABLE,
    Cursor,
    Identifier,
    IdPath,
    Limit,
    Name,
    NamePath,
    Title,
)
from holdfast_systems.commerce.control_plane.service import Service, Told, require_key
from holdfast_systems.commerce.faults import (
    BINDING_NOT_FOUND,
    IDEMPOTENCY_KEY_REQUIRED,
    INSTANCE_NOT_FOUND,
    INVALID_REQUEST,
    NOT_ENTITLED,
    OFFERING_NOT_FOUND,
    PLAN_NOT_FOUND,
)
from holdfast_systems.commerce.model import BindingStatus, InstanceStatus

ORIGIN = r"^https?://[A-Za-z0-9.\-\[\]:]{1,200}$"
FIELDS_MAX = 50


class NewInstance(BaseModel):
    """An instance without an order."""

    model_config = ConfigDict(extra="forbid")
    tenant: Identifier
    planSku: Name | None = None  # noqa: N815 - the names that clients send
    plan: Name | None = None
    offering: Name | None = None
    name: Title | None = None

    @model_validator(mode="after")
    def _has_one_plan(self) -> NewInstance:
        if (self.planSku is None) == (self.plan is None):
            raise ValueError("name the plan as planSku")
        return self

    @property
    def sku(self) -> str:
        return self.planSku or self.plan or ""


class Allowlist(BaseModel):
    """Which tools, and which websites."""

    model_config = ConfigDict(extra="forbid")
    tools: list[Name] = Field(max_length=200)
    origins: list[Annotated[str, Field(pattern=ORIGIN)]] = Field(default=[], max_length=200)


class Binding(BaseModel):
    """How a tool is used; the secret itself stays in the vault."""

    model_config = ConfigDict(extra="forbid")
    status: BindingStatus = BindingStatus.ACTIVE
    fields: dict[Name, str | int | float | bool | None] = Field(default={}, max_length=FIELDS_MAX)
    secretPath: Annotated[str, Field(max_length=300, pattern=r"^[A-Za-z0-9_./-]+$")] | None = None  # noqa: N815


class Entitlements(BaseModel):
    """What is granted or taken away beside the plan."""

    model_config = ConfigDict(extra="forbid")
    overrides: dict[Name, bool] = Field(max_length=FIELDS_MAX)


def instance_routes(service: Service) -> APIRouter:
    """Create, show, pause and resume instances."""
    routes = APIRouter(prefix="/instances", tags=["instances"])
    missing = documented(INSTANCE_NOT_FOUND)

    @routes.post(
        "",
        status_code=201,
        summary="Make an instance without an order",
        responses=documented(PLAN_NOT_FOUND, OFFERING_NOT_FOUND, NOT_ENTITLED, IDEMPOTENCY_KEY_REQUIRED),
    )
    async def create(request: Request, new: NewInstance) -> Response:
        caller = caller_of(request.scope)
        require_key(request)
        if not caller.sees(new.tenant):
            raise NOT_ENTITLED()

        def phase(tx: Tx) -> Told:
            made = instances.create(tx, tenant=new.tenant, sku=new.sku, offering_id=new.offering, name=new.name or "")
            return Told(made, 201, {"instanceId": made["instanceId"]})

        return await service.operate(request, "create", f"instance:of:{new.tenant}", phase)

    @routes.get("/{instance_id}", summary="An instance", responses=missing)
    async def show(request: Request, instance_id: IdPath) -> Response:
        caller = caller_of(request.scope)
        return await service.read(lambda tx: instances.show(tx, instance_id, caller))

    @routes.post("/{instance_id}/pause", summary="Let an instance start no more runs", responses=missing)
    async def pause(request: Request, instance_id: IdPath) -> Response:
        return await set_status(request, instance_id, "pause", InstanceStatus.PAUSED)

    @routes.post("/{instance_id}/resume", summary="Let an instance run again", responses=missing)
    async def resume(request: Request, instance_id: IdPath) -> Response:
        return await set_status(request, instance_id, "resume", InstanceStatus.ACTIVE)

    async def set_status(request: Request, instance_id: str, verb: str, status: InstanceStatus) -> Response:
        caller = caller_of(request.scope)
        return await service.operate(
            request,
            verb,
            f"instance:{instance_id}",
            lambda tx: Told(instances.set_status(tx, instance_id, caller, status)),
        )

    return routes


def instance_list(service: Service, cursors: Cursors) -> APIRouter:
    """The instances of a tenant, page by page."""
    routes = APIRouter(prefix="/instances", tags=["instances"])

    @routes.get("", summary="The instances of a tenant, newest first")
    async def listed(
        request: Request,
        tenant: Annotated[str | None, Query(max_length=200, pattern=PRINTABLE)] = None,
        cursor: Cursor = None,
        limit: Limit = PAGE_ROWS,
    ) -> Response:
        caller = caller_of(request.scope)
        owner = caller.tenant or tenant
        if not owner:
            raise INVALID_REQUEST("Name the tenant whose instances to list.", field="tenant")
        before = cursors.read(cursor, of=f"instances:{owner}") or instances.LAST

        def page(tx: Tx) -> dict[str, Any]:
            asked = owner if tenant in (None, owner) else ""
            found = instances.listed(tx, asked, before=before, count=limit + 1)
            following = None
            if len(found) > limit:
                following = cursors.write(found[limit - 1]["instanceId"], of=f"instances:{owner}")
            return {"instances": found[:limit], "nextCursor": following}

        return await service.read(page)

    return routes


def binding_routes(service: Service) -> APIRouter:
    """Allowlists, bindings and entitlements of an instance."""
    routes = APIRouter(prefix="/instances/{instance_id}", tags=["bindings"])
    missing = documented(INSTANCE_NOT_FOUND)

    @routes.get("/allowlist", summary="Tools and websites of an instance", responses=missing)
    async def allowlist(request: Request, instance_id: IdPath) -> Response:
        caller = caller_of(request.scope)
        return await service.read(lambda tx: bindings.allowlist(tx, instance_id, caller))

    @routes.put("/allowlist", summary="Replace both lists", responses=missing)
    async def put_allowlist(request: Request, instance_id: IdPath, given: Allowlist) -> Response:
        caller, lists = caller_of(request.scope), given.model_dump()
        return await service.operate(
            request,
            "put",
            f"allowlist:{instance_id}",
            lambda tx: Told(bindings.put_allowlist(tx, instance_id, caller, **lists)),
        )

    @routes.get("/bindings", summary="Every binding of an instance", responses=missing)
    async def listed(request: Request, instance_id: IdPath) -> Response:
        caller = caller_of(request.scope)
        return await service.read(lambda tx: {"bindings": bindings.bindings(tx, instance_id, caller)})

    @routes.get(
        "/bindings/{tool}",
        summary="How an instance uses a tool",
        responses=documented(INSTANCE_NOT_FOUND, BINDING_NOT_FOUND),
    )
    async def show(request: Request, instance_id: IdPath, tool: NamePath) -> Response:
        caller = caller_of(request.scope)
        return await service.read(lambda tx: bindings.binding(tx, instance_id, tool, caller))

    @routes.put("/bindings/{tool}", summary="Create a binding, or replace it", responses=missing)
    async def put(request: Request, instance_id: IdPath, tool: NamePath, given: Binding) -> Response:
        caller, document = caller_of(request.scope), given.model_dump(mode="json")
        return await service.operate(
            request,
            "put",
            f"binding:{instance_id}:{tool}",
            lambda tx: Told(bindings.put_binding(tx, instance_id, tool, caller, document)),
        )

    @routes.get("/entitlements", summary="What an instance may do", responses=missing)
    async def entitlements(request: Request, instance_id: IdPath) -> Response:
        caller = caller_of(request.scope)
        return await service.read(lambda tx: bindings.entitlements(tx, instance_id, caller))

    @routes.put("/entitlements", summary="Grant or take away beside the plan", responses=missing)
    async def put_entitlements(request: Request, instance_id: IdPath, given: Entitlements) -> Response:
        caller = caller_of(request.scope)
        return await service.operate(
            request,
            "put",
            f"entitlements:{instance_id}",
            lambda tx: Told(bindings.put_entitlements(tx, instance_id, caller, given.overrides)),
        )

    return routes
