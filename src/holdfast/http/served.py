"""A request that was served, told to listeners: what was asked, how it was answered, and how long it took."""

from __future__ import annotations

from collections.abc import Awaitable

from holdfast.base import bus, monotonic_s
from holdfast.catalog import current_context
from holdfast.catalog.failure import Failure
from holdfast.http.asgi import Message, Scope, Send, header

NO_REPLY = 499
"""Told of a request that got none, because the client went away or the application said nothing."""


class Served:
    """Stands before a `send` and remembers what status passed; made only where there is a listener."""

    __slots__ = ("_begun_s", "_onward", "_status")

    def __init__(self, onward: Send) -> None:
        self._onward = onward
        self._begun_s = monotonic_s()
        self._status = NO_REPLY

    def __call__(self, message: Message) -> Awaitable[None]:
        if message["type"] == "http.response.start":
            self._status = message["status"]
        return self._onward(message)

    def tell(self, scope: Scope, failure: Failure | None, *, hung_up: bool = False) -> None:
        """Tell of the request; inside its context, so that its trace is known."""
        bus.tell(
            "request.served",
            method=scope["method"],
            endpoint=endpoint_of(scope),
            status=NO_REPLY if hung_up else self._status,
            **({"code": None} if failure is None else failure.fault.facts),
            duration_s=monotonic_s() - self._begun_s,
            tenant=current_context().account_id,
            parent=header(scope, "traceparent") or None,
        )


def endpoint_of(scope: Scope) -> str:
    """The route that answered, never the path itself: the number of paths is unbounded."""
    route = getattr(scope.get("route"), "path", None)
    if isinstance(route, str):
        # A framework below a path of ours knows only what comes after it.
        root = str(scope.get("root_path") or "")
        return route if route.startswith(root) else root + route
    endpoint = scope.get("endpoint")
    return getattr(endpoint, "__qualname__", "") or ""
