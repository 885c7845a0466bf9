"""Webhooks that never reach a receiver, told on the bus, counted and noted like those that do.

A receiver tells of every request that it sees. What is turned away before it (the address, maintenance, a body that is
too large or too slow) is answered by the edge, which does not know what a webhook is: this does.
"""

from __future__ import annotations

from collections.abc import Callable
from contextvars import ContextVar
from dataclasses import dataclass

from holdfast.base import bus, decode, monotonic_s
from holdfast.catalog import Failure
from holdfast.guard import Answer
from holdfast.http.asgi import Application, Receive, Scope, Send
from holdfast_systems.credentials.refusal_log import Refusal, RefusalLog, refusal_of

REFUSED_FROM = 400


@dataclass(frozen=True, slots=True)
class Asked:
    """A webhook that is being answered."""

    platform: str
    address: str
    since_s: float


_ASKED: ContextVar[Asked | None] = ContextVar("credentials_webhook", default=None)


class Refusals:
    """Tells of the refused webhooks of one engine. Threads may share it."""

    def __init__(self, log: RefusalLog) -> None:
        self._log = log

    def around(self, edge: Application, asked_of: Callable[[Scope], tuple[str, str] | None]) -> Application:
        """The edge, which is to be given `tell`.

        Args:
            asked_of: whose webhook a request is, and from which address; None for other requests.
        """

        async def app(scope: Scope, receive: Receive, send: Send) -> None:
            asked = asked_of(scope)
            if asked is None:
                return await edge(scope, receive, send)
            token = _ASKED.set(Asked(*asked, monotonic_s()))
            try:
                return await edge(scope, receive, send)
            finally:
                _ASKED.reset(token)

        return app

    def tell(self, failure: Failure) -> None:
        """Tell of a webhook that the edge has answered; other requests are none."""
        asked = _ASKED.get()
        if asked is None:
            return
        field = failure.details.get("field")
        refusal = Refusal(asked.platform, failure.code, field if isinstance(field, str) else "", asked.address)
        self._log.note(refusal, failure.message)
        if bus.listeners:
            took_s = monotonic_s() - asked.since_s
            bus.tell("webhook.received", source=asked.platform, event_id=None, duration_s=took_s, **failure.fault.facts)

    def look_at(self, answer: Answer) -> None:
        """Note what the receiver has answered, if it refused; it tells the bus itself."""
        asked = _ASKED.get()
        if asked is None or answer.status < REFUSED_FROM:
            return
        found = refusal_of(asked.platform, asked.address, decode(answer.body))
        if found is not None:
            self._log.note(*found)
