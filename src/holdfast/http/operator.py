"""The operator's door: an application that nobody enters without the token.

Always true: the token is asked for before any of the body is read.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from holdfast.base import Secret
from holdfast.catalog import Failure, continued, enriched, new_request_id
from holdfast.catalog.core import CORE
from holdfast.catalog.dialect import Dialect
from holdfast.http.access import CHALLENGE
from holdfast.http.asgi import Application, Receive, Scope, Send, header
from holdfast.http.exchange import Exchange
from holdfast.http.render import Voice
from holdfast.http.wrong_tokens import let_in

POLICY_VIOLATED = 1008
"""How a WebSocket is closed that may not be opened."""


class OperatorAccess:
    """The `access=` of an edge that asks for the operator's token, except where `public(scope)` says otherwise."""

    def __init__(self, token: Secret, *, public: Callable[[Scope], bool | Awaitable[bool]] | None = None) -> None:
        """
        Args:
            public: which requests are let in without the token; may be a coroutine function.
        """
        self._token = token
        self._public = public

    async def check(self, exchange: Exchange) -> None:
        """Let the request pass.

        Raises:
            Failure: UNAUTHORIZED; RATE_LIMIT_EXCEEDED for a wrong token after too many.
        """
        scope = exchange.scope
        if await self._is_public(scope) or let_in(scope, self._token):
            return
        exchange.headers.append(CHALLENGE)
        raise exchange.voice.fault("UNAUTHORIZED").occur()

    async def _is_public(self, scope: Scope) -> bool:
        said = self._public is not None and self._public(scope)
        return said if isinstance(said, bool) else await said


class OperatorOnly:
    """ASGI middleware that asks for `Authorization: Bearer …`, for an application that has no edge of its own."""

    def __init__(
        self,
        app: Application,
        token: Secret,
        *,
        public: Callable[[Scope], bool] | None = None,
        dialect: Dialect = Dialect.NESTED,
    ) -> None:
        """
        Args:
            public: which requests are let in without the token.
        """
        self.app = app
        self._token = token
        self._public = public
        self._voice = Voice(CORE, dialect)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan" or (self._public is not None and self._public(scope)):
            return await self.app(scope, receive, send)
        try:
            known, code = let_in(scope, self._token), "UNAUTHORIZED"
        except Failure as failure:
            known, code = False, failure.code
        if known:
            return await self.app(scope, receive, send)
        if scope["type"] != "http":
            await receive()
            return await send({"type": "websocket.close", "code": POLICY_VIOLATED, "reason": code})
        return await self._refuse(code, scope, send)

    async def _refuse(self, code: str, scope: Scope, send: Send) -> None:
        with enriched(request_id=new_request_id(), **continued(header(scope, "traceparent"))):
            failure = self._voice.fault(code).occur()
            written = self._voice.write(failure, scope)
        headers = [*written.headers, CHALLENGE, (b"x-request-id", failure.context.request_id.encode())]
        await send({"type": "http.response.start", "status": written.status, "headers": headers})
        body = b"" if scope["method"] == "HEAD" else written.body
        return await send({"type": "http.response.body", "body": body})
