"""Sessions of operators: a signed cookie that says who an operator is and until when.

One session is for the console and for the pages of all systems of one token: an operator who has signed in to one of
them need not sign in to the next, and signs out of all.

Always true: nobody without the operator's token can make one, and a new token ends all of them. Signing out ends the
session in the store, for every process and for good: a cookie that was copied before is worth nothing.
"""

from __future__ import annotations

import hmac
from dataclasses import dataclass
from typing import TYPE_CHECKING

from holdfast.base import Secret, now_us, world
from holdfast.http.asgi import Scope, header
from holdfast.http.aside import aside
from holdfast.http.wrong_tokens import matches

if TYPE_CHECKING:
    from holdfast.store import Store, Tx

OPERATOR = "operator"
COOKIE = "holdfast_session"
SESSION_S = 12 * 3_600
CHANCE_BYTES = 16


@dataclass(frozen=True, slots=True)
class Session:
    """An operator who has signed in."""

    id: str
    who: str
    until_s: int


class Sessions:
    """Makes and reads the cookies of one operator's token. Threads may share it."""

    def __init__(self, store: Store, token: Secret) -> None:
        self._store = store
        self._token = token
        # A key of its own: what is signed here can never be taken for anything else signed with the token.
        self._key = hmac.digest(token.reveal().encode(), b"holdfast session", "sha256")

    def begin(self, who: str) -> str:
        """The value of a new cookie."""
        identifier = world().token_bytes(CHANCE_BYTES).hex()
        said = f"{identifier}.{now_us() // 1_000_000 + SESSION_S}.{who.encode().hex()}"
        return f"{said}.{self._sign('session', said)}"

    def enter(self, scope: Scope, given: str) -> str | None:
        """The value of a new cookie for a client that knows the token; None for a wrong one, which is counted.

        Raises:
            Failure: RATE_LIMIT_EXCEEDED after too many wrong ones from this address.
        """
        return self.begin(OPERATOR) if matches(scope, self._token, given) else None

    async def found(self, scope: Scope) -> Session | None:
        """The session of a request; None when it has none of ours, or one that is over or was ended.

        Raises:
            Failure: the database's own.
        """
        # Only what we have signed is worth a question to the database.
        return None if self.signed(scope) is None else await aside(lambda: self.read(scope))

    async def holds(self, scope: Scope) -> bool:
        """Whether the request has a session of ours that is neither over nor ended.

        Raises:
            Failure: the database's own.
        """
        return await self.found(scope) is not None

    async def leave(self, scope: Scope) -> None:
        """End the session of the request, if it has one.

        Raises:
            Failure: the database's own.
        """
        session = self.signed(scope)
        if session is not None:
            await aside(lambda: self.end(session))

    def signed(self, scope: Scope) -> Session | None:
        """The session of a request, by its signature and its time alone: whether it was ended is for `read` to say."""
        said, _, signature = self._value(header(scope, "cookie")).rpartition(".")
        if not hmac.compare_digest(self._sign("session", said).encode(), signature.encode()):
            return None
        identifier, until, who = said.split(".")
        session = Session(identifier, bytes.fromhex(who).decode(), int(until))
        return None if session.until_s <= now_us() // 1_000_000 else session

    def read(self, scope: Scope) -> Session | None:
        """The session of a request; None when it is not ours, has been changed, is over or was ended. Blocks.

        Raises:
            Failure: the database's own.
        """
        session = self.signed(scope)
        if session is None:
            return None
        ended = self._store.atomic(lambda tx: tx.row("session.ended", id=session.id), write=False)
        return None if ended else session

    def end(self, session: Session) -> None:
        """Accept this session no more, in no process. Blocks.

        Raises:
            Failure: the database's own.
        """

        def phase(tx: Tx) -> None:
            tx.run("session.prune")
            tx.run("session.end", id=session.id, until_us=session.until_s * 1_000_000)

        self._store.atomic(phase, repeatable=True)

    def csrf(self, session_id: str) -> str:
        """What a form of this session has to bring along."""
        return self._sign("csrf", session_id)

    def set_cookie(self, value: str, *, secure: bool) -> str:
        """The Set-Cookie header, for everything at this host; an empty value takes the cookie away."""
        seconds = SESSION_S if value else 0
        guarded = f"{COOKIE}={value}; Path=/; Max-Age={seconds}; HttpOnly; SameSite=Strict"
        return f"{guarded}; Secure" if secure else guarded

    def _value(self, cookies: str) -> str:
        for part in cookies.split(";"):
            name, _, value = part.strip().partition("=")
            if name == COOKIE:
                return value
        return ""

    def _sign(self, purpose: str, text: str) -> str:
        return hmac.digest(self._key, f"{purpose}:{text}".encode("utf-8", "surrogatepass"), "sha256").hex()
