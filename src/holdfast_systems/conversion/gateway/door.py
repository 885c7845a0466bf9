"""The gateway's switches at another address: what `/standins/{name}` serves while the gateway is its own process."""

from __future__ import annotations

from collections.abc import Callable

from holdfast.base import Secret
from holdfast.catalog import CORE, Dialect, Failure, render
from holdfast.http import ANYWHERE, HttpClient, Timeouts
from holdfast.http.asgi import Application, Receive, Reply, Scope, Send, give
from holdfast.http.this_machine import within_this_machine
from holdfast.testing.faulty import BODY_BYTES_MAX, read_body

TIMEOUT_S = 10.0
METHODS = frozenset({"GET", "PUT", "DELETE"})


def faults_door(address: Callable[[], str], token: Callable[[], Secret]) -> Application:
    """An application whose every path is the gateway's `/faults`; only a client on this machine gets through.

    Args:
        token: what the gateway asks for.
    """

    async def door(scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            return
        try:
            reply = await _passed_on(address(), token(), scope, receive)
        except Failure as failure:
            rendered = render(failure, Dialect.NESTED)
            reply = Reply(body=rendered.body, status=rendered.status, content_type="application/json")
        await give(reply, send, head=scope["method"] == "HEAD")

    return door


async def _passed_on(address: str, token: Secret, scope: Scope, receive: Receive) -> Reply:
    method = scope["method"]
    if not within_this_machine(scope):
        raise CORE["FORBIDDEN"]()
    if method not in METHODS:
        raise CORE["METHOD_NOT_ALLOWED"]()
    body = await read_body(receive, BODY_BYTES_MAX, kept=BODY_BYTES_MAX)
    async with HttpClient(reach=ANYWHERE, timeouts=Timeouts(total_s=TIMEOUT_S)) as client:
        found = await client.send(
            method, f"{address}/faults", body=body, headers={"Authorization": f"Bearer {token.reveal()}"}
        )
    return Reply(body=found.body, status=found.status, content_type=found.content_type or "application/json")
