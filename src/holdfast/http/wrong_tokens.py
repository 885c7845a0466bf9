"""The operator's token as requests bring it; wrong ones are counted by address, told, and refused when too many.

Always true: the right token comes in, from wherever and however many wrong ones came before it. An address is an IPv4
address or an IPv6 /64; its count is this process's own.
"""

from __future__ import annotations

import logging
from collections import OrderedDict
from threading import Lock

from holdfast.base import Secret, bus, monotonic_s
from holdfast.catalog.core import RATE_LIMIT_EXCEEDED
from holdfast.http.asgi import Scope, header
from holdfast.http.client_address import address_of, client_group

TRIES_MAX = 20
"""Maximum number of wrong tokens from one address in a minute; further ones get RATE_LIMIT_EXCEEDED."""
WINDOW_S = 60.0
ADDRESSES_MAX = 10_000
TOLD_MAX = 60
"""Maximum number of log lines about addresses in a minute; the last one stands for all that follow."""
WRONG, LIMITED = "token.wrong", "token.limited"

_log = logging.getLogger("holdfast.http")


class WrongTokens:
    """The wrong tokens of the last minute, by address. Threads may share it."""

    def __init__(self) -> None:
        self._seen: OrderedDict[str, tuple[float, int]] = OrderedDict()
        self._told_since_s, self._told = 0.0, 0
        self._lock = Lock()

    def note(self, scope: Scope) -> None:
        """A wrong token came with this request.

        Raises:
            Failure: RATE_LIMIT_EXCEEDED when too many came from its address.
        """
        group = client_group(address_of(scope, ()))
        with self._lock:
            since_s, count, now_s = *self._seen.pop(group, (0.0, 0)), monotonic_s()
            if count == 0 or now_s - since_s >= WINDOW_S:
                since_s, count = now_s, 0
            self._seen[group] = since_s, count + 1
            while len(self._seen) > ADDRESSES_MAX:
                self._seen.popitem(last=False)
            told = count in (0, TRIES_MAX) and self._may_tell(now_s)
        if told:
            _tell(group, LIMITED if count == TRIES_MAX else WRONG)
        if count >= TRIES_MAX:
            wait_s = max(1.0, since_s + WINDOW_S - now_s)
            raise RATE_LIMIT_EXCEEDED("Too many wrong tokens. Wait a minute.", retry_after_s=wait_s)

    def forget(self) -> None:
        """Begin again with none."""
        with self._lock:
            self._seen.clear()
            self._told_since_s, self._told = 0.0, 0

    def _may_tell(self, now_s: float) -> bool:
        if now_s - self._told_since_s >= WINDOW_S:
            self._told_since_s, self._told = now_s, 0
        self._told += 1
        if self._told == TOLD_MAX:
            _log.warning("wrong operator's tokens come from many addresses; further ones are not listed for a minute")
        return self._told < TOLD_MAX


WRONG_TOKENS = WrongTokens()
"""Those of this process, whatever door they came to."""


def let_in(scope: Scope, token: Secret) -> bool:
    """Whether the request brings the operator's token; for doors that know no other bearer.

    Raises:
        Failure: RATE_LIMIT_EXCEEDED for a wrong one after too many.
    """
    given = bearer(scope)
    return bool(given) and matches(scope, token, given)


def bears(scope: Scope, token: Secret) -> bool:
    """Whether the request brings this token; compared in constant time, and not counted when it is another."""
    given = bearer(scope)
    return bool(token) and bool(given) and token.matches(given)


def bearer(scope: Scope) -> str:
    """What the request brings as `Authorization: Bearer …`; empty when it brings nothing."""
    scheme, _, given = header(scope, "authorization").partition(" ")
    return given.strip() if scheme.lower() == "bearer" else ""


def matches(scope: Scope, token: Secret, given: str) -> bool:
    """Whether this is the operator's token, compared in constant time; a wrong one is counted, an empty one never it.

    Raises:
        Failure: RATE_LIMIT_EXCEEDED for a wrong one after too many.
    """
    if token and token.matches(given):
        return True
    if given:  # to say nothing is not to guess
        WRONG_TOKENS.note(scope)
    return False


def _tell(group: str, verb: str) -> None:
    what = "too many wrong operator's tokens came" if verb == LIMITED else "a wrong operator's token came"
    _log.warning("%s from %s", what, group)
    if bus.listeners:
        bus.tell(verb, address=group)
