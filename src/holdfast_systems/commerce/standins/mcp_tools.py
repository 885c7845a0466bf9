"""A stand-in's tools as an MCP server at `/mcp`, beside the stand-in's own service."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from holdfast.base import Json, Secret, encode
from holdfast.http.asgi import Application, Receive, Reply, Scope, Send, give, header
from holdfast_systems.commerce.standins.json_service import below

PATH = "/mcp"


@dataclass(frozen=True, slots=True, kw_only=True)
class RemoteTool:
    """One tool of the server."""

    name: str
    description: str
    call: Callable[[dict[str, Json], str], dict[str, Json]]
    """Given the arguments and the idempotency key, which may be empty."""
    keyed_by: Secret | None = None
    """What has to come as a bearer token; None asks for none."""


class McpTools:
    """An ASGI application: MCP at its path, the stand-in's own service everywhere else."""

    def __init__(self, tools: Sequence[RemoteTool], *, otherwise: Application) -> None:
        self._tools = {tool.name: tool for tool in tools}
        self._otherwise = otherwise

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http" or below(scope) != PATH:
            return await self._otherwise(scope, receive, send)
        token = header(scope, "authorization").removeprefix("Bearer ")
        if any(one.keyed_by is not None and not one.keyed_by.matches(token) for one in self._tools.values()):
            refusal = Reply(body=b'{"error": "this key is not known"}', content_type="application/json", status=401)
            return await give(refusal, send, head=False)
        if scope["method"] != "POST":
            return await give(Reply(body=b"", content_type="text/plain", status=405), send, head=False)
        from mcp.server.streamable_http_manager import StreamableHTTPSessionManager  # large, and few need it

        server = self._server(header(scope, "idempotency-key"))
        manager = StreamableHTTPSessionManager(app=server, json_response=True, stateless=True)
        async with manager.run():
            return await manager.handle_request(scope, receive, send)

    def _server(self, key: str) -> Any:
        from mcp import types
        from mcp.server import Server

        async def list_tools(_context: Any, _params: Any) -> Any:
            schema = {"type": "object"}
            tools = [types.Tool(name=one.name, description=one.description, input_schema=schema) for one in self._all()]
            return types.ListToolsResult(tools=tools)

        async def call_tool(_context: Any, params: Any) -> Any:
            tool = self._tools.get(params.name)
            if tool is None:
                return types.CallToolResult(
                    content=[types.TextContent(type="text", text="there is no such tool")], is_error=True
                )
            made = tool.call(params.arguments or {}, key)
            return types.CallToolResult(
                content=[types.TextContent(type="text", text=encode(made))], structured_content=made
            )

        return Server("stand-in", on_list_tools=list_tools, on_call_tool=call_tool)

    def _all(self) -> list[RemoteTool]:
        return list(self._tools.values())
