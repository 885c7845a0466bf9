"""The operator's door: an application that nobody enters without the token."""

from __future__ import annotations

from collections.abc import Callable

from holdfast.base import Secret
from holdfast.catalog import Failure
from holdfast.catalog.core import CORE
from holdfast.catalog.dialect import Dialect
from holdfast.http.asgi import Application, Receive, Scope, Send, header
from holdfast.http.render import Voice

CHALLENGE = (b"www-authenticate", b"Bearer")


class OperatorOnly:
    """ASGI middleware that asks for `Authorization: Bearer …`, except where `public(scope)` says otherwise."""

    def __init__(
        self,
        app: Application,
        token: Secret,
        *,
        public: Callable[[Scope], bool] | None = None,
        dialect: Dialect = Dialect.NESTED,
    ) -> None:
        self.app = app
        self._token = token
        self._public = public
        self._voice = Voice(CORE, dialect)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan" or (self._public is not None and self._public(scope)):
            return await self.app(scope, receive, send)
        if bears(scope, self._token):
            return await self.app(scope, receive, send)
        if scope["type"] != "http":
            return await send({"type": "websocket.close", "code": 1008, "reason": "UNAUTHORIZED"})
        written = self._voice.write(self._refusal(), scope)
        headers = [*written.headers, CHALLENGE]
        await send({"type": "http.response.start", "status": written.status, "headers": headers})
        body = b"" if scope["method"] == "HEAD" else written.body
        return await send({"type": "http.response.body", "body": body})

    def _refusal(self) -> Failure:
        return self._voice.fault("UNAUTHORIZED")()


def bears(scope: Scope, token: Secret) -> bool:
    """Whether the request brings the token; compared in constant time."""
    scheme, _, given = header(scope, "authorization").partition(" ")
    return scheme.lower() == "bearer" and token.matches(given.strip())
