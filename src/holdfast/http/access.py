"""Who may come in: the API key of a request, and whose it is.

Always true: the edge asks before it reads any of the body.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Protocol, runtime_checkable

from holdfast.base.arguments import function, refused
from holdfast.http.arrival import add_known
from holdfast.http.asgi import Scope, header
from holdfast.http.aside import aside
from holdfast.http.exchange import Exchange

if TYPE_CHECKING:
    from holdfast.http.keys import ApiKey, ApiKeys

IDENTITY_KEY = "holdfast.api_key"
CHALLENGE = (b"www-authenticate", b"Bearer")


@runtime_checkable
class AccessRule(Protocol):
    """What an edge asks before it reads a request."""

    async def check(self, exchange: Exchange) -> None:
        """Let the request pass, or raise the failure that refuses it."""
        ...


def identity(scope: Scope) -> ApiKey | None:
    """The API key that the edge has found in order, for handlers and limits."""
    known: ApiKey | None = scope.get(IDENTITY_KEY)
    return known


class Access:
    """Asks every request for an API key, except those that are public."""

    def __init__(self, keys: ApiKeys, *, public: Callable[[Scope], bool] | None = None) -> None:
        if not hasattr(keys, "remembered"):
            raise refused("keys", keys, "write Access(ApiKeys(store))")
        function("public", public, "give a function of the scope: public=lambda scope: scope['path'] == '/docs'")
        self._keys = keys
        self._public = public

    async def check(self, exchange: Exchange) -> None:
        """Let the request pass, with its key in the scope and in the context.

        Raises:
            Failure: UNAUTHORIZED without a key, INVALID_API_KEY, API_KEY_EXPIRED; or the database's own.
        """
        scope = exchange.scope
        if self._public is not None and self._public(scope):
            return
        given = _given(scope)
        if not given:
            exchange.headers.append(CHALLENGE)
            raise exchange.voice.fault("UNAUTHORIZED").occur()
        known = self._keys.remembered(given)
        if known is None:
            known = await aside(lambda: self._keys.look(given))
        if known.refusal is not None:
            exchange.headers.append(CHALLENGE)
            raise known.refusal()
        assert known.key is not None
        scope[IDENTITY_KEY] = known.key
        add_known(scope, api_key_id=f"{known.key.prefix}***", account_id=known.key.tenant)


def _given(scope: Scope) -> str:
    scheme, _, rest = header(scope, "authorization").partition(" ")
    if scheme.lower() == "bearer":
        return rest.strip()
    return header(scope, "x-api-key").strip()
