"""Receiving webhooks: one function from headers and body to an answer, for any framework.

The order is always size → signature → rate limit → repeats → handler, so that each step is paid for only by what the
step before let through. Whatever comes in, an answer goes out; what nobody expected is a 500 without its text.

```python
receiver = Receiver(StandardWebhooks(), secrets=[Secret("whsec_…")], store=store)
answer = receiver.receive(request.headers, request.body, handle)
```
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import TYPE_CHECKING, Any, Protocol

from holdfast.base import Secret, bus, is_asynchronous, monotonic_s
from holdfast.catalog import Dialect, Failure, render
from holdfast.catalog.core import INTERNAL_ERROR, PAYLOAD_TOO_LARGE, RATE_LIMIT_EXCEEDED
from holdfast.catalog.durable import IDEMPOTENCY_IN_PROGRESS, IDEMPOTENCY_KEY_INVALID, IDEMPOTENCY_LOST
from holdfast.delivery.faults import EVENT_IN_PROGRESS, INVALID_PAYLOAD
from holdfast.delivery.incoming import Heard, Incoming
from holdfast.delivery.signing import RawHeaders, Verifier, listed
from holdfast.delivery.threads import Threads, on_this_loop
from holdfast.guard.idempotency import Answer

if TYPE_CHECKING:
    from holdfast.delivery.received_keys import ReceivedKeys
    from holdfast.guard.idempotency import Answered
    from holdfast.policy import Limited, RateLimit
    from holdfast.store import Store

BYTES_MAX = 1_048_576
REMEMBERED_S = 7 * 86_400.0
"""Longer than any sender tries, and much longer than a signature is good for."""
WAIT_S = 5.0
THREADS_MAX = 64
"""Maximum number of requests that are worked on at once where an event loop hands them over to threads."""
OPERATION = "webhook.receive"
EVENT_ID_FIELD = "event_id"
EMPTY = Answer()


Handle = Callable[[Incoming], Any]
"""Does what the event asks for; returns an `Answer`, or what a 200 says as JSON, or None for an empty 200."""
HandleAsync = Callable[[Incoming], Awaitable[Any]]
"""The same as a coroutine function."""
Identify = Callable[[Incoming], str | None]
"""The event's id; None where it has none."""


class Limiter(Protocol):
    """What is asked of a rate limit; `policy.Bucket` is one.

    One that asks a database may also have `try_take() -> tuple[bool, Limited | None]`, which never waits: whether it
    could decide, and what. An event loop then asks it directly, and in a thread only where it could not decide.
    """

    limit: RateLimit

    def take(self) -> Limited | None:
        """Let one through (None), or refuse it."""
        ...


