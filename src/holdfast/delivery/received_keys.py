"""Keys of events that many senders bring at the same time: they are begun, and answered, many in one transaction.

Each caller still waits until its own key is on disk. Whatever is not the usual case (the key was there before, somebody
took it over, the transaction is the caller's own) goes the way of every other idempotency key.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

from holdfast.base.combiner import Combiner
from holdfast.delivery.threads import Threads, on_this_loop
from holdfast.guard import key_ledger
from holdfast.guard.idempotency import Answer, Answered, Begun, Keys, Started
from holdfast.guard.key_batches import Finish, NotAll, begin_new, finish_all
from holdfast.guard.key_ledger import Claim
from holdfast.guard.request import checked_scope, request_hash
from holdfast.store import Store, Tx

if TYPE_CHECKING:
    from holdfast.base.gathering import Gathering

TOGETHER_MAX = 500


class ReceivedKeys(Keys):
    """The keys of one tenant and operation, on a store. Threads may share it."""

    def __init__(self, store: Store, *, tenant: str, operation: str, **settings: Any) -> None:
        super().__init__(store, **settings)
        self._scope: dict[str, Any] = {"tenant": tenant, "operation": operation}
        self._begins: Combiner[Claim, Started | None] = Combiner(self._begin_all, most=TOGETHER_MAX)
        self._finishes: Combiner[Finish, bool] = Combiner(self._finish_all, most=TOGETHER_MAX)
        # The same for coroutines, which need asyncio: made when there is one.
        self._begins_async: Gathering[Claim, Started | None] | None = None
        self._finishes_async: Gathering[Finish, bool] | None = None

    async def once_async(
        self, key: str, work: Callable[[], Coroutine[Any, Any, Answer]], *, wait_s: float, threads: Threads
    ) -> Answered:
        """Do the work, unless the same event was answered before; as `Keys.once`, for coroutines.

        What is new goes all its way on the loop; everything else goes the usual way, in a thread.
        """
        operation, tenant = self._scope["operation"], self._scope["tenant"]
        checked_scope(tenant=tenant, operation=operation, key=key)
        started = await self._gather_begins().submit(
            self._claim(**self._scope, key=key, request_hash=request_hash(body=key))
        )
        if started is None:
            blocking = on_this_loop(work)
            usual = partial(self.once, operation, key, key, lambda _: blocking(), tenant=tenant, wait_s=wait_s)
            return await threads.run(usual)
        try:
            with self.held(started):
                answer = await work()
        except Exception as error:  # noqa: BLE001 - settled in the thread, whatever it is
            return await threads.run(self._settled, started, partial(_raised, error))
        except BaseException as interrupt:
            # Not awaited: whoever interrupts does not wait.
            threads.submit(self._settled, started, partial(_raised, interrupt))
            raise
        settled = started.finished or (started.within is None and await self._gather_finish(started, answer))
        if not settled:
            return await threads.run(self._settled, started, lambda _: answer)
        return Answered(answer, replayed=False)

    def begin(self, *, tenant: str = "", operation: str, key: str, request_hash: str) -> Begun:
        """Take the key for a lease, or learn why not; as `Keys.begin`."""
        checked_scope(tenant=tenant, operation=operation, key=key)
        started = self._begins.submit(self._claim(**self._scope, key=key, request_hash=request_hash))
        if started is not None:
            return started
        return super().begin(tenant=tenant, operation=operation, key=key, request_hash=request_hash)

    def finish(self, started: Started, answer: Answer, *, tx: Tx | None = None, code: str | None = None) -> None:
        """Store the answer; as `Keys.finish`."""
        if tx is None and self._finishes.submit((started, key_ledger.stored(answer, self._headers_kept), code)):
            started.finished = True
        else:
            super().finish(started, answer, tx=tx, code=code)

    def _gather_begins(self) -> Gathering[Claim, Started | None]:
        if self._begins_async is None:
            from holdfast.base.gathering import Gathering

            self._begins_async = Gathering(self._begin_all, most=TOGETHER_MAX)
            self._finishes_async = Gathering(self._finish_all, most=TOGETHER_MAX)
        return self._begins_async

    async def _gather_finish(self, started: Started, answer: Answer) -> bool:
        """Whether the answer is stored; False leaves it to the usual way, which knows what to do about it."""
        try:
            kept = key_ledger.stored(answer, self._headers_kept)
        except (TypeError, ValueError):
            return False
        assert self._finishes_async is not None
        started.finished = await self._finishes_async.submit((started, kept, None))
        return started.finished

    def _begin_all(self, claims: Sequence[Claim]) -> list[Started | None]:
        """Those that are new; None for those that are to be looked at one by one."""
        first: dict[str, Claim] = {}
        for claim in claims:
            first.setdefault(claim.key, claim)
        # In one order everywhere, so that two who bring the same events never wait for each other crosswise.
        ordered = sorted(first.values(), key=lambda claim: claim.key)
        began, _ = self.store.atomic(lambda tx: begin_new(tx, ordered), repeatable=True)
        return [began.get(claim.token) for claim in claims]

    def _finish_all(self, finishes: Sequence[Finish]) -> list[bool]:
        """Whether they are stored; False for those that are to be looked at one by one."""
        ordered = sorted(finishes, key=lambda one: one[0].key)
        try:
            self.store.atomic(lambda tx: finish_all(tx, ordered, expires_us=self._expires_us), repeatable=True)
        except NotAll:
            return [False] * len(finishes)
        return [True] * len(finishes)


def _raised(error: BaseException, _: Started) -> Answer:
    raise error
