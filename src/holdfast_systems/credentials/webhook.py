"""The engine's webhook: from a request below the edge to an answer, on the event loop, for many at once."""

from __future__ import annotations

from holdfast.guard import Answer
from holdfast.http import ClientGone
from holdfast.http.asgi import Receive, Scope, Send, below
from holdfast.http.client_address import address_of
from holdfast_systems.credentials.engine import Engine
from holdfast_systems.credentials.refusals import Refusals


def webhook_of(scope: Scope) -> str | None:
    """The platform whose webhook the request is for, whatever its method; None when it is for something else."""
    parts = below(scope).split("/")
    is_webhook = len(parts) == 5 and parts[1:3] == ["v1", "platforms"] and parts[4] == "webhook"
    return parts[3] if is_webhook else None


class Webhook:
    """An ASGI application for requests that `webhook_of` knows."""

    def __init__(self, engine: Engine, refusals: Refusals) -> None:
        self._engine = engine
        self._refusals = refusals

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        answer = await self.answer(webhook_of(scope) or "", scope, receive)
        headers = [(name.lower().encode("latin-1"), value.encode("latin-1")) for name, value in answer.headers]
        headers.append((b"content-length", str(len(answer.body)).encode()))
        await send({"type": "http.response.start", "status": answer.status, "headers": headers})
        await send({"type": "http.response.body", "body": answer.body})

    async def answer(self, platform: str, scope: Scope, receive: Receive) -> Answer:
        """The answer to a platform's request; its address is looked at before a byte of the body is read.

        Raises:
            Failure: the platform or the address is not admitted.
            ClientGone: the body was not complete.
        """
        self._engine.admit(platform, address_of(scope, self._engine.trusted_proxies))
        answer = await self._engine.receive(platform, scope["headers"], await _body(receive))
        self._refusals.look_at(answer)
        return answer


async def _body(receive: Receive) -> bytes:
    """The whole body, which the edge keeps within its bounds."""
    parts = []
    while True:
        message = await receive()
        if message["type"] == "http.disconnect":
            raise ClientGone
        parts.append(message.get("body", b""))
        if not message.get("more_body", False):
            return parts[0] if len(parts) == 1 else b"".join(parts)
