"""Webhooks that never reach a receiver, told on the bus and counted like those that do.

A receiver tells of every request that it sees. What is turned away before it (the address, maintenance, a body that is
too large or too slow) is answered by the edge, which does not know what a webhook is: this does.
"""

from __future__ import annotations

from collections.abc import Callable
from contextvars import ContextVar

from holdfast.base import bus, monotonic_s
from holdfast.catalog import Failure
from holdfast.http.asgi import Application, Receive, Scope, Send

_ASKED: ContextVar[tuple[str, float] | None] = ContextVar("credentials_webhook", default=None)
"""Whose webhook is being answered, and since when."""


def tell_refusal(failure: Failure) -> None:
    """Tell of a webhook that the edge has answered; other requests are none."""
    asked = _ASKED.get()
    if asked is not None and bus.listeners:
        took_s = monotonic_s() - asked[1]
        bus.tell("webhook.received", source=asked[0], event_id=None, duration_s=took_s, **failure.fault.facts)


def refusals_told(edge: Application, platform_of: Callable[[Scope], str | None]) -> Application:
    """The edge, which is to be given `tell_refusal`; `platform_of` says whose webhook a request is, if it is one."""

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        platform = platform_of(scope) if bus.listeners else None
        if platform is None:
            return await edge(scope, receive, send)
        token = _ASKED.set((platform, monotonic_s()))
        try:
            return await edge(scope, receive, send)
        finally:
            _ASKED.reset(token)

    return app
