"""Sessions: a signed cookie that says who somebody is and until when.

Always true: nobody without the operator's token can make one, and a new token ends all of them. Nothing is stored, so
every process behind the same address knows the same sessions; a process that is told to end one forgets it no more.
"""

from __future__ import annotations

import hmac
from dataclasses import dataclass
from threading import Lock

from holdfast.base import Secret, now_us, world

SESSION_S = 12 * 3_600
COOKIE = "holdfast_console"
ENDED_MAX = 10_000
"""So many sessions that somebody left are remembered."""
CHANCE_BYTES = 16


@dataclass(frozen=True, slots=True)
class Session:
    """Somebody who has come in."""

    id: str
    who: str
    until_s: int


class Sessions:
    """Makes and reads the cookies of one operator's token. Threads may share it."""

    def __init__(self, token: Secret) -> None:
        # A key of its own: what is signed here can never be taken for anything else signed with the token.
        self._key = hmac.digest(token.reveal().encode(), b"holdfast console session", "sha256")
        self._ended: dict[str, None] = {}
        self._lock = Lock()

    def begin(self, who: str) -> str:
        """The value of a new cookie."""
        identifier = world().token_bytes(CHANCE_BYTES).hex()
        said = f"{identifier}.{now_us() // 1_000_000 + SESSION_S}.{who.encode().hex()}"
        return f"{said}.{self._sign('session', said)}"

    def read(self, cookie: str) -> Session | None:
        """The session that a cookie stands for; None when it is not ours, has been changed, is over or was ended."""
        said, _, signature = cookie.rpartition(".")
        if not hmac.compare_digest(self._sign("session", said).encode(), signature.encode()):
            return None
        identifier, until, who = said.split(".")
        session = Session(identifier, bytes.fromhex(who).decode(), int(until))
        return None if session.until_s <= now_us() // 1_000_000 or session.id in self._ended else session

    def end(self, session_id: str) -> None:
        """Accept this session no more."""
        with self._lock:
            self._ended[session_id] = None
            while len(self._ended) > ENDED_MAX:
                del self._ended[next(iter(self._ended))]

    def csrf(self, session_id: str) -> str:
        """What a form of this session has to bring along."""
        return self._sign("csrf", session_id)

    def _sign(self, purpose: str, text: str) -> str:
        return hmac.digest(self._key, f"{purpose}:{text}".encode("utf-8", "surrogatepass"), "sha256").hex()


def cookie_of(header: str) -> str:
    """Our cookie's value in a Cookie header; empty when it is not there."""
    for part in header.split(";"):
        name, _, value = part.strip().partition("=")
        if name == COOKIE:
            return value
    return ""


def set_cookie(value: str, *, path: str, secure: bool, seconds: int = SESSION_S) -> str:
    """The Set-Cookie header; no seconds take the cookie away."""
    guarded = f"{COOKIE}={value}; Path={path or '/'}; Max-Age={seconds}; HttpOnly; SameSite=Strict"
    return f"{guarded}; Secure" if secure else guarded
