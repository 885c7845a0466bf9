"""Who may come in, and whether a form is really theirs.

Four ways in: a session's cookie, `Authorization: Bearer …`, the header of a reverse proxy where one is configured, and
the one-time link, which works once and only for somebody on this machine. Everybody else reads nothing.
"""

from __future__ import annotations

from dataclasses import dataclass
from threading import Lock

from holdfast.base import Secret, monotonic_s, world
from holdfast.catalog.core import FORBIDDEN, RATE_LIMIT_EXCEEDED, UNAUTHORIZED
from holdfast.console.sessions import Sessions, cookie_of
from holdfast.http.asgi import Scope, header
from holdfast.http.operator import bears
from holdfast.http.origin import is_own, origin_of
from holdfast.http.this_machine import from_this_machine

OPERATOR = "operator"
WHO_CHARS_MAX = 100
GUESSES_MAX = 20
"""So many wrong tokens are taken in a minute; then nobody may try."""
GUESSES_WINDOW_S = 60.0
LINK_BYTES = 24


@dataclass(frozen=True, slots=True, kw_only=True)
class Visitor:
    """Somebody who may come in."""

    who: str
    session_id: str = ""
    """Empty when there is no cookie."""
    csrf: str = ""
    bearer: bool = False
    """Whether the token itself came along: no other site can make a browser send that."""


class Access:
    """The door of one console. Threads may share it."""

    def __init__(self, token: Secret, *, address: str, trusted_proxy_header: str | None = None) -> None:
        self.sessions = Sessions(token)
        self.secure = address.startswith("https:")
        self._origin = origin_of(address)
        self._token = token
        self._header = trusted_proxy_header.lower() if trusted_proxy_header else None
        self._link = Secret(world().token_bytes(LINK_BYTES).hex())
        self._link_used = False
        self._guesses: list[float] = []
        self._lock = Lock()

    @property
    def link_token(self) -> Secret:
        """What the one-time link carries."""
        return self._link

    def visitor(self, scope: Scope) -> Visitor | None:
        """Who this is; None for somebody who may not come in."""
        session = self.sessions.read(cookie_of(header(scope, "cookie")))
        if session is not None:
            return Visitor(who=session.who, session_id=session.id, csrf=self.sessions.csrf(session.id))
        if bears(scope, self._token):
            return Visitor(who=OPERATOR, bearer=True)
        who = header(scope, self._header).strip()[:WHO_CHARS_MAX] if self._header else ""
        return Visitor(who=who, csrf=self.sessions.csrf(f"proxy:{who}")) if who else None

    def enter_by_link(self, scope: Scope, given: str) -> str:
        """The cookie of whoever brings the link's token first.

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

    def enter_by_token(self, given: str) -> str:
        """The cookie of whoever knows the token.

        Raises:
            Failure: UNAUTHORIZED; RATE_LIMIT_EXCEEDED after too many wrong ones.
        """
        now_s = monotonic_s()
        with self._lock:
            self._guesses = [at_s for at_s in self._guesses if now_s - at_s < GUESSES_WINDOW_S]
            if len(self._guesses) >= GUESSES_MAX:
                wait_s = max(1.0, self._guesses[0] + GUESSES_WINDOW_S - now_s)
                raise RATE_LIMIT_EXCEEDED("Too many wrong tokens. Wait a minute.", retry_after_s=wait_s)
            if not self._token.matches(given):
                self._guesses.append(now_s)
                raise UNAUTHORIZED("This is not the token.")
        return self.sessions.begin(OPERATOR)

    def check_form(self, scope: Scope, visitor: Visitor, given: str) -> None:
        """Whether a form was sent by one of our own pages.

        Raises:
            Failure: FORBIDDEN.
        """
        if visitor.bearer:
            return
        self.check_origin(scope)
        if not Secret(visitor.csrf).matches(given):
            raise FORBIDDEN("The form is too old, or not ours. Go back, load the page again and repeat.")

    def check_origin(self, scope: Scope) -> None:
        """Whether a page of this very address asks.

        Raises:
            Failure: FORBIDDEN.
        """
        if not is_own(scope, self._origin):
            raise FORBIDDEN("The request came from another site.")
