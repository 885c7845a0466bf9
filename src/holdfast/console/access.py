"""Who may come in, and whether a form is really theirs.

Four ways in: a session's cookie, `Authorization: Bearer …`, the header of a reverse proxy where one is configured, and
the one-time link, which works once and only for somebody on this machine. Everybody else reads nothing.
"""

from __future__ import annotations

from dataclasses import dataclass
from threading import Lock

from holdfast.base import Secret, world
from holdfast.catalog.core import FORBIDDEN, UNAUTHORIZED
from holdfast.http.asgi import Scope, header
from holdfast.http.origin import is_own, origin_of
from holdfast.http.sessions import Session, Sessions
from holdfast.http.this_machine import from_this_machine
from holdfast.http.wrong_tokens import let_in, matches
from holdfast.store import Store

OPERATOR = "operator"
WHO_CHARS_MAX = 100
LINK_BYTES = 24


@dataclass(frozen=True, slots=True, kw_only=True)
class Visitor:
    """Somebody who may come in."""

    who: str
    session: Session | None = None
    """None when there is no cookie."""
    csrf: str = ""
    bearer: bool = False
    """Whether the token itself came along: no other site can make a browser send that."""


class Access:
    """The door of one console. Threads may share it."""

    def __init__(self, store: Store, token: Secret, *, address: str, trusted_proxy_header: str | None = None) -> None:
        self.sessions = Sessions(store, token)
        self.secure = address.startswith("https:")
        self._origin = origin_of(address)
        self._token = token
        self._header = trusted_proxy_header.lower() if trusted_proxy_header else None
        self._link = Secret(world().token_bytes(LINK_BYTES).hex())
        self._link_used = False
        self._lock = Lock()

    @property
    def link_token(self) -> Secret:
        """What the one-time link carries."""
        return self._link

    async def visitor(self, scope: Scope) -> Visitor | None:
        """Who this is; None for somebody who may not come in.

        Raises:
            Failure: RATE_LIMIT_EXCEEDED for a wrong token after too many; or the database's own.
        """
        session = await self.sessions.found(scope)
        if session is not None:
            return Visitor(who=session.who, session=session, csrf=self.sessions.csrf(session.id))
        if let_in(scope, self._token):
            return Visitor(who=OPERATOR, bearer=True)
        who = header(scope, self._header).strip()[:WHO_CHARS_MAX] if self._header else ""
        return Visitor(who=who, csrf=self.sessions.csrf(f"proxy:{who}")) if who else None

    def enter_by_link(self, scope: Scope, given: str) -> str:
        """The cookie of the visitor that brings the link's token first.

        Raises:
            Failure: UNAUTHORIZED, because it is wrong or was used; FORBIDDEN to other machines.
        """
        if not from_this_machine(scope):
            raise FORBIDDEN("The link works only on the machine that printed it.")
        with self._lock:
            if self._link_used or not self._link.matches(given):
                raise UNAUTHORIZED("The link has been used already, or is not ours.")
            self._link_used = True
        return self.sessions.begin(OPERATOR)

    def enter_by_token(self, scope: Scope, given: str) -> str:
        """The cookie of a visitor that knows the token.

        Raises:
            Failure: UNAUTHORIZED; RATE_LIMIT_EXCEEDED after too many wrong ones from this address.
        """
        if not matches(scope, self._token, given):
            raise UNAUTHORIZED("This is not the token.")
        return self.sessions.begin(OPERATOR)

    def is_current(self, visitor: Visitor, given: str) -> bool:
        """Whether a form belongs to the session that sends it; the token itself needs no such word."""
        return visitor.bearer or Secret(visitor.csrf).matches(given)

    def is_own(self, scope: Scope) -> bool:
        """Whether a page of this very address asks."""
        return is_own(scope, self._origin)

    def check_origin(self, scope: Scope) -> None:
        """Let no page of another site ask.

        Raises:
            Failure: FORBIDDEN.
        """
        if not self.is_own(scope):
            raise FORBIDDEN("The request came from another site.")

    def newcomer(self, cookie: str) -> Visitor:
        """Who has just been given this cookie."""
        return Visitor(who=OPERATOR, csrf=self.sessions.csrf(cookie.partition(".")[0]))
