"""Tokens of services, buyers and widgets.

Always true: a token of a buyer or a widget is signed, says whose it is and until when, and is of no use where another
kind is asked for. All of them are signed with keys derived from the service token, so that services that share that
one setting understand each other without sharing a database.
"""

from __future__ import annotations

import hmac
from base64 import urlsafe_b64decode, urlsafe_b64encode
from dataclasses import dataclass
from enum import StrEnum

from holdfast.base import CodecError, Secret, decode, encode, now_us
from holdfast.http.system import Ground
from holdfast.store.shared_secret import shared_secret
from holdfast_systems.commerce.settings import Settings

SERVICE_SECRET = "commerce:service"  # noqa: S105 - the name of a secret
CHARS_MAX = 2_000
BUYER_S = 12 * 3_600.0
WIDGET_S = 3_600.0
TICKET_S = 300.0


class TokenKind(StrEnum):
    """What a signed token is good for."""

    BUYER = "buyer"
    WIDGET = "widget"
    TICKET = "ticket"


@dataclass(frozen=True, slots=True, kw_only=True)
class Claims:
    """What a signed token says."""

    kind: TokenKind
    tenant: str
    expires_us: int
    instance: str = ""
    """Of a widget: the one instance that it speaks to."""
    user: str = ""
    """Of a widget: who chats."""
    id: str = ""
    """Of a ticket: what makes it good for one use."""


class Tokens:
    """Makes and reads tokens. Threads may share it."""

    def __init__(self, *, operator: Secret, service: Secret) -> None:
        self.operator = operator
        self.service = service
        # Keys of their own: what is signed for one purpose is never valid for another.
        self._keys = {kind: self.derived(f"token:{kind}") for kind in TokenKind}

    def derived(self, purpose: str) -> Secret:
        """A secret of its own for one purpose, the same in every process that has the service token."""
        mixed = hmac.digest(self.service.reveal().encode(), f"holdfast commerce {purpose}".encode(), "sha256")
        return Secret(mixed.hex())

    def headers(self, tenant: str = "") -> dict[str, str]:
        """What a service sends to another; a tenant narrows what the callee may see."""
        own = {"authorization": f"Bearer {self.service.reveal()}"}
        return {**own, "x-tenant": tenant} if tenant else own

    def sign(
        self, kind: TokenKind, tenant: str, *, lasting_s: float, instance: str = "", user: str = "", ticket: str = ""
    ) -> str:
        """A token that is valid for `lasting_s` seconds."""
        said = [tenant, now_us() + round(lasting_s * 1e6), instance, user, ticket]
        body = urlsafe_b64encode(encode(said).encode()).decode().rstrip("=")
        return f"{kind}.{body}.{self._mark(kind, body)}"

    def read(self, text: str, kind: TokenKind) -> Claims | None:
        """What a token of this kind says; None when it is not ours, was changed, or is over."""
        named, _, rest = text.partition(".")
        body, _, mark = rest.partition(".")
        if named != kind or len(text) > CHARS_MAX or not Secret(self._mark(kind, body)).matches(mark):
            return None
        try:
            tenant, expires_us, instance, user, ticket = decode(urlsafe_b64decode(body + "=" * (-len(body) % 4)))
        except (ValueError, TypeError, CodecError):
            return None
        if int(expires_us) <= now_us():
            return None
        return Claims(
            kind=kind,
            tenant=str(tenant),
            expires_us=int(expires_us),
            instance=str(instance),
            user=str(user),
            id=str(ticket),
        )

    def _mark(self, kind: TokenKind, body: str) -> str:
        key = self._keys[kind].reveal().encode()
        return hmac.digest(key, body.encode("utf-8", "surrogatepass"), "sha256").hex()


def tokens_of(ground: Ground, settings: Settings) -> Tokens:
    """The tokens of this installation: by the setting, or by a secret that the processes of one database share."""
    service = settings.service_token or shared_secret(ground.store, SERVICE_SECRET)
    return Tokens(operator=ground.token, service=service)
