"""Signing in to the page: whoever shows the operator's token gets a signed cookie for a while.

Always true: without the token nobody can make one, and a new token ends all of them. Nothing is stored.
"""

from __future__ import annotations

import hmac

from holdfast.base import Secret, now_us
from holdfast.http.asgi import Scope, header

COOKIE = "holdfast_records"
SESSION_S = 12 * 3_600
PURPOSE = "records page"
FROM_PAGE = "x-records-page"
"""A header that no form and no other site can send: with the cookie alone, nobody speaks as the operator."""


class Session:
    """The cookies of one operator's token."""

    def __init__(self, token: Secret) -> None:
        self._token = token

    def begin(self, given: str) -> str | None:
        """The cookie's value for whoever knows the token; None for anybody else."""
        if not self._token or not self._token.matches(given):
            return None
        until = str(now_us() // 1_000_000 + SESSION_S)
        return f"{until}.{self._sign(until)}"

    def holds(self, scope: Scope) -> bool:
        """Whether the request comes from our page with a cookie of ours that is not over."""
        return bool(header(scope, FROM_PAGE)) and self.signed_in(scope)

    def signed_in(self, scope: Scope) -> bool:
        """Whether the browser has a cookie of ours that is not over."""
        until, _, signature = _cookie(header(scope, "cookie")).partition(".")
        if not until.isdecimal() or len(until) > 20 or not Secret(self._sign(until)).matches(signature):
            return False
        return int(until) > now_us() // 1_000_000

    def _sign(self, until: str) -> str:
        # The purpose is signed too: nothing else that is signed with the token can be taken for this.
        return hmac.digest(self._token.reveal().encode(), f"{PURPOSE}:{until}".encode(), "sha256").hex()


def set_cookie(value: str, scope: Scope, *, seconds: int = SESSION_S) -> str:
    """The Set-Cookie header; no seconds take the cookie away."""
    secure = "; Secure" if scope.get("scheme") == "https" else ""
    path = scope.get("root_path", "") or "/"
    return f"{COOKIE}={value}; Path={path}; Max-Age={seconds}; HttpOnly; SameSite=Strict{secure}"


def _cookie(text: str) -> str:
    for part in text.split(";"):
        name, _, value = part.strip().partition("=")
        if name == COOKIE:
            return value
    return ""
