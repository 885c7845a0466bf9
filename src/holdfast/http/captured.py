"""An answer that is kept before it is sent: what the application says under an idempotency key.

Always true: when the client sees the answer, it is stored, or the key was given back because the answer says to try
again. An answer too large to keep is sent all the same; repeats are told that it was not kept.
"""

from __future__ import annotations

from collections.abc import Awaitable, Mapping
from contextlib import suppress
from typing import TYPE_CHECKING

from holdfast.base import Private, limits
from holdfast.catalog.classify import DEFAULT_CLASSIFIER
from holdfast.catalog.core import TRANSACTION_ROLLED_BACK
from holdfast.catalog.failure import Failure
from holdfast.catalog.fault import NEVER_REPLAYED, Fault
from holdfast.catalog.status import HTTP_STATUSES
from holdfast.guard.idempotency import Keys, Started
from holdfast.guard.key_ledger import Stored
from holdfast.guard.keyed_work import NOT_COMMITTED
from holdfast.http.asgi import Message, Send
from holdfast.http.aside import aside
from holdfast.lifecycle.idempotency import is_replayed

if TYPE_CHECKING:
    from holdfast.http.exchange import Exchange

FAILED_FROM = 400


class Captured:
    """Gathers one reply, then settles the key and sends it."""

    __slots__ = ("_body", "_cause", "_ended", "_exchange", "_keys", "_passing", "_size", "_start", "_started", "onward")

    def __init__(self, keys: Keys, started: Started, exchange: Exchange) -> None:
        self._keys = keys
        self._started = started
        self._exchange = exchange
        self.onward: Send = exchange.onward
        self._passing = False
        self._cause: Failure | None = None
        self._start: Message | None = None
        self._body: list[bytes] = []
        self._size = 0
        self._ended = False

    async def send(self, message: Message) -> None:
        """Keep this part of the answer."""
        if self._passing:
            await self.onward(message)
        elif message["type"] == "http.response.start":
            self._start = message
        elif message["type"] == "http.response.body":
            body = message.get("body", b"")
            self._size += len(body)
            self._body.append(body)
            if self._size > limits().answer_bytes_max:
                await self._pass_on(message)
            self._ended = not message.get("more_body", False)
        # Anything else is a hint to the server about this one connection.

    async def fail(self, error: Exception) -> Exception | None:
        """The application raised. The exception itself comes back when its answer was complete before that."""
        if self._ended or self._passing:
            return error
        self._forget()
        self._exchange.begun = False
        await self._exchange.fail(error)
        failure = self._exchange.failure
        assert failure is not None
        undeclared = not isinstance(error, Failure) and failure.fault is self._internal
        # What nobody declared counts as unknown, not as the internal error that the client reads: it may run again.
        self._cause = DEFAULT_CLASSIFIER.classify(error) if undeclared else failure
        return None

    async def settle(self, resources: Mapping[str, str]) -> None:
        """Store the answer or give the key back, then send it.

        Raises:
            Failure: IDEMPOTENCY_LOST; or the database's own.
        """
        if self._passing:
            return
        if self._start is None:
            raise RuntimeError("the application returned without an answer")
        started, body = self._started, b"".join(self._body)
        if not (started.finished if started.within is None else await self._is_answered()):
            if started.rolled_back and self._start["status"] < FAILED_FROM:
                raise await self._rolled_back()
            cause = self._known_cause()
            code = None if cause is None else cause.code
            if self._is_final(cause):
                await self._store(self._kept(self._start, body, resources), code)
            else:
                await aside(lambda: self._keys.release(started, code=code))
        await self.onward(self._start)
        await self.onward({"type": "http.response.body", "body": body, "more_body": False})

    def _kept(self, start: Message, body: bytes, resources: Mapping[str, str]) -> Stored | Exception:
        """What is stored of the answer, or why it cannot be."""
        try:
            return self._keys.kept_reply(int(start["status"]), start.get("headers", ()), body, resources)
        except (TypeError, ValueError) as unfit:
            return unfit

    def _store(self, kept: Stored | Exception, code: str | None) -> Awaitable[None]:
        if isinstance(kept, Exception):
            return self._store_unfit(kept)
        if self._exchange.on_loop:
            return self._keys.store_answer_async(self._started, kept, code)
        self._keys.store_answer(self._started, kept, code)
        return _nothing()

    async def _store_unfit(self, unfit: Exception) -> None:
        """The work is done and must not be done again, so its failure to answer is the answer."""
        failure = self._internal(reason=Private(str(unfit)))
        await self._store(self._of_failure(failure), failure.code)
        raise failure from unfit

    def abandon(self, error: BaseException) -> None:
        """The work was interrupted, or cannot be settled: the next caller need not wait for the end of the lease."""
        self._exchange.begun = self._passing  # nothing else has reached the client
        if self._started.finished or self._passing or isinstance(error, Failure):
            return
        if self._exchange.on_loop:
            import asyncio

            # Not awaited: the code that interrupts does not wait.
            asyncio.get_running_loop().run_in_executor(None, self._release)
        else:
            self._release()

    def _release(self) -> None:
        with suppress(Failure):
            if not self._keys.is_answered(self._started):
                self._keys.release(self._started)

    async def _is_answered(self) -> bool:
        """Whether the application has stored the answer itself, in a transaction that was not rolled back."""
        started = self._started
        if started.within is None:
            return started.finished
        return await aside(lambda: self._keys.is_answered(started))

    async def _rolled_back(self) -> Failure:
        """The application answers for an effect that was rolled back: the client is told to try again instead."""
        failure = self._exchange.voice.fault(TRANSACTION_ROLLED_BACK.code)(reason=Private(NOT_COMMITTED))
        await aside(lambda: self._keys.release(self._started, code=failure.code))
        return failure

    def _forget(self) -> None:
        self._start = None
        self._body = []
        self._size = 0
        self._ended = False

    async def _pass_on(self, message: Message) -> None:
        """Too large to keep: the work is done and must not be done again, so repeats are told just that."""
        assert self._start is not None
        answered = await self._is_answered()
        if not answered and self._is_final(None):
            failure = self._exchange.voice.fault("IDEMPOTENCY_ANSWER_NOT_KEPT").occur()
            await self._store(self._of_failure(failure), failure.code)
        elif not answered:
            await aside(lambda: self._keys.release(self._started))
        self._passing = True
        await self.onward(self._start)
        await self.onward({**message, "body": b"".join(self._body)})
        self._body = []

    def _of_failure(self, failure: Failure) -> Stored:
        written = self._exchange.voice.write(failure, self._exchange.scope)
        return self._keys.kept_reply(written.status, written.headers, written.body, {})

    def _known_cause(self) -> Failure | None:
        """What went wrong, where that is known: a framework's own 500 hides what it was."""
        failure = self._cause or self._exchange.failure
        if failure is None:
            return None
        hidden = self._cause is None and failure.fault is self._internal
        return None if hidden else failure

    @property
    def _internal(self) -> Fault:
        return self._exchange.voice.fault("INTERNAL_ERROR")

    def _is_final(self, cause: Failure | None) -> bool:
        assert self._start is not None
        status = self._start["status"]
        if cause is None and status < FAILED_FROM:
            return True
        if status in NEVER_REPLAYED:
            return False
        if cause is not None:
            return is_replayed(cause)
        fault = HTTP_STATUSES.fault(status)
        return fault is None or not fault.retryable


async def _nothing() -> None:
    """What is awaited where everything is done already."""
