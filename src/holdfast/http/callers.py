"""Whose request it is: the caller that an idempotency key belongs to.

Always true: a stored response is given only to the caller whose request made it. A function that names the caller
has to prove it, because a replay is answered before the application runs.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING

from holdfast.base import Secret, digest
from holdfast.guard.request import NAME_CHARS_MAX
from holdfast.http.access import identity
from holdfast.http.asgi import Scope
from holdfast.http.asgi import header as header_of
from holdfast.http.aside import loop_runs

if TYPE_CHECKING:
    from holdfast.http.idempotent import Idempotency

Caller = Callable[[Scope], str | Awaitable[str | None] | None]
"""Names the caller of a request, such as a user's id, or None where it is not known; may be a coroutine function."""

ANONYMOUS = ""
"""The one caller of a rule that tells none apart."""
DIGEST_CHARS = 40


def credentials_digest(
    *, header: str = "authorization", cookie: str | None = None, key: Secret | None = None
) -> Callable[[Scope], str | None]:
    """Know callers by a digest of the credentials that they send: requests with the same ones are of the same caller.

    A refreshed token or a new session counts as another caller: a request that is repeated with it is carried out
    again. Where tokens change while clients retry, name the user with a function of your own.

    Args:
        header: the header with the credentials.
        cookie: the name of a cookie to read in its place.
        key: mixed into the digest; needed where the credentials can be guessed, as passwords can.
    """

    def caller(scope: Scope) -> str | None:
        given = header_of(scope, header) if cookie is None else _cookie(scope, cookie)
        return f"credentials:{_digested(given, key)}" if given else None

    return caller


async def caller_of(rule: Idempotency, scope: Scope) -> str | None:
    """The caller that a key of this request belongs to; None when it is not known.

    Raises:
        TypeError: the rule's function waits, and there is no event loop.
    """
    if rule.anonymous:
        return ANONYMOUS
    if rule.caller is None:
        return _by_api_key(scope)
    named = rule.caller(scope)
    if named is not None and not isinstance(named, str):
        if not loop_runs():
            raise TypeError("caller= is a coroutine function; behind WSGI it has to be a plain one")
        named = await named
    if not named:
        return None
    return named if len(named) <= NAME_CHARS_MAX and named.isprintable() else digest(named)


def _by_api_key(scope: Scope) -> str | None:
    """The tenant of the API key, whose keys may change; a key without a tenant speaks for itself alone."""
    known = identity(scope)
    if known is None:
        return None
    return known.tenant or f"api_key:{known.id}"


def _digested(given: str, key: Secret | None) -> str:
    import hashlib
    import hmac

    said = given.encode("latin-1", "replace")
    if key is None:
        return hashlib.sha256(said).hexdigest()[:DIGEST_CHARS]
    return hmac.digest(key.reveal().encode(), said, "sha256").hex()[:DIGEST_CHARS]


def _cookie(scope: Scope, name: str) -> str:
    for part in header_of(scope, "cookie").replace(", ", "; ").split(";"):
        found, _, value = part.strip().partition("=")
        if found == name:
            return value
    return ""
