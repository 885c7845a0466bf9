"""Signing in to the page: the operator's token is exchanged for a signed cookie that ends after a while.

Always true: a cookie cannot be made without the token, and a new token ends all of them. Nothing is stored.
"""

from __future__ import annotations

from holdfast.base import Secret, now_us
from holdfast.http.asgi import Scope, header

COOKIE = "holdfast_reports"
SESSION_S = 12 * 3_600
PAGE_HEADER = "x-holdfast-page"
"""Sent by our own script with every change: another site's page cannot add it."""


class Session:
    """The cookies of one operator's token."""

    def __init__(self, token: Secret) -> None:
        self._token = token

    def begin(self, given: str) -> str | None:
        """The cookie's value for a person who knows the token; None for anybody else."""
        if not self._token or not self._token.matches(given):
            return None
        until = str(now_us() // 1_000_000 + SESSION_S)
        return f"{until}.{self._sign(until)}"

    def admits(self, scope: Scope) -> bool:
        """Whether the request brings a cookie of ours; a change has to come from our own script."""
        if scope["type"] != "http":
            return False
        if scope["method"] not in ("GET", "HEAD") and not header(scope, PAGE_HEADER):
            return False
        until, _, signature = _cookie(header(scope, "cookie")).partition(".")
        if not until.isdecimal() or not Secret(self._sign(until)).matches(signature):
            return False
        return int(until) > now_us() // 1_000_000

    def _sign(self, until: str) -> str:
        import hmac

        # The purpose is signed too: nothing else that is signed with the token can be taken for this.
        return hmac.digest(self._token.reveal().encode(), f"reports page:{until}".encode(), "sha256").hex()


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
