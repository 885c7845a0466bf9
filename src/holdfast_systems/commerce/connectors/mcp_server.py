"""The tools of an instance as an MCP server for runtimes: streamable HTTP, without sessions.

Every request stands alone, so that any process answers any of them; each call passes the same checks as over HTTP.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from holdfast.base import Json, encode
from holdfast.catalog import Dialect, Failure, document
from holdfast.http.asgi import Receive, Scope, Send
from holdfast_systems.commerce.admission import Caller, caller_of
from holdfast_systems.commerce.connectors.calls import Asked, ToolCalls

BODY_BYTES_MAX = 262_144
NAME = "holdfast-connectors"


class McpServer:
    """An ASGI application for one route that names the instance."""

    def __init__(self, calls: Callable[[], ToolCalls]) -> None:
        self._calls = calls

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        from mcp.server.streamable_http_manager import StreamableHTTPSessionManager  # large, and few need it

        instance_id = str(scope["path_params"]["instance_id"])
        caller, calls = caller_of(scope), self._calls()
        await calls.instance(caller, instance_id)
        manager = StreamableHTTPSessionManager(
            app=_server(calls, caller, instance_id),
            json_response=True,
            stateless=True,
            max_request_body_size=BODY_BYTES_MAX,
        )
        async with manager.run():
            await manager.handle_request(scope, receive, send)


def _server(calls: ToolCalls, caller: Caller, instance_id: str) -> Any:
    from mcp import types
    from mcp.server import Server

    async def list_tools(_context: Any, _params: Any) -> Any:
        found = await calls.listed(caller, instance_id)
        tools = [
            types.Tool(
                name=tool.name,
                description=tool.description,
                input_schema=dict(tool.input_schema) or {"type": "object"},
            )
            for tool, state in found
            if state["binding"] == "active"
        ]
        return types.ListToolsResult(tools=tools)

    async def call_tool(_context: Any, params: Any) -> Any:
        meta: Any = params.meta or {}
        key = meta.get("idempotencyKey") if isinstance(meta, dict) else None
        run_id = meta.get("runId") if isinstance(meta, dict) else None
        asked = Asked(arguments=params.arguments or {}, run_id=_text(run_id), key=_text(key))
        try:
            result = await calls.call(caller, instance_id, params.name, asked)
        except Failure as failure:
            said: dict[str, Any] = dict(document(failure, Dialect.NESTED))
            text = f"{failure.code}: {failure.message}"
            return types.CallToolResult(
                content=[types.TextContent(type="text", text=text)], structured_content=said, is_error=True
            )
        return types.CallToolResult(
            content=[types.TextContent(type="text", text=encode(result))], structured_content=_object(result)
        )

    return Server(NAME, on_list_tools=list_tools, on_call_tool=call_tool)


def _text(value: object) -> str:
    return value if isinstance(value, str) and len(value) <= 200 and value.isprintable() else ""


def _object(result: Json) -> dict[str, Json]:
    return result if isinstance(result, dict) else {"result": result}
