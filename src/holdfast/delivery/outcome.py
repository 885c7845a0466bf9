"""What an attempt came to, by the tables of the seed: delivered, try again and when, or never. Pure.

| answer | outcome |
|---|---|
| 2xx | delivered |
| 3xx | final; never followed |
| 408, 425 | again |
| 410 | final, and the endpoint is disabled |
| 429 | again, and no attempt is spent; after Retry-After up to a ceiling, without one after a minute |
| 503 | again, after Retry-After up to a ceiling |
| other 4xx | final |
| other 5xx | again |
| refused, name not found, timeout, reset | again |
| TLS | final |
"""

from __future__ import annotations

from holdfast.base import plain
from holdfast.catalog import HTTP_STATUSES, Classifier, Failure, classify_status, core
from holdfast.delivery.endpoint import Endpoint
from holdfast.delivery.exchange import BODY_SHOWN_BYTES, Reply
from holdfast.delivery.faults import REDIRECTED
from holdfast.delivery.pace import PAUSE_S_MIN
from holdfast.worker.settlement import ASKED_S, UNSPENT_S

RATE_LIMITED_S = 60.0
"""How long a 429 without a readable Retry-After is waited for."""
ASKING = frozenset({429, 503})
"""The statuses whose Retry-After counts."""

STATUSES = HTTP_STATUSES.but(
    dict.fromkeys((501, 505, 507), core.UPSTREAM_ERROR),
    {1: core.INVALID_RESPONSE, 3: REDIRECTED} | dict.fromkeys(range(6, 10), core.INVALID_RESPONSE),
)
NETWORK = Classifier()


def read_reply(reply: Reply) -> Failure | None:
    """The failure that a reply is, with the time that the endpoint asks for; None when the event was delivered."""
    failure = classify_status(reply.status, reply.headers, reply.body, table=STATUSES)
    if failure is None:
        return None
    named_s = asked_s = failure.retry_after_s if reply.status in ASKING else None
    if asked_s is None and reply.status == core.RATE_LIMIT_EXCEEDED.status:
        asked_s = RATE_LIMITED_S
    shown = _shown(reply.body)
    facts = {"upstream_status": reply.status, ASKED_S: named_s} | ({"answer": shown} if shown else {})
    says = "The endpoint answered {upstream_status}" + (": {answer}" if shown else ".")
    return Failure(failure.fault, says, details=facts, retry_after_s=asked_s, remote=failure.remote)


def read_error(error: Exception) -> Failure:
    """The failure that the lack of a reply is."""
    return NETWORK.classify(error)


def asked_s(failure: Failure) -> float:
    """How long other events to the endpoint had better wait too, because it asked for time."""
    return (failure.retry_after_s or 0.0) if _asked(failure) else 0.0


def is_limit(failure: Failure) -> bool:
    """Whether the endpoint said 429: it works, and takes no more at the moment."""
    return failure.remote is not None and failure.remote.status == core.RATE_LIMIT_EXCEEDED.status


def scheduled(failure: Failure, endpoint: Endpoint, attempt: int) -> Failure:
    """The failure with the time of the next attempt: as the endpoint asked, and no less than its schedule says."""
    failure.retry_after_s = max(endpoint.delay_s(attempt), min(asked_s(failure), endpoint.retry_after_max_s))
    # What follows from the schedule was not asked for, and the journal does not say so.
    failure.details = {ASKED_S: None, **failure.details}
    return failure


def limited(failure: Failure, endpoint: Endpoint, count: int, *, turn_s: float, within_s: float) -> Failure:
    """The failure of a 429, number `count` of this event, with the time of the next attempt; it spends no attempt.

    Args:
        turn_s: when it is this event's turn, among all that wait for the endpoint.
        within_s: how long after the first attempt it may still be tried again.
    """
    least_s = max(endpoint.delay_s(count), PAUSE_S_MIN, turn_s)
    failure.retry_after_s = max(least_s, min(asked_s(failure), endpoint.retry_after_max_s))
    failure.details = {ASKED_S: None, **failure.details, UNSPENT_S: within_s}
    return failure


def _asked(failure: Failure) -> bool:
    return failure.remote is not None and failure.remote.status in ASKING


def _shown(body: bytes) -> str:
    """The beginning of a body, on one line and harmless to a terminal."""
    text = body[:BODY_SHOWN_BYTES].decode("utf-8", "replace")
    return str(plain("".join(sign if sign.isprintable() else " " for sign in text))).strip()
