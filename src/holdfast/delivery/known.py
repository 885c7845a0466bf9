"""Endpoints as this process saw them last: a delivery need not ask the database who it is for."""

from __future__ import annotations

import threading
from collections.abc import Mapping
from dataclasses import dataclass, field

from holdfast.base import monotonic_s
from holdfast.delivery.endpoint import Endpoint
from holdfast.delivery.endpoints import BREAKER, show
from holdfast.delivery.signing import HeaderPair, SecretInvalid, Sign, Signer, signing
from holdfast.store import Tx

CONTENT_TYPE = ("Content-Type", "application/json")
AGENT = ("User-Agent", "holdfast")
TRACE = "traceparent"

FRESH_S = 1.0
"""A change made elsewhere is seen within this time."""
KNOWN_MAX = 10_000


@dataclass(frozen=True, slots=True)
class Known:
    """An endpoint, whether its breaker lets everything through, and what each request to it begins with."""

    endpoint: Endpoint
    closed: bool
    sign: Sign | None = field(repr=False)
    """Signs with the secrets in force; None when there are none that its scheme can use."""
    headers: tuple[HeaderPair, ...] = field(repr=False)
    """Those that are the same for every event, the endpoint's own among them."""
    traced: bool = True
    """Whether requests carry the trace they belong to; not where the endpoint has a header of that name itself."""


class KnownEndpoints:
    """What was read a moment ago. Threads may share it."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._known: dict[str, tuple[Known, float]] = {}

    def get(self, endpoint_id: str) -> Known | None:
        """What is known and fresh; None asks the caller to read it. While one reads, others go on with what was."""
        with self._lock:
            held = self._known.get(endpoint_id)
            if held is None:
                return None
            known, read_s = held
            if abs(monotonic_s() - read_s) < FRESH_S:
                return known
            self._known[endpoint_id] = (known, monotonic_s())
            return None

    def keep(self, known: Known) -> Known:
        """This was read just now."""
        with self._lock:
            if len(self._known) >= KNOWN_MAX:
                self._known.clear()
            self._known[known.endpoint.id] = (known, monotonic_s())
        return known

    def forget(self, endpoint_id: str) -> None:
        """It has changed: the next one reads it."""
        with self._lock:
            self._known.pop(endpoint_id, None)


def look(tx: Tx, endpoint_id: str, schemes: Mapping[str, Signer]) -> Known:
    """Read an endpoint.

    Raises:
        Failure: ENDPOINT_NOT_FOUND.
    """
    breaker = tx.row("delivery.breaker", name=BREAKER + endpoint_id)
    endpoint = show(tx, endpoint_id)
    return Known(
        endpoint,
        closed=breaker is None or breaker[0] == "closed",
        sign=_sign(endpoint, schemes.get(endpoint.scheme)),
        headers=(CONTENT_TYPE, AGENT, *((name, value.reveal()) for name, value in endpoint.headers.items())),
        traced=TRACE not in {name.lower() for name in endpoint.headers},
    )


def _sign(endpoint: Endpoint, signer: Signer | None) -> Sign | None:
    if signer is None:
        return None
    try:
        return signing(signer, tuple(held.secret for held in endpoint.secrets))
    except SecretInvalid:
        return None
