"""Whose a request is: a signed session cookie, given to a client that comes without one.

Always true: an owner's id is accepted only with our signature; a cookie that was changed is as good as none.
"""

from __future__ import annotations

from holdfast.base import Secret, world
from holdfast.http.asgi import Application, Message, Receive, Scope, Send, header

COOKIE = "holdfast_conversion"
OWNER_KEY = "conversion.owner"
ID_BYTES = 16
KEPT_S = 365 * 86_400


class Sessions:
    """Makes and checks the values of session cookies."""

    def __init__(self, secret: Secret) -> None:
        self._secret = secret

    def new(self) -> str:
        """A new owner's id."""
        return world().token_bytes(ID_BYTES).hex()

    def signed(self, owner: str) -> str:
        """The cookie's value for an owner."""
        return f"{owner}.{self._signature(owner)}"

    def owner(self, value: str) -> str | None:
        """The owner that a cookie's value stands for; None when the signature is not ours."""
        owner, _, signature = value.partition(".")
        return owner if owner and Secret(self._signature(owner)).matches(signature) else None

    def _signature(self, owner: str) -> str:
        import hmac

        return hmac.new(self._secret.reveal().encode(), owner.encode(), "sha256").hexdigest()


class WithSession:
    """ASGI middleware: every request has an owner in its scope, and a new owner gets a cookie with the reply."""

    def __init__(self, app: Application, sessions: Sessions, *, path: str, secure: bool) -> None:
        self.app = app
        self._sessions = sessions
        self._attributes = f"; Path={path or '/'}; Max-Age={KEPT_S}; HttpOnly; SameSite=Lax" + (
            "; Secure" if secure else ""
        )

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            return await self.app(scope, receive, send)
        owner = self._known(scope)
        if owner is not None:
            scope[OWNER_KEY] = owner
            return await self.app(scope, receive, send)
        owner = scope[OWNER_KEY] = self._sessions.new()
        cookie = f"{COOKIE}={self._sessions.signed(owner)}{self._attributes}".encode()

        async def with_cookie(message: Message) -> None:
            if message["type"] == "http.response.start":
                message = {**message, "headers": [*message.get("headers", ()), (b"set-cookie", cookie)]}
            await send(message)

        return await self.app(scope, receive, with_cookie)

    def _known(self, scope: Scope) -> str | None:
        """The owner by the first cookie of ours that holds."""
        pairs = (pair.strip().partition("=") for part in header(scope, "cookie").split(",") for pair in part.split(";"))
        owners = (self._sessions.owner(value) for name, _, value in pairs if name == COOKIE)
        return next((owner for owner in owners if owner is not None), None)
