"""The routes of plans and offerings: everybody with a token reads them, operators and services change them."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import APIRouter, Request, Response
from pydantic import BaseModel, ConfigDict, Field, model_validator

from holdfast.http import documented
from holdfast_systems.commerce.control_plane import plans
from holdfast_systems.commerce.control_plane.fields import CREDITS_MAX, Name, NamePath, Title
from holdfast_systems.commerce.control_plane.service import Service, Told
from holdfast_systems.commerce.faults import OFFERING_NOT_FOUND, PLAN_NOT_FOUND
from holdfast_systems.commerce.model import PlanKind

PER_MINUTE_MAX = 1_000_000

PerMinute = Annotated[int, Field(ge=1, le=PER_MINUTE_MAX)]


class Limits(BaseModel):
    """What an instance may do in a minute, and how many runs at once."""

    model_config = ConfigDict(extra="forbid")
    requestsPerMinute: PerMinute = 60  # noqa: N815 - the names that clients send
    concurrentRuns: PerMinute = 5  # noqa: N815
    toolCallsPerMinute: PerMinute = 60  # noqa: N815
    sessionsPerMinute: PerMinute = 60  # noqa: N815
    chatsPerMinute: PerMinute = 30  # noqa: N815


class Plan(BaseModel):
    """What a product code buys."""

    model_config = ConfigDict(extra="forbid")
    kind: PlanKind
    title: Title
    credits: int = Field(ge=0, le=CREDITS_MAX)
    offering: Name | None = None
    softFail: bool = False  # noqa: N815
    runBudget: int = Field(default=5, ge=1, le=CREDITS_MAX)  # noqa: N815
    runTimeoutS: float = Field(default=plans.RUN_TIMEOUT_S, gt=0, le=3_600)  # noqa: N815
    limits: Limits = Limits()
    capabilities: list[Name] = Field(default=["tools", "rag"], max_length=50)

    @model_validator(mode="after")
    def _is_whole(self) -> Plan:
        if self.kind is PlanKind.AGENT and self.offering is None:
            raise ValueError("an agent needs an offering")
        return self


class Offering(BaseModel):
    """A flow of the runtime, with the tools that its instances may use from the start."""

    model_config = ConfigDict(extra="forbid")
    title: Title
    flow: Name
    tools: list[Name] = Field(default=[], max_length=100)


def plan_routes(service: Service) -> APIRouter:
    """Show, list, create and replace plans and offerings."""
    routes = APIRouter(tags=["plans"])

    @routes.get("/plans", summary="What is sold")
    async def list_plans() -> Response:
        return await service.read(lambda tx: {"plans": plans.plans(tx)})

    @routes.get("/plans/{sku}", summary="What a product code buys", responses=documented(PLAN_NOT_FOUND))
    async def show_plan(sku: NamePath) -> Response:
        return await service.read(lambda tx: plans.plan(tx, sku))

    @routes.put("/plans/{sku}", summary="Create a plan, or replace it", responses=documented(OFFERING_NOT_FOUND))
    async def put_plan(request: Request, sku: NamePath, plan: Plan) -> Response:
        document: dict[str, Any] = {"sku": sku, **plan.model_dump(mode="json")}
        return await service.operate(request, "put", f"plan:{sku}", lambda tx: Told(plans.put_plan(tx, document)))

    @routes.get("/offerings", summary="Flows that instances can be made of")
    async def list_offerings() -> Response:
        return await service.read(lambda tx: {"offerings": plans.offerings(tx)})

    @routes.get("/offerings/{offering_id}", summary="An offering", responses=documented(OFFERING_NOT_FOUND))
    async def show_offering(offering_id: NamePath) -> Response:
        return await service.read(lambda tx: plans.offering(tx, offering_id))

    @routes.put("/offerings/{offering_id}", summary="Create an offering, or replace it")
    async def put_offering(request: Request, offering_id: NamePath, offering: Offering) -> Response:
        document: dict[str, Any] = {"id": offering_id, **offering.model_dump(mode="json")}
        return await service.operate(
            request, "put", f"offering:{offering_id}", lambda tx: Told(plans.put_offering(tx, document))
        )

    return routes
