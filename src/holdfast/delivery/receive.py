"""Receiving webhooks: one function from headers and body to an answer, for any framework.

The order is always size → signature → rate limit → repeats → handler, so that each step is paid for only by what the
step before let through. Whatever comes in, an answer goes out; what nobody expected is a 500 without its text.

```python
receiver = Receiver(StandardWebhooks(), secrets=[Secret("whsec_…")], store=store)
answer = receiver.receive(request.headers, request.body, handle)
```
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol

from holdfast.base import CodecError, Json, Secret, decode
from holdfast.catalog import Dialect, Failure, render
from holdfast.catalog.core import INTERNAL_ERROR, PAYLOAD_TOO_LARGE, RATE_LIMIT_EXCEEDED
from holdfast.catalog.durable import IDEMPOTENCY_IN_PROGRESS, IDEMPOTENCY_KEY_INVALID, IDEMPOTENCY_LOST
from holdfast.delivery.faults import EVENT_IN_PROGRESS, INVALID_JSON, INVALID_PAYLOAD
from holdfast.delivery.signing import RawHeaders, Verified, Verifier, listed
from holdfast.guard.idempotency import Answer, Keys

if TYPE_CHECKING:
    from holdfast.policy import Limited, RateLimit
    from holdfast.store import Store

BYTES_MAX = 1_048_576
REMEMBERED_S = 7 * 86_400.0
"""Longer than any sender tries, and much longer than a signature is good for."""
WAIT_S = 5.0
OPERATION = "webhook.receive"
EVENT_ID_FIELD = "event_id"


@dataclass(frozen=True, slots=True)
class Incoming:
    """A genuine request."""

    headers: RawHeaders = field(repr=False)
    body: bytes = field(repr=False)
    verified: Verified

    def json(self) -> Json:
        """The body as JSON.

        Raises:
            Failure: INVALID_JSON.
        """
        try:
            return decode(self.body, bytes_max=max(len(self.body), 1))
        except CodecError as broken:
            raise INVALID_JSON(reason=broken.reason, explanation=broken.explanation) from broken


Handle = Callable[[Incoming], Any]
"""Does what the event asks for; returns an `Answer`, or what a 200 says as JSON, or None for an empty 200."""
Identify = Callable[[Incoming], str | None]
"""The event's id; None where it has none."""


class Limiter(Protocol):
    """What is asked of a rate limit; `policy.Bucket` is one."""

    limit: RateLimit

    def take(self) -> Limited | None:
        """Let one through (None), or refuse it."""
        ...


def event_id_of(incoming: Incoming) -> str | None:
    """The id that the signature covers or, where the scheme has none, the body's `event_id`.

    Raises:
        Failure: INVALID_PAYLOAD when the body has one that is no text.
    """
    if incoming.verified.event_id is not None:
        return incoming.verified.event_id
    try:
        document = incoming.json()
    except Failure:
        return None  # the handler knows what it expects, and says so
    found = document.get(EVENT_ID_FIELD) if isinstance(document, dict) else None
    if found is not None and not isinstance(found, str):
        raise _bad_id("not_text")
    return found


class Receiver:
    """Takes webhooks of one sender. Threads may share it."""

    def __init__(
        self,
        verifier: Verifier,
        *,
        secrets: Sequence[Secret] | Callable[[], Sequence[Secret]] = (),
        store: Store | None = None,
        limit: Limiter | None = None,
        bytes_max: int = BYTES_MAX,
        dialect: Dialect = Dialect.FLAT,
        identify: Identify = event_id_of,
        tenant: str = "",
        remembered_s: float = REMEMBERED_S,
        wait_s: float = WAIT_S,
        report: Callable[[Exception], None] | None = None,
    ) -> None:
        """
        Args:
            secrets: every secret in force, or a function that knows them; during a rotation the old and the new one.
            store: where repeats are recognised; without one each request reaches the handler.
            limit: asked after the signature, so that strangers cannot use it up.
            tenant: whose events they are; ids of different tenants do not meet.
            remembered_s: so long a repeat gets the first answer.
            wait_s: so long a twin waits for the first one's answer before it is sent away.
            report: told of exceptions that are no failures, with their text.
        """
        if remembered_s < 2 * getattr(verifier, "tolerance_s", 0.0):
            raise ValueError("remembered_s: a repeat must be known for as long as its signature can be good")
        self._verifier = verifier
        self._secrets = secrets if callable(secrets) else lambda: secrets
        self._limit = limit
        self.bytes_max = bytes_max
        self._dialect = dialect
        self._identify = identify
        self._tenant = tenant
        self._wait_s = wait_s
        self._report = report
        self._keys = None if store is None else Keys(store, expires_s=remembered_s, dialect=dialect)

    def receive(self, headers: RawHeaders, body: bytes, handle: Handle) -> Answer:
        """The answer to a request. Never raises an `Exception`."""
        try:
            return self._received(listed(headers), body, handle)
        except Failure as failure:
            return self._answer(failure)
        except Exception as error:  # noqa: BLE001 - the edge: whatever it is, the sender gets an answer
            if self._report is not None:
                self._report(error)
            return self._answer(INTERNAL_ERROR())

    def _received(self, headers: RawHeaders, body: bytes, handle: Handle) -> Answer:
        if len(body) > self.bytes_max:
            raise PAYLOAD_TOO_LARGE(bytes_max=self.bytes_max)
        incoming = Incoming(headers, body, self._verifier.verify(headers, body, secrets=self._secrets()))
        if self._limit is not None:
            refusal = self._limit.take()
            if refusal is not None:
                facts = self._limit.limit.details(refusal)
                raise RATE_LIMIT_EXCEEDED(retry_after_s=refusal.retry_after_s, **facts)
        if self._keys is None:
            return _as_answer(handle(incoming))
        return self._once(self._keys, incoming, handle)

    def _once(self, keys: Keys, incoming: Incoming, handle: Handle) -> Answer:
        """The handler's answer, or the one it gave before to the same event."""
        key = self._identify(incoming) or _digest(incoming.body)
        try:
            answered = keys.once(
                OPERATION, key, key, lambda _: _as_answer(handle(incoming)), tenant=self._tenant, wait_s=self._wait_s
            )
        except Failure as failure:
            told = _for_sender(failure)
            if told is failure:
                raise
            raise told from failure
        return Answer(answered.answer.status, answered.headers, answered.answer.body)

    def _answer(self, failure: Failure) -> Answer:
        rendered = render(failure, self._dialect)
        return Answer(rendered.status, rendered.headers, rendered.body)


def _as_answer(result: Any) -> Answer:
    if isinstance(result, Answer):
        return result
    return Answer() if result is None else Answer.of_json(result)


def _for_sender(failure: Failure) -> Failure:
    """A conflict is final for most senders; what passes by itself has to look like it."""
    if failure.code in {IDEMPOTENCY_IN_PROGRESS.code, IDEMPOTENCY_LOST.code}:
        return EVENT_IN_PROGRESS(retry_after_s=failure.retry_after_s or 1.0)
    if failure.code == IDEMPOTENCY_KEY_INVALID.code:
        return _bad_id("length_or_characters")
    return failure


def _bad_id(reason: str) -> Failure:
    return INVALID_PAYLOAD(f"Invalid field: {EVENT_ID_FIELD}", field=EVENT_ID_FIELD, reason=reason)


def _digest(body: bytes) -> str:
    """An event without an id is known by its bytes."""
    import hashlib

    return f"sha256:{hashlib.sha256(body).hexdigest()}"
