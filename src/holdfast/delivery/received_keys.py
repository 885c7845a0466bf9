"""Keys of received events: begun and answered on the event loop, where nothing about them is unusual.

Whatever is not the usual case (the key was there before, somebody took it over, the answer cannot be kept) goes the way
of every other idempotency key, in a thread.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from functools import partial
from typing import Any, TypeVar

from holdfast.delivery.threads import Threads, on_this_loop
from holdfast.guard import key_ledger
from holdfast.guard.heartbeat import HEARTBEAT
from holdfast.guard.idempotency import Answer, Answered, Keys, Started
from holdfast.guard.keys_together import verdict
from holdfast.guard.request import request_hash
from holdfast.store import Store

T = TypeVar("T")

SAME_REQUEST = b""
"""An event is known by its id alone: two requests with one id are the same request."""
_SAME_HASH = request_hash(body=SAME_REQUEST)


class ReceivedKeys(Keys):
    """The keys of one tenant and operation, on a store. Threads may share it."""

    def __init__(self, store: Store, *, tenant: str, operation: str, **settings: Any) -> None:
        super().__init__(store, **settings)
        self._scope = tenant, operation

    async def once_async(
        self,
        key: str,
        handle: Callable[[T], Coroutine[Any, Any, Any]],
        event: T,
        as_answer: Callable[[Any], Answer],
        *,
        wait_s: float,
        threads: Threads,
    ) -> Answered:
        """Handle the event, unless it was answered before; as `Keys.once`, for coroutines."""
        tenant, operation = self._scope
        claim = self._claim(tenant=tenant, operation=operation, key=key, request_hash=_SAME_HASH)
        started = verdict(claim, await self._together.join(claim))
        if not isinstance(started, Started):
            blocking = on_this_loop(handle)
            work = lambda _: as_answer(blocking(event))  # noqa: E731 - one line for one line
            return await threads.run(partial(self.once_received, key, work, wait_s=wait_s))
        try:
            try:
                # As `held` does, without an object for it.
                HEARTBEAT.hold(self.store, started, lease_s=self.lease_s)
                answer = as_answer(await handle(event))
            finally:
                HEARTBEAT.drop(started)
        except Exception as error:  # noqa: BLE001 - settled in the thread, whatever it is
            return await threads.run(self._settled, started, partial(_raised, error))
        except BaseException as interrupt:
            # Not awaited: the code that interrupts does not wait.
            threads.submit(self._settled, started, partial(_raised, interrupt))
            raise
        if started.finished:
            return Answered(answer, replayed=False)
        try:
            kept = None if started.within is not None else key_ledger.stored(answer, self._headers_kept)
        except (TypeError, ValueError):
            kept = None
        if kept is None:  # it is in a transaction of the handler's, or cannot be kept: the usual way knows what to do
            return await threads.run(self._settled, started, lambda _: answer)
        await self.store_answer_async(started, kept)
        return Answered(answer, replayed=False)

    def once_received(self, key: str, work: Callable[[Started], Answer], *, wait_s: float) -> Answered:
        """Do the work, unless the same event was answered before; as `Keys.once`."""
        tenant, operation = self._scope
        return self.once(operation, key, SAME_REQUEST, work, tenant=tenant, wait_s=wait_s)


def _raised(error: BaseException, _: Started) -> Answer:
    raise error
