"""Clients that go away before their request is complete: not an error of ours, whatever a framework makes of it.

The edge knows it by the server's own word (`http.disconnect` in the middle of a body), and by the exception that
frameworks raise for it. The request is counted with status 499, and one debug line says so.
"""

from __future__ import annotations

from holdfast.http.asgi import Message, Receive
from holdfast.http.exchange import Exchange

NAMES = frozenset({"ClientDisconnect", "ClientDisconnected", "RequestAborted", "UnreadablePostError"})
"""What Starlette, Werkzeug and Django call it; aiohttp-like frameworks use one of these too."""


class ClientGone(Exception):
    """The client left before its body was complete: there is nobody to answer."""


def is_hang_up(error: BaseException) -> bool:
    """Whether the exception says that the client went away."""
    while isinstance(error, BaseExceptionGroup) and len(error.exceptions) == 1:
        error = error.exceptions[0]  # a task group stands around what really happened
    return isinstance(error, ClientGone) or any(kind.__name__ in NAMES for kind in type(error).__mro__)


def noticed(receive: Receive, exchange: Exchange) -> Receive:
    """The `receive` of a body that nothing guards; notices when the client leaves in the middle of it."""
    ended = False

    async def heard() -> Message:
        nonlocal ended
        message = await receive()
        if not ended and message["type"] == "http.disconnect":
            exchange.hung_up = True
        ended = ended or not message.get("more_body", False)
        return message

    return heard


def log(exchange: Exchange) -> None:
    """Log one line, for operators who look for such requests."""
    import logging  # loaded when first needed: most programs that come here have loaded it

    scope = exchange.scope
    logging.getLogger("holdfast.http").debug(
        "the client went away before request %s was complete (%s)", scope["holdfast.request_id"], scope["method"]
    )
