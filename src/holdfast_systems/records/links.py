"""Where this system calls others: two verifiers of e-mail addresses, and the websites of companies.

One call is one attempt: the job that makes it decides whether there is another.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Protocol
from urllib.parse import urlencode

from holdfast.base import Secret
from holdfast.catalog import CORE, Failure
from holdfast.guard import Link
from holdfast.http import ANYWHERE, HttpClient, Reply, Timeouts
from holdfast.policy import NEVER, Breaker
from holdfast_systems.records.faults import (
    EXTERNAL_SERVICE_ERROR,
    EXTERNAL_SERVICE_TIMEOUT,
    PROVIDER_REFUSES_US,
)
from holdfast_systems.records.verdicts import Verdict, millionverifier_verdict, zerobounce_verdict

MILLIONVERIFIER = "millionverifier"
ZEROBOUNCE = "zerobounce"
MILLIONVERIFIER_URL = "https://api.millionverifier.com"
ZEROBOUNCE_URL = "https://api.zerobounce.net"
LINKS = {MILLIONVERIFIER: "records → millionverifier", ZEROBOUNCE: "records → zerobounce"}
"""The names of the links, by which alerts and switches know them."""
CONNECT_S = 5.0
ANSWER_BYTES_MAX = 65_536


class Verifier(Protocol):
    """Somebody who can tell whether an e-mail address receives mail."""

    @property
    def name(self) -> str:
        """The provider, as callers read it."""
        ...

    def verify(self, email: str) -> Verdict:
        """What the provider says about the address.

        Raises:
            Failure: EXTERNAL_SERVICE_TIMEOUT, EXTERNAL_SERVICE_ERROR, PROVIDER_REFUSES_US; BREAKER_OPEN.
        """
        ...


class HttpVerifier:
    """A provider that is asked by GET and answers with JSON. Threads may share it."""

    def __init__(
        self,
        name: str,
        address: str,
        *,
        path: str,
        query: Callable[[str], Mapping[str, str]],
        read: Callable[[Mapping[str, Any]], Verdict],
        timeout_s: float,
    ) -> None:
        """
        Args:
            query: the parameters of the question about an address; they may hold the provider's key.
            read: what the answer says; it raises what the provider refuses.
        """
        self.name = name
        self.link = Link(LINKS[name], retry=NEVER, breaker=Breaker())
        self._address = f"{address.rstrip('/')}{path}"
        self._query = query
        self._read = read
        self._client = HttpClient(
            reach=ANYWHERE,
            timeouts=Timeouts(connect_s=min(CONNECT_S, timeout_s), read_s=timeout_s, total_s=timeout_s),
            body_bytes_max=ANSWER_BYTES_MAX,
        ).sync

    def verify(self, email: str) -> Verdict:
        """What the provider says about the address, in one attempt."""
        return self.link.call(self._ask, email)

    def close(self) -> None:
        """Close every connection."""
        self._client.close()

    def _ask(self, email: str) -> Verdict:
        try:
            reply = self._client.send("GET", f"{self._address}?{urlencode(self._query(email))}")
        except Failure as failure:
            raise self._unanswered(failure) from failure
        self._check(reply)
        try:
            answer = reply.json()
        except Failure as unreadable:
            raise EXTERNAL_SERVICE_ERROR(**self._facts("unreadable_answer")) from unreadable
        if not isinstance(answer, dict):
            raise EXTERNAL_SERVICE_ERROR(**self._facts("unreadable_answer"))
        return self._read(answer)

    def _check(self, reply: Reply) -> None:
        if reply.status in (401, 402, 403):
            raise PROVIDER_REFUSES_US(provider=self.name, provider_error=f"http_{reply.status}")
        if not reply.ok:
            reason = "rate_limited" if reply.status == 429 else f"http_{reply.status}"
            raise EXTERNAL_SERVICE_ERROR(**self._facts(reason))

    def _unanswered(self, failure: Failure) -> Failure:
        if failure.code in (CORE["NETWORK_TIMEOUT"].code, CORE["DEADLINE_EXCEEDED"].code):
            return EXTERNAL_SERVICE_TIMEOUT(**self._facts("timeout"))
        return EXTERNAL_SERVICE_ERROR(**self._facts(failure.code.lower()))

    def _facts(self, reason: str) -> dict[str, Any]:
        return {"external_service": self.name, "reason": reason, "retry_recommended": True}


def millionverifier(address: str, key: Secret, *, timeout_s: float) -> HttpVerifier:
    """MillionVerifier's single API, version 3."""
    seconds = str(max(2, min(60, round(timeout_s))))
    return HttpVerifier(
        MILLIONVERIFIER,
        address or MILLIONVERIFIER_URL,
        path="/api/v3/",
        query=lambda email: {"api": key.reveal(), "email": email, "timeout": seconds},
        read=millionverifier_verdict,
        timeout_s=timeout_s,
    )


def zerobounce(address: str, key: Secret, *, timeout_s: float) -> HttpVerifier:
    """ZeroBounce's API, version 2."""
    return HttpVerifier(
        ZEROBOUNCE,
        address or ZEROBOUNCE_URL,
        path="/v2/validate",
        query=lambda email: {"api_key": key.reveal(), "email": email, "ip_address": ""},
        read=zerobounce_verdict,
        timeout_s=timeout_s,
    )
