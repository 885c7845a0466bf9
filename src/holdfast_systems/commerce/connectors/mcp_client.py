"""Tools of MCP servers, over streamable HTTP: one session for each attempt, so that secrets of tenants never mix."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import TYPE_CHECKING, Any

from holdfast.base import Json
from holdfast.catalog import Failure
from holdfast.policy import left_s
from holdfast_systems.commerce.connectors.upstream import ANSWER_BYTES_MAX, Call, answered, unanswered
from holdfast_systems.commerce.faults_outside import TOOL_REFUSED

if TYPE_CHECKING:
    import httpx2

BLOCKS_MAX = 100
FRAMING_BYTES = 65_536
"""What the protocol adds to an answer."""


async def call_mcp(call: Call) -> Json:
    """Call the tool once and return its result: its structured content, or the text of its blocks.

    Raises:
        Failure: TOOL_UNAVAILABLE, TOOL_TIMEOUT, TOOL_REFUSED, UPSTREAM_ERROR.
    """
    import anyio  # here, because few tools are MCP servers and the package is large
    from mcp import Client

    seen = _Seen()
    seconds = min(call.timeout_s, left_s())
    failure: Failure | None = None
    result: Any = None
    try:
        with anyio.fail_after(seconds):
            async with (
                _http_client(call, seen, seconds) as http,
                Client(_transport(call.url, http), cache=None) as client,
            ):
                result = await client.call_tool(call.tool.remote_name, call.arguments, meta=_meta(call))
    except TimeoutError:
        failure = unanswered(call, "NETWORK_TIMEOUT")
    except Exception as error:  # noqa: BLE001 - whatever a session ends with, the attempt is settled here
        failure = _failure(call, seen, error)
    if failure is not None:
        raise failure  # outside, so that nothing of the session comes along as its context
    if result.is_error:
        raise TOOL_REFUSED(tool=call.tool.name, reason="tool_error")
    return _value(result)


class _Seen:
    """What the HTTP side of a session has met, which the protocol does not pass on."""

    def __init__(self) -> None:
        self.status = 0
        self.sent = False
        self.too_large = False


def _http_client(call: Call, seen: _Seen, seconds: float) -> httpx2.AsyncClient:
    import httpx2

    class Watched(httpx2.AsyncHTTPTransport):
        """Notes statuses, and ends an answer that is too large."""

        async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
            seen.sent = seen.sent or b'"tools/call"' in request.content
            response = await super().handle_async_request(request)
            if response.status_code >= 400:
                seen.status = response.status_code
            stream = response.stream
            if isinstance(stream, httpx2.AsyncByteStream):
                response.stream = _Bounded(stream, seen)
            return response

    class _Bounded(httpx2.AsyncByteStream):
        def __init__(self, inner: httpx2.AsyncByteStream, seen: _Seen) -> None:
            self._inner = inner
            self._seen = seen

        async def __aiter__(self) -> AsyncIterator[bytes]:
            size = 0
            async for piece in self._inner:
                size += len(piece)
                if size > ANSWER_BYTES_MAX + FRAMING_BYTES:
                    self._seen.too_large = True
                    raise httpx2.ReadError("the answer is too large")
                yield piece

        async def aclose(self) -> None:
            await self._inner.aclose()

    return httpx2.AsyncClient(
        transport=Watched(), headers=call.headers(), timeout=seconds, follow_redirects=False, trust_env=False
    )


def _transport(url: str, http: httpx2.AsyncClient) -> Any:
    from mcp.client.streamable_http import streamable_http_client

    return streamable_http_client(url, http_client=http)


def _meta(call: Call) -> Any:
    return {"idempotencyKey": call.key} if call.key else None


def _failure(call: Call, seen: _Seen, error: Exception) -> Failure:
    if seen.too_large:
        return unanswered(call, "RESPONSE_TOO_LARGE")
    if seen.status:
        return answered(call, seen.status, sent=seen.sent)
    names = {type(one).__name__ for one in _leaves(error)}
    if names & {"ReadTimeout", "WriteTimeout", "PoolTimeout"}:
        return unanswered(call, "NETWORK_TIMEOUT")
    if not seen.sent or names & {"ConnectError", "ConnectTimeout"}:
        return unanswered(call, "CONNECTION_REFUSED")
    if "MCPError" in names:
        return TOOL_REFUSED(tool=call.tool.name, reason="protocol_error")
    return unanswered(call, "CONNECTION_RESET")


def _leaves(error: BaseException) -> list[BaseException]:
    if isinstance(error, BaseExceptionGroup):
        return [leaf for one in error.exceptions for leaf in _leaves(one)]
    return [error]


def _value(result: Any) -> Json:
    if result.structured_content is not None:
        structured: Json = result.structured_content
        return structured
    return {"text": [str(block.text) for block in result.content[:BLOCKS_MAX] if getattr(block, "text", None)]}
