"""Signing in to the page: the operator's token is exchanged for a cookie; a change has to come from our own script."""

from __future__ import annotations

from holdfast.base import Secret
from holdfast.http.asgi import Scope, header
from holdfast.http.sessions import Sessions
from holdfast.store import Store

COOKIE = "holdfast_reports"
PAGE_HEADER = "x-holdfast-page"
"""Sent by our own script with every change: another site's page cannot add it."""


class Session(Sessions):
    """The sessions of the page."""

    def __init__(self, store: Store, token: Secret) -> None:
        super().__init__(store, token, cookie=COOKIE)

    async def admits(self, scope: Scope) -> bool:
        """Whether the request brings a cookie of ours; a change has to come from our own script."""
        if scope["type"] != "http":
            return False
        if scope["method"] not in ("GET", "HEAD") and not header(scope, PAGE_HEADER):
            return False
        return await self.holds(scope)
