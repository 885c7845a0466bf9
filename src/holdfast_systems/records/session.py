"""The operator's session as the API takes it: the cookie counts only from our own script."""

from __future__ import annotations

from holdfast.http.asgi import Scope, header
from holdfast.http.sessions import Sessions

FROM_PAGE = "x-records-page"
"""A header that no form and no other site can send: with the cookie alone, nobody speaks as the operator."""


class Session(Sessions):
    """The sessions of the page."""

    async def speaks(self, scope: Scope) -> bool:
        """Whether the request comes from our page with a session of ours."""
        return bool(header(scope, FROM_PAGE)) and await self.holds(scope)