def event_id_of(incoming: Incoming) -> str | None:
    """The id that the signature covers or, where the scheme has none, the body's `event_id`.

    Raises:
        Failure: INVALID_PAYLOAD when the body has one that is not text.
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
        source: str | None = None,
    ) -> None:
        """
        Args:
            secrets: every secret in force, or a function that knows them; during a rotation the old and the new one.
            store: where repeats are recognised; without one each request reaches the handler.
            limit: asked after the signature, so that strangers cannot use it up.
            tenant: whose events they are; ids of different tenants do not meet.
            remembered_s: how long a repeat gets the first answer.
            wait_s: how long a concurrent repeat waits for the first one's answer before it is sent away.
            report: told of exceptions that are not failures, with their text; without one they are logged.
            source: what the sender is called where received webhooks are counted; the name of the scheme if not given.
                Ids of different sources do not meet; of senders that have neither a source nor a tenant, they do.

        Raises:
            ValueError: repeats would be forgotten too soon, or the tenant or the source cannot be stored.
        """
        if remembered_s < 2 * getattr(verifier, "tolerance_s", 0.0):
            raise ValueError("remembered_s: a repeat must be known for as long as its signature can be good")
        if not callable(secrets) and not all(isinstance(one, Secret) for one in secrets):
            raise TypeError('secrets: give each as a Secret, such as [Secret("whsec_…")]')
        self._verifier = verifier
        self._secrets = secrets if callable(secrets) else lambda: secrets
        self._limit = limit
        self.bytes_max = bytes_max
        self._dialect = dialect
        self._identify = identify
        self._wait_s = wait_s
        self._report = _log if report is None else report
        self._source = type(verifier).__name__ if source is None else source
        self._operation = OPERATION if source is None else f"{OPERATION} {source}"
        self._keys: ReceivedKeys | None = None
        if store is not None:
            from holdfast.delivery.received_keys import ReceivedKeys

            scope = {"tenant": tenant, "operation": self._operation}
            _check_scope(scope)
            self._keys = ReceivedKeys(store, **scope, expires_s=remembered_s, dialect=dialect)
        self._threads = Threads(THREADS_MAX)
        # What may ask somebody else is not done on an event loop.
        self._on_loop = getattr(verifier, "asks_nobody", False) and not callable(secrets) and _is_quick(limit)

    def receive(self, headers: RawHeaders, body: bytes, handle: Handle) -> Answer:
        """The answer to a request. Never raises an `Exception`."""
        heard = Heard(monotonic_s()) if bus.listeners else None
        try:
            incoming = self._verified(listed(headers), body, heard)
            if self._limit is not None:
                self._pass(self._limit, self._limit.take())
            if self._keys is None:
                answer = _as_answer(handle(incoming))
            else:
                work = lambda _: _as_answer(handle(incoming))  # noqa: E731 - one line for one line
                once = self._keys.once_received(self._key(incoming, heard), work, wait_s=self._wait_s)
                answer = _told(once, heard)
        except Exception as error:  # noqa: BLE001 - the edge: whatever it is, the sender gets an answer
            answer = self._failed(error, heard)
        if heard is not None:
            self._tell(heard)
        return answer

    async def receive_async(self, headers: RawHeaders, body: bytes, handle: Handle | HandleAsync) -> Answer:
        """The same for callers with an event loop. A handler that blocks runs in a thread, a coroutine on the loop."""
        if not is_asynchronous(handle):
            return await self._threads.run(self.receive, headers, body, handle)
        if not self._on_loop:
            return await self._threads.run(self.receive, headers, body, on_this_loop(handle))
        heard = Heard(monotonic_s()) if bus.listeners else None
        try:
            incoming = self._verified(listed(headers), body, heard)
            if self._limit is not None:
                self._pass(self._limit, await self._taken(self._limit))
            if self._keys is None:
                answer = _as_answer(await handle(incoming))
            else:
                key, waits_s = self._key(incoming, heard), self._wait_s
                once = await self._keys.once_async(
                    key, handle, incoming, _as_answer, wait_s=waits_s, threads=self._threads
                )
                answer = _told(once, heard)
        except Exception as error:  # noqa: BLE001 - as above
            answer = self._failed(error, heard)
        if heard is not None:
            self._tell(heard)
        return answer

    def _verified(self, headers: RawHeaders, body: bytes, heard: Heard | None) -> Incoming:
        """The request, once size and signature have let it through."""
        if len(body) > self.bytes_max:
            raise PAYLOAD_TOO_LARGE(bytes_max=self.bytes_max)
        incoming = Incoming(headers, body, self._verifier.verify(headers, body, secrets=self._secrets()), heard)
        if heard is not None:
            heard.event_id = incoming.verified.event_id
        return incoming

    @staticmethod
    def _pass(limit: Limiter, refusal: Limited | None) -> None:
        if refusal is not None:
            raise RATE_LIMIT_EXCEEDED(retry_after_s=refusal.retry_after_s, **limit.limit.details(refusal))

    async def _taken(self, limit: Limiter) -> Limited | None:
        """Ask the rate limit on an event loop: in a thread where the answer has to be waited for."""
        try_take: Callable[[], tuple[bool, Limited | None]] | None = getattr(limit, "try_take", None)
        if try_take is None:
            return limit.take()
        decided, refusal = try_take()
        return refusal if decided else await self._threads.run(limit.take)

    def _key(self, incoming: Incoming, heard: Heard | None) -> str:
        event_id = self._identify(incoming)
        if heard is not None:
            heard.event_id = event_id
        return event_id or _digest(incoming.body)

    def _failed(self, error: Exception, heard: Heard | None) -> Answer:
        if not isinstance(error, Failure):
            self._report(error)
            error = INTERNAL_ERROR()
        elif self._keys is not None:
            error = _for_sender(error)
        if heard is not None:
            heard.fault = error.fault
        return self._answer(error)

    def _tell(self, heard: Heard) -> None:
        facts = {"code": None} if heard.fault is None else heard.fault.facts
        took_s = monotonic_s() - heard.began_s
        bus.tell("webhook.received", source=self._source, event_id=heard.event_id, duration_s=took_s, **facts)

    def _answer(self, failure: Failure) -> Answer:
        rendered = render(failure, self._dialect)
        return Answer(rendered.status, rendered.headers, rendered.body)


def _log(error: Exception) -> None:
    from holdfast.base.tracebacks import log_exception  # loaded when first needed

    log_exception("holdfast.delivery", "a webhook could not be handled", error)


def _check_scope(scope: dict[str, str]) -> None:
    """Said here, and not to every sender."""
    from holdfast.guard.request import checked_scope

    try:
        checked_scope(**scope, key="any")
    except Failure as unfit:
        raise ValueError("tenant and source: at most 200 printable characters, and the source some fewer") from unfit


def _is_quick(limit: Limiter | None) -> bool:
    from holdfast.policy import Bucket

    return limit is None or isinstance(limit, Bucket) or hasattr(limit, "try_take")


def _told(answered: Answered, heard: Heard | None) -> Answer:
    if heard is not None:
        heard.fault = None if answered.failure is None else answered.failure.fault
    if not answered.replayed:
        return answered.answer
    return Answer(answered.answer.status, answered.headers, answered.answer.body)


def _as_answer(result: Any) -> Answer:
    if isinstance(result, Answer):
        return result
    return EMPTY if result is None else Answer.of_json(result)


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
