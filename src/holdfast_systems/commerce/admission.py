"""Who asks: operators, services, buyers and widgets, told apart before any of a body is read.

Always true: a caller with a tenant sees nothing of others; a foreign id is answered like an unknown one.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum

from holdfast.http.access import CHALLENGE
from holdfast.http.asgi import Scope, header
from holdfast.http.exchange import Exchange
from holdfast.http.origin import is_foreign
from holdfast.http.wrong_tokens import WRONG_TOKENS, bearer
from holdfast_systems.commerce.faults import NOT_ENTITLED
from holdfast_systems.commerce.tokens import Claims, TokenKind, Tokens

CALLER_KEY = "holdfast.commerce.caller"
COOKIE = "holdfast_commerce_buyer"
TENANT_CHARS_MAX = 200
NOBODY = "\0"
"""A tenant that nobody is: what cannot be the name of one narrows to nothing."""


class CallerKind(StrEnum):
    """What a caller has proven to be."""

    OPERATOR = "operator"
    SERVICE = "service"
    BUYER = "buyer"
    WIDGET = "widget"


@dataclass(frozen=True, slots=True, kw_only=True)
class Caller:
    """Who asks."""

    kind: CallerKind
    tenant: str = ""
    """Whose objects alone it may see; empty is everybody's."""
    claims: Claims | None = None
    """Of a buyer or a widget."""

    @property
    def name(self) -> str:
        """Whose idempotency keys these are; services and operators share theirs: either may repeat a request."""
        return self.tenant or "platform"

    def sees(self, tenant: str) -> bool:
        """Whether an object of this tenant exists for the caller."""
        return not self.tenant or self.tenant == tenant


TRUSTED = frozenset({CallerKind.OPERATOR, CallerKind.SERVICE})


class Admission:
    """The `access=` of a service's edge."""

    def __init__(
        self,
        tokens: Tokens,
        *,
        kinds: Callable[[Scope], frozenset[CallerKind]] = lambda _: TRUSTED,
        public: Callable[[Scope], bool] = lambda _: False,
        origin: str = "",
    ) -> None:
        """
        Args:
            kinds: the callers that a request is for.
            public: which requests are for everybody; they have no caller.
            origin: the site whose own pages may change things with a buyer's cookie, where a proxy stands before it.
        """
        self._tokens = tokens
        self._origin = origin
        self._kinds = kinds
        self._public = public

    async def check(self, exchange: Exchange) -> None:
        """Let the request pass, with its caller in the scope.

        Raises:
            Failure: UNAUTHORIZED without a valid token, NOT_ENTITLED with one of another kind, RATE_LIMITED after
                too many wrong ones from one address.
        """
        scope = exchange.scope
        if self._public(scope):
            return
        caller = self.caller(scope)
        if caller is None:
            exchange.headers.append(CHALLENGE)
            if bearer(scope):
                WRONG_TOKENS.note(scope)
            raise exchange.voice.fault("UNAUTHORIZED").occur()
        if caller.kind not in self._kinds(scope) or self._is_forged(scope):
            raise NOT_ENTITLED()
        scope[CALLER_KEY] = caller

    def _is_forged(self, scope: Scope) -> bool:
        """Whether a page of another site wants to change something with the buyer's cookie."""
        by_cookie = not bearer(scope) and scope["method"] not in ("GET", "HEAD")
        return by_cookie and is_foreign(scope, self._origin)

    def caller(self, scope: Scope) -> Caller | None:
        """Who sends the request; None without a token in force."""
        given = bearer(scope)
        said = header(scope, "x-tenant")
        narrowed = said if len(said) <= TENANT_CHARS_MAX else NOBODY
        if given and self._tokens.operator and self._tokens.operator.matches(given):
            return Caller(kind=CallerKind.OPERATOR, tenant=narrowed)
        if given and self._tokens.service.matches(given):
            return Caller(kind=CallerKind.SERVICE, tenant=narrowed)
        for text, token, kind in (
            (given or cookie(scope), TokenKind.BUYER, CallerKind.BUYER),
            (given, TokenKind.WIDGET, CallerKind.WIDGET),
        ):
            claims = self._tokens.read(text, token) if text else None
            if claims is not None:
                return Caller(kind=kind, tenant=claims.tenant, claims=claims)
        return None


def caller_of(scope: Scope) -> Caller:
    """The caller of a request that was admitted."""
    caller: Caller = scope[CALLER_KEY]
    return caller


def cookie(scope: Scope) -> str:
    """The buyer's token in the cookie; empty without one."""
    for part in header(scope, "cookie").split(";"):
        name, _, value = part.strip().partition("=")
        if name == COOKIE:
            return value
    return ""
