"""Which websites may embed an instance, and what their browsers are told (CORS).

Always true: only an origin that was checked against its instance may read a reply; no cookie is ever accepted from
another site, so a preflight gives nothing away.
"""

from __future__ import annotations

from typing import Any
from urllib.parse import urlsplit

from holdfast.http.asgi import Application, Message, Receive, Scope, Send, header
from holdfast.http.exchange import Exchange
from holdfast_systems.commerce.admission import CALLER_KEY, Admission, Caller, CallerKind
from holdfast_systems.commerce.faults import ORIGIN_NOT_ALLOWED
from holdfast_systems.commerce.gateway.instances import Instance
from holdfast_systems.commerce.model import LOOPBACK_HOSTS

ORIGIN_CHARS_MAX = 200
PREFLIGHT_S = 600
METHODS = "GET, POST, OPTIONS"
HEADERS = "authorization, content-type, accept, x-request-id, traceparent"
EXPOSED = "retry-after, x-request-id"
UNAUTHORIZED = 401
READABLE_KEY = "holdfast.commerce.readable"


def origin_of_request(scope: Scope) -> str:
    """The site that the request comes from, as its browser says; empty for a program."""
    return header(scope, "origin")[:ORIGIN_CHARS_MAX].rstrip("/").lower()


class Origins:
    """Which origins are good for an instance."""

    def __init__(self, own_address: str, *, loopback: bool) -> None:
        """
        Args:
            own_address: where the gateway stands; its own page may always embed.
            loopback: whether pages of this machine may embed any instance.
        """
        parts = urlsplit(own_address)
        self._own = f"{parts.scheme}://{parts.netloc}".lower()
        self._loopback = loopback

    def allows(self, origin: str, instance: Instance) -> bool:
        """Whether a page of this origin may speak to the instance."""
        if not origin:
            return False
        if origin == self._own or origin in {one.rstrip("/").lower() for one in instance.origins}:
            return True
        return self._loopback and is_loopback(origin)


def is_loopback(origin: str) -> bool:
    """Whether the origin is a page that is served on the visitor's own machine."""
    try:
        parts = urlsplit(origin)
        return parts.scheme in ("http", "https") and (parts.hostname or "") in LOOPBACK_HOSTS
    except ValueError:
        return False


def let_read(scope: Scope) -> None:
    """The request's origin was checked: its page may read the reply, whatever it says."""
    readable: list[str] | None = scope.get(READABLE_KEY)
    if readable is not None and (origin := header(scope, "origin")):
        readable.append(origin)


class OriginAdmission:
    """The `access=` of the gateway: a widget's token is good only on the website that opened its session."""

    def __init__(self, admission: Admission) -> None:
        self._admission = admission

    async def check(self, exchange: Exchange) -> None:
        """Let the request pass, and its page read the reply.

        Raises:
            Failure: as the admission; ORIGIN_NOT_ALLOWED for a token of another website.
        """
        await self._admission.check(exchange)
        scope = exchange.scope
        caller: Caller | None = scope.get(CALLER_KEY)
        if caller is None or caller.claims is None or caller.kind is not CallerKind.WIDGET:
            return
        origin = origin_of_request(scope)
        if origin and origin != caller.claims.id:
            raise ORIGIN_NOT_ALLOWED(origin=origin)
        let_read(scope)


class Cors:
    """ASGI middleware that answers preflights, and lets pages read replies whose origin was checked."""

    def __init__(self, app: Application) -> None:
        self.app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http" or not header(scope, "origin"):
            return await self.app(scope, receive, send)
        if scope["method"] == "OPTIONS" and header(scope, "access-control-request-method"):
            return await _preflight(scope, send)
        readable: list[str] = []
        scope[READABLE_KEY] = readable

        async def onward(message: Message) -> None:
            if message["type"] == "http.response.start":
                # That a session is over may be read by every page: it says nothing of anybody.
                shown = readable or ([header(scope, "origin")] if message["status"] == UNAUTHORIZED else [])
                message = {**message, "headers": [*message.get("headers", ()), *_shown(shown)]}
            await send(message)

        return await self.app(scope, receive, onward)


def _shown(readable: list[str]) -> list[tuple[bytes, bytes]]:
    vary = (b"vary", b"origin")
    if not readable:
        return [vary]
    return [
        vary,
        (b"access-control-allow-origin", readable[0].encode("latin-1")),
        (b"access-control-expose-headers", EXPOSED.encode()),
    ]


async def _preflight(scope: Scope, send: Send) -> None:
    """Any site may ask: what it may do is decided by the origin of the session, which the token names."""
    fields: dict[str, Any] = {
        "access-control-allow-origin": header(scope, "origin"),
        "access-control-allow-methods": METHODS,
        "access-control-allow-headers": HEADERS,
        "access-control-max-age": str(PREFLIGHT_S),
        "vary": "origin, access-control-request-headers",
        "content-length": "0",
    }
    headers = [(name.encode(), value.encode("latin-1")) for name, value in fields.items()]
    await send({"type": "http.response.start", "status": 204, "headers": headers[:-1]})
    await send({"type": "http.response.body", "body": b""})
