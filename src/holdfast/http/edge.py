"""The edge: pure ASGI middleware around any application.

A request passes, in this order: its id and its trace; health; its deadline; the rate limits; the API key; the rate
limits by key and tenant; the caller of an idempotency key; the guarded body; the idempotency key; the application.
Whatever goes wrong on the way is answered in one dialect. What is not asked for costs next to nothing.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import Any

from holdfast.base import Json, bus
from holdfast.base.arguments import one_of
from holdfast.catalog.catalog import Catalog
from holdfast.catalog.classify import Classifier
from holdfast.catalog.core import CORE
from holdfast.catalog.dialect import Dialect
from holdfast.catalog.failure import Failure
from holdfast.catalog.fault import Fault
from holdfast.http import limits as rate
from holdfast.http.access import AccessRule
from holdfast.http.arrival import REQUEST_ID_HEADER, REQUEST_ID_KEY, enter, leave, request_id
from holdfast.http.asgi import Application, Receive, Scope, Send
from holdfast.http.body import BodyRule, BodyRules, has_body, prepared, refuse_two_lengths
from holdfast.http.callers import ANONYMOUS
from holdfast.http.edge_settings import check_settings
from holdfast.http.exchange import Exchange
from holdfast.http.hang_up import is_hang_up, log, noticed
from holdfast.http.health import Health
from holdfast.http.idempotent import KEY_HEADER, Idempotency, identified, once
from holdfast.http.render import Voice
from holdfast.http.served import Served
from holdfast.policy.deadline import deadline_at, from_header, within, without_deadline

DEADLINE = b"x-deadline-ms"
LENGTH, ENCODING = b"content-length", b"transfer-encoding"
POLICY_VIOLATED = 1008
"""How a WebSocket is closed that may not be opened."""

BODY = BodyRule()

# Versions in which a body needs no header to come.
_UNANNOUNCED = frozenset({"2", "2.0", "3", "3.0"})
# The only headers that are looked for in every request.
_READ = frozenset({REQUEST_ID_HEADER, DEADLINE, LENGTH, ENCODING, KEY_HEADER})


class Edge:
    """ASGI middleware: `Edge(app, catalog=errors)`, or `app.add_middleware(Edge, catalog=errors)`."""

    def __init__(
        self,
        app: Application,
        *,
        catalog: Catalog = CORE,
        dialect: Dialect | str = Dialect.NESTED,
        remap: Mapping[str, Fault] | None = None,
        classifier: Classifier | None = None,
        body: BodyRules | None = BODY,
        limits: rate.RateLimits | None = None,
        access: AccessRule | None = None,
        idempotency: Idempotency | None = None,
        health: Health | None = None,
        on_failure: Callable[[Failure], None] | None = None,
    ) -> None:
        """
        Args:
            catalog: whose words are used; codes that it lacks have the edge's own.
            dialect: how failures are written, unless a request accepts `application/problem+json` by name.
            remap: a code of the edge, and the fault that stands for it here: `{"VALIDATION_ERROR": INVALID_PAYLOAD}`.
            classifier: what undeclared exceptions mean; without one they are all INTERNAL_ERROR.
            access: asked before any of the body is read; an `Access`, or a rule of your own.
            body: what bodies may be; None guards none but those that come with an idempotency key.
            on_failure: told of every failure that is answered, for metrics and logs.

        Raises:
            ArgumentInvalid: names the setting that cannot be meant, and what to write instead.
        """
        check_settings(locals())
        self.app = app
        dialect = one_of("dialect", dialect, Dialect)
        self.voice = Voice(catalog, dialect, remap=remap, classifier=classifier, on_failure=on_failure)
        self._body = body
        self._limits = limits
        self._access = access
        self._idempotency = idempotency
        self._health = health
        # Whether every request has to take the long way.
        self._careful = any(part is not None for part in (limits, access, health)) or (
            idempotency is not None and (idempotency.required or idempotency.derive is not None)
        )

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:  # noqa: C901 - every request pays for a call
        # Asked here first, since it is all but never so and a call costs more than the question.
        if scope["type"] != "http" or (deadline_at() is not None and _inherits_deadline(scope)):
            return await self._other(scope, receive, send)
        served = self._served(scope, send) if bus.listeners else None
        given = None
        for name, value in scope["headers"]:
            if name in _READ:
                given = _with(given, name, value)
        shown: list[tuple[bytes, bytes]] = []
        if REQUEST_ID_KEY not in scope:  # else an edge further out shows the id already
            identifier = request_id(None if given is None else given.pop(REQUEST_ID_HEADER, None))
            scope[REQUEST_ID_KEY] = identifier
            shown.append((REQUEST_ID_HEADER, identifier.encode()))
        exchange = Exchange(scope, served or send, self.voice, shown)
        token = enter(scope)
        try:
            if given or self._careful or scope.get("http_version") in _UNANNOUNCED:
                await self._long_way(exchange, receive, given or {})
            else:
                await self.app(scope, receive, exchange.send)
            if exchange.held is not None:
                await exchange.end()
        except Exception as error:
            exchange.hung_up = exchange.hung_up or (exchange.refusal is None and is_hang_up(error))
            if exchange.hung_up:
                return None
            if exchange.begun:
                raise  # the reply is on its way: the server closes the connection
            await exchange.fail(error)
        finally:
            if exchange.hung_up:
                log(exchange)
            if served is not None:
                served.tell(scope, exchange.failure, hung_up=exchange.hung_up)
            leave(token)
        return None

    @staticmethod
    def _served(scope: Scope, send: Send) -> Served | None:
        # An edge further out tells of the request.
        return None if REQUEST_ID_KEY in scope else Served(send)

    def _long_way(self, exchange: Exchange, receive: Receive, given: dict[bytes, bytes]) -> Awaitable[None]:
        scope = exchange.scope
        if ENCODING in given:
            refuse_two_lengths(exchange)
        if self._health is not None and self._health.answers(scope["path"]) and scope["method"] in ("GET", "HEAD"):
            return self._health.say(scope["path"], _healthy(exchange), head=scope["method"] == "HEAD")
        seconds = from_header(given[DEADLINE].decode("latin-1")) if DEADLINE in given else None
        if seconds is None:
            return self._admitted(exchange, receive, given)
        if seconds <= 0:
            raise self.voice.fault("DEADLINE_EXCEEDED").occur()
        return self._admitted_within(seconds, exchange, receive, given)

    async def _admitted_within(
        self, seconds: float, exchange: Exchange, receive: Receive, given: dict[bytes, bytes]
    ) -> None:
        with within(seconds):
            await self._admitted(exchange, receive, given)

    async def _admitted(self, exchange: Exchange, receive: Receive, given: dict[bytes, bytes]) -> None:
        if self._limits is not None or self._access is not None:
            await self._admit(exchange)
        scope, rule, length = exchange.scope, self._idempotency, given.get(LENGTH)
        keyed = rule is not None and rule.concerns(scope, keyed=KEY_HEADER in given)
        caller: str | None = None
        if rule is not None and keyed:
            caller = ANONYMOUS if rule.anonymous else await identified(rule, exchange, keyed=KEY_HEADER in given)
        body: Json | bytes = b""
        if has_body(scope, length=length, encoding=given.get(ENCODING)):
            chosen = self._body(scope) if callable(self._body) else self._body
            if chosen is not None or keyed:
                receive, body = await prepared(chosen or BODY, exchange, receive, length, kept=keyed)
            else:
                receive = noticed(receive, exchange)
        key = rule.key(exchange, given.get(KEY_HEADER), body) if rule is not None and keyed else None
        if rule is None or key is None:
            await self.app(scope, receive, exchange.send)
        else:
            await once(rule, key, body, exchange, receive, self.app, caller=caller, length=length)

    async def _admit(self, exchange: Exchange) -> None:
        limits = self._limits
        if limits is not None and limits.early:
            await rate.count(exchange, limits.early)
        if self._access is not None:
            await self._access.check(exchange)
        if limits is not None and limits.late:
            await rate.count(exchange, limits.late)

    async def _other(self, scope: Scope, receive: Receive, send: Send) -> None:
        """A WebSocket is asked for its key and counted when it opens; what comes after is not ours to read."""
        if _inherits_deadline(scope):
            # Servers may run a connection's next request in the context of the one before, with its deadline.
            with without_deadline():
                return await self(scope, receive, send)
        if scope["type"] != "websocket" or not self._careful:
            return await self.app(scope, receive, send)
        scope.setdefault(REQUEST_ID_KEY, request_id(None))
        token = enter(scope)
        try:
            await self._admit(Exchange(scope, send, self.voice, []))
        except Failure as failure:
            await receive()
            await send({"type": "websocket.close", "code": POLICY_VIOLATED, "reason": failure.code})
        else:
            await self.app(scope, receive, send)
        finally:
            leave(token)
        return None


def _inherits_deadline(scope: Scope) -> bool:
    """Whether a deadline is in force that is not of this request; one that an edge further out has set is."""
    return deadline_at() is not None and REQUEST_ID_KEY not in scope


def _with(given: dict[bytes, bytes] | None, name: bytes, value: bytes) -> dict[bytes, bytes]:
    if given is None:
        return {name: value}
    # A key that is given twice is neither of the two.
    given[name] = b"%s, %s" % (given[name], value) if name == KEY_HEADER and name in given else value
    return given


def _healthy(exchange: Exchange) -> Any:
    """A report is sent as it is, whatever its status."""

    async def send(message: Any) -> None:
        exchange.begun = True
        if message["type"] == "http.response.start":
            message = {**message, "headers": [*message["headers"], *exchange.headers]}
        await exchange.onward(message)

    return send
