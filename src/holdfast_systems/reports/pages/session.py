"""The operator's session as the API takes it: a change has to come from our own script."""

from __future__ import annotations

from holdfast.http.asgi import Scope, header
from holdfast.http.sessions import Sessions

PAGE_HEADER = "x-holdfast-page"
"""Sent by our own script with every change: another site's page cannot add it."""


class Session(Sessions):
    """The sessions of the page."""

    async def admits(self, scope: Scope) -> bool:
        """Whether the request brings a cookie of ours; a change has to come from our own script."""
        if scope["type"] != "http":
            return False
        if scope["method"] not in ("GET", "HEAD") and not header(scope, PAGE_HEADER):
            return False
        return await self.holds(scope)
