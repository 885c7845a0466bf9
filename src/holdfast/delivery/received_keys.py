"""Keys of events that many senders bring at the same time: they are begun, and answered, many in one transaction.

Each caller still waits until its own key is on disk. Whatever is not the usual case (the key was there before, somebody
took it over, the transaction is the caller's own) goes the way of every other idempotency key.

It has statements of its own beside those of idempotency.sql because each statement is a round trip to PostgreSQL: the
usual ones take three for every key, these take three for hundreds of keys. A test holds that both leave the same rows.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

from holdfast.base import canonical, encode, monotonic_s
from holdfast.delivery.threads import Threads, on_this_loop
from holdfast.guard import key_ledger
from holdfast.guard.idempotency import Answer, Answered, Begun, Keys, Started
from holdfast.guard.key_ledger import Claim, Stored
from holdfast.guard.request import checked_scope, request_hash
from holdfast.store import Engine, Store, Tx
from holdfast.worker.combiner import Combiner

if TYPE_CHECKING:
    from holdfast.worker.gathering import Gathering

TOGETHER_MAX = 500

Finish = tuple[Started, Stored, str | None]


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
        started = await self._gather_begins().submit(self._claim(key, request_hash(body=key)))
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
        started = self._begins.submit(self._claim(key, request_hash))
        if started is not None:
            return started
        return super().begin(tenant=tenant, operation=operation, key=key, request_hash=request_hash)

    def finish(self, started: Started, answer: Answer, *, tx: Tx | None = None, code: str | None = None) -> None:
        """Store the answer; as `Keys.finish`."""
        if tx is None and self._finishes.submit((started, key_ledger.stored(answer, self._headers_kept), code)):
            started.finished = True
        else:
            super().finish(started, answer, tx=tx, code=code)

    def _claim(self, key: str, request_hash: str) -> Claim:
        return Claim(
            **self._scope,
            key=key,
            request_hash=request_hash,
            token=key_ledger.new_token(),
            lease_us=self._lease_us,
            expires_us=self._expires_us,
        )

    def _gather_begins(self) -> Gathering[Claim, Started | None]:
        if self._begins_async is None:
            from holdfast.worker.gathering import Gathering

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
        began = self.store.atomic(lambda tx: self._begin(tx, ordered), repeatable=True)
        return [began.get(claim.token) for claim in claims]

    def _begin(self, tx: Tx, claims: Sequence[Claim]) -> dict[int, Started]:
        tokens = {claim.token: claim for claim in claims}
        there = tx.rows("delivery.known_keys", **self._scope, keys=[claim.key for claim in claims])
        # Those that are there under our own tokens: an earlier try of this very call came through.
        began = {token: tokens[token].started(first_us) for _, token, first_us in there if token in tokens}
        taken = {row[0] for row in there}
        rows = [(claim.key, claim.request_hash, claim.token) for claim in claims if claim.key not in taken]
        if rows:
            times = {"lease_us": self._lease_us, "expires_us": self._expires_us}
            made = tx.many_rows("delivery.begin_keys", rows, **self._scope, **times)
            fresh = {token: tokens[token].started(first_us) for token, first_us in made}
            self._note(tx, "key.begun", [(started, None, None) for started in fresh.values()])
            began |= fresh
        return began

    def _finish_all(self, finishes: Sequence[Finish]) -> list[bool]:
        """Whether they are stored; False for those that are to be looked at one by one."""
        try:
            self.store.atomic(lambda tx: self._finish(tx, finishes), repeatable=True)
        except _NotAll:
            return [False] * len(finishes)
        return [True] * len(finishes)

    def _finish(self, tx: Tx, finishes: Sequence[Finish]) -> None:
        ordered = sorted(finishes, key=lambda one: one[0].key)
        if tx.engine is Engine.SQLITE:
            for started, kept, code in ordered:  # there is no round trip to save
                if not key_ledger.finish(tx, started, kept, expires_us=self._expires_us, code=code):
                    raise _NotAll
            return
        held = {
            started.key: (started.token, kept.status, kept.headers, kept.body.hex(), kept.resources)
            for started, kept, _ in ordered
        }
        said = {"keys": list(held), "held": encode(held), "expires_us": self._expires_us}
        if tx.run("delivery.finish_keys", **self._scope, **said) != len(ordered):
            raise _NotAll
        now_s = monotonic_s()
        notes = [(started, code, round((now_s - started.began_s) * 1_000_000)) for started, _, code in ordered]
        self._note(tx, "key.finished", notes)

    def _note(self, tx: Tx, verb: str, notes: Sequence[tuple[Started, str | None, int | None]]) -> None:
        rows = [
            (canonical([started.tenant, started.operation, started.key]), code, duration_us)
            for started, code, duration_us in notes
        ]
        if rows:
            tx.many("delivery.note_keys", rows, verb=verb, operation=self._scope["operation"])


def _raised(error: BaseException, _: Started) -> Answer:
    raise error


class _NotAll(Exception):
    """Some of them are no longer held, or were stored before: nothing of it is done."""
