"""The one integration point: worker → gateway. What the gateway answers becomes XML or one of our failures."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass

from holdfast.base import CodecError, decode
from holdfast.catalog import CORE, RESPONSE_TOO_LARGE, Failure, StatusTable
from holdfast.guard import Link
from holdfast.http import ANYWHERE, HttpClient, Reply, Timeouts
from holdfast.policy import NEVER
from holdfast_systems.conversion.documents import unreadable
from holdfast_systems.conversion.faults import GW_4XX, GW_5XX, GW_TIMEOUT

HEALTH_S = 2.0
CONNECT_S = 5.0
ANSWER_CHARS_MAX = 120
"""A longer sentence of the gateway is not shown to anyone."""

BUSY_S = 5.0
"""How long a gateway is left alone that is busy and names no time."""
BUSY_S_MIN, BUSY_S_MAX = 0.5, 60.0

ABOUT_THE_FILE = (400, 406, 413, 415, 422)
"""With these the gateway speaks about the file or its mapping: its sentence is for the person."""
STATUSES = StatusTable(
    # Other 4xx speak about our own request: a wrong address, credentials that are missing, a place that is not free.
    # The person can do nothing about these, and the next file would meet the same.
    dict.fromkeys(ABOUT_THE_FILE, GW_4XX),
    {3: GW_5XX, 4: GW_5XX, 5: GW_5XX},
)
# One plain sentence: no path, no address, no markup, nothing that looks like a program's own words.
_SAFE = re.compile(r"[A-Z][A-Za-z0-9 ,’'()-]*\.?\Z")
TOO_MANY, UNAVAILABLE = 429, 503
_XML_TYPES = frozenset({"application/xml", "text/xml"})


@dataclass(frozen=True, slots=True)
class Busy:
    """The gateway is well and has no place for this conversion; ask again after this time."""

    status: int
    wait_s: float


class Gateway:
    """The converter, as workers call it; threads may share it. Retries are the job's, so one call is one attempt."""

    def __init__(self, address: Callable[[], str], *, timeout_s: float, result_bytes_max: int) -> None:
        """
        Args:
            address: where the gateway is; asked for each call, because one of our own is known when it has started.
        """
        self._address = address
        self._timeout_s = timeout_s
        self.link = Link("conversion → gateway", retry=NEVER)
        self._client = HttpClient(
            reach=ANYWHERE,
            timeouts=Timeouts(connect_s=min(CONNECT_S, timeout_s), read_s=timeout_s, total_s=timeout_s),
            body_bytes_max=result_bytes_max,
        ).sync

    def convert(self, pdf: bytes, mapping: str) -> bytes | Busy:
        """The XML of a PDF, unless the gateway has no place for it.

        Raises:
            Failure: GW_4XX, GW_5XX or GW_TIMEOUT.
        """
        return self.link.call(self._convert, pdf, mapping)

    def healthy(self) -> bool:
        """Whether the gateway says that it can work."""
        timeouts = Timeouts(connect_s=HEALTH_S, read_s=HEALTH_S, total_s=HEALTH_S)
        return self._client.send("GET", f"{self._address()}/health", timeouts=timeouts).ok

    def close(self) -> None:
        """Close every connection."""
        self._client.close()

    def _convert(self, pdf: bytes, mapping: str) -> bytes | Busy:
        try:
            reply = self._client.send(
                "POST",
                f"{self._address()}/convert?mapping={mapping}",
                body=pdf,
                headers={"content-type": "application/pdf", "accept": "application/xml"},
            )
        except Failure as failure:
            raise self._unanswered(failure) from failure
        busy = busy_of(reply)
        # A 429 speaks for itself; a 503 also comes from a gateway that is down.
        if busy is not None and (busy.status == TOO_MANY or self._is_healthy()):
            return busy
        return answered(reply)

    def _is_healthy(self) -> bool:
        try:
            return self.healthy()
        except Failure:
            return False

    def _unanswered(self, failure: Failure) -> Failure:
        """There was no answer, or none that can be accepted."""
        if failure.code == CORE["NETWORK_TIMEOUT"].code:
            return GW_TIMEOUT(timeout_s=self._timeout_s)
        if failure.code == RESPONSE_TOO_LARGE.code:
            return GW_4XX(upstream_status=200, answer="the XML is larger than allowed")
        return GW_5XX(reason=failure.code)


def busy_of(reply: Reply) -> Busy | None:
    """What a reply says about the gateway's load; None when it says nothing."""
    asked_s = reply.retry_after_s
    if reply.status != TOO_MANY and (reply.status != UNAVAILABLE or asked_s is None):
        return None
    return Busy(reply.status, min(BUSY_S_MAX, max(BUSY_S_MIN, BUSY_S if asked_s is None else asked_s)))


def answered(reply: Reply) -> bytes:
    """The XML that the gateway answered with.

    Raises:
        Failure: GW_4XX with the gateway's sentence where that is safe, GW_5XX with the time it asks to wait.
    """
    fault = STATUSES.fault(reply.status)
    if fault is GW_4XX:
        sentence = safe_sentence(reply.body)
        # Braces cannot be in it, so nothing in it is taken for the name of a detail.
        line = f"{GW_4XX.says} {sentence}" if sentence else None
        raise GW_4XX(line, upstream_status=reply.status, answer=sentence or "no sentence that can be shown")
    if fault is not None:
        raise GW_5XX(upstream_status=reply.status, reason=f"HTTP {reply.status}", retry_after_s=reply.retry_after_s)
    kind = reply.content_type
    reason = unreadable(reply.body) if kind in _XML_TYPES else f"an answer of type {kind or 'none'}"
    if reason:
        raise GW_5XX(upstream_status=reply.status, reason=reason)
    return reply.body


def safe_sentence(body: bytes) -> str:
    """What the gateway says about a refusal, if it is a short plain sentence; else nothing."""
    try:
        said = decode(body, bytes_max=16_384)
    except CodecError:
        return ""
    inner = said.get("error") if isinstance(said, dict) else None
    holder = inner if isinstance(inner, dict) else said if isinstance(said, dict) else {}
    sentence = holder.get("message")
    if not isinstance(sentence, str) or len(sentence) > ANSWER_CHARS_MAX or not _SAFE.match(sentence):
        return ""
    return sentence if sentence.endswith(".") else f"{sentence}."
