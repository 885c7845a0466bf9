"""The routes of the connectors: what an instance may use, one call, and which tools there are."""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated, Any

from fastapi import APIRouter, Path, Request, Response
from fastapi.responses import JSONResponse
from pydantic import BaseModel, ConfigDict, Field

from holdfast.http import EDGE_FAULTS
from holdfast.http.aside import aside
from holdfast.operate import actor_of, carry_out
from holdfast_systems.commerce.admission import caller_of
from holdfast_systems.commerce.connectors.calls import Asked, ToolCalls
from holdfast_systems.commerce.connectors.tools import Kind, Tool, ToolInvalid, Tools, Transport, tool_of
from holdfast_systems.commerce.faults import TOOL_NOT_FOUND

NO_STORE = {"cache-control": "no-store"}
InstanceId = Annotated[str, Path(min_length=1, max_length=100, pattern=r"^[A-Za-z0-9._-]+$")]
ToolName = Annotated[str, Path(min_length=1, max_length=130, pattern=r"^[A-Za-z0-9._-]+$")]
Word = Annotated[str, Field(min_length=1, max_length=200, pattern=r"^[\x21-\x7e]+$")]


class ToolRequest(BaseModel):
    """One call of a tool."""

    model_config = ConfigDict(extra="forbid")
    arguments: dict[str, Any] = Field(default={}, max_length=100)
    runId: Word | None = None  # noqa: N815 - the names that clients send
    idempotencyKey: Word | None = None  # noqa: N815


class ToolDefinition(BaseModel):
    """A tool, as operators describe it."""

    model_config = ConfigDict(extra="forbid")
    kind: Kind
    transport: Transport = Transport.HTTP
    url: str = Field(max_length=2_000)
    remoteName: str | None = Field(default=None, max_length=200)  # noqa: N815
    takesKey: bool = False  # noqa: N815
    timeoutS: float | None = None  # noqa: N815
    secretField: str | None = Field(default=None, max_length=64)  # noqa: N815
    fields: list[str] = Field(default=[], max_length=20)
    description: str = Field(default="", max_length=500)
    inputSchema: dict[str, Any] = {}  # noqa: N815


def tool_routes(calls: Callable[[], ToolCalls], tools: Tools) -> APIRouter:
    """List an instance's tools, call one; show and change the tools that there are."""
    routes = APIRouter(tags=["tools"])
    _add_instance_routes(routes, calls)
    _add_definitions(routes, tools)
    return routes


def _add_instance_routes(routes: APIRouter, calls: Callable[[], ToolCalls]) -> None:
    @routes.get("/v1/instances/{instance_id}/tools", summary="The tools that an instance may use")
    async def list_tools(request: Request, instance_id: InstanceId) -> Response:
        found = await calls().listed(caller_of(request.scope), instance_id)
        return JSONResponse({"tools": [{**_public(tool), **state} for tool, state in found]}, headers=NO_STORE)

    @routes.post("/v1/instances/{instance_id}/tools/{tool}", summary="Call a tool")
    async def call_tool(request: Request, instance_id: InstanceId, tool: ToolName, asked: ToolRequest) -> Response:
        call = Asked(arguments=asked.arguments, run_id=asked.runId or "", key=asked.idempotencyKey or "")
        result = await calls().call(caller_of(request.scope), instance_id, tool, call)
        return JSONResponse({"tool": tool, "result": result}, headers=NO_STORE)


def _add_definitions(routes: APIRouter, tools: Tools) -> None:
    @routes.get("/v1/tools", summary="The tools that there are")
    async def list_definitions() -> Response:
        found = await aside(tools.all)
        return JSONResponse({"tools": [tool.shown() for tool in found]}, headers=NO_STORE)

    @routes.get("/v1/tools/{tool}", summary="A tool")
    async def show_definition(tool: ToolName) -> Response:
        found = await aside(lambda: tools.get(tool))
        if found is None:
            raise TOOL_NOT_FOUND(tool=tool)
        return JSONResponse(found.shown(), headers=NO_STORE)

    @routes.put("/v1/tools/{tool}", summary="Create a tool, or replace it")
    async def put_definition(request: Request, tool: ToolName, definition: ToolDefinition) -> Response:
        try:
            made = tool_of(tool, definition.model_dump(mode="json"))
        except ToolInvalid as wrong:
            errors = [{"field": wrong.field, "constraint": "invalid", "message": wrong.reason}]
            raise EDGE_FAULTS["VALIDATION_ERROR"](errors=errors, total_errors=1) from None
        actor = actor_of(request.scope, str(caller_of(request.scope).kind))
        reason = request.query_params.get("reason")
        await aside(
            lambda: carry_out(tools.store, "put", f"tool:{tool}", tools.putting(made), actor=actor, reason=reason)
        )
        return JSONResponse(made.shown(), headers=NO_STORE)


def _public(tool: Tool) -> dict[str, Any]:
    """What a runtime needs to know of a tool."""
    return {
        "tool": tool.name,
        "kind": tool.kind.value,
        "takesKey": tool.takes_key,
        "description": tool.description,
        "inputSchema": dict(tool.input_schema),
    }
