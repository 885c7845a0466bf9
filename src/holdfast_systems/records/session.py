"""Signing in to the page: the operator's token is exchanged for a cookie, which counts only from our own script."""

from __future__ import annotations

from holdfast.base import Secret
from holdfast.http.asgi import Scope, header
from holdfast.http.sessions import Sessions
from holdfast.store import Store

COOKIE = "holdfast_records"
FROM_PAGE = "x-records-page"
"""A header that no form and no other site can send: with the cookie alone, nobody speaks as the operator."""


class Session(Sessions):
    """The sessions of the page."""

    def __init__(self, store: Store, token: Secret) -> None:
        super().__init__(store, token, cookie=COOKIE)

    async def speaks(self, scope: Scope) -> bool:
        """Whether the request comes from our page with a session of ours."""
        return bool(header(scope, FROM_PAGE)) and await self.holds(scope)
