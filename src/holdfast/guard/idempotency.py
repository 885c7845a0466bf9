"""Idempotency keys: the same request, however often it comes, has one effect and one answer.

The first caller works under a lease; its twins are told to wait or get its answer, byte for byte. Every claim has a
token of its own, and only the holder of the newest can store an answer. A holder that died blocks nobody longer than
its lease, which is measured on the database's clock.
"""

from __future__ import annotations

from collections.abc import Coroutine, Iterable, Mapping
from typing import TYPE_CHECKING, Any

from holdfast.base import monotonic_s, world
from holdfast.base.arguments import is_a, number, one_of, refused
from holdfast.catalog import Dialect, Failure
from holdfast.catalog.classify import DEFAULT_CLASSIFIER, Classifier
from holdfast.catalog.durable import IDEMPOTENCY_IN_PROGRESS, IDEMPOTENCY_LOST, IDEMPOTENCY_PAYLOAD_MISMATCH
from holdfast.guard import heartbeat, key_ledger
from holdfast.guard.key_batches import Finish
from holdfast.guard.keyed_work import REPLAYED_HEADER, Answered, Work, do
from holdfast.guard.keys_together import KeysTogether, verdict
from holdfast.guard.open_keys import OPEN_KEYS
from holdfast.guard.request import checked_scope, request_hash
from holdfast.lifecycle.idempotency import (
    Answer,
    AnswerInvalid,
    Begun,
    InProgress,
    Mismatch,
    Replay,
    Started,
)
from holdfast.policy.deadline import left_s

if TYPE_CHECKING:
    from holdfast.store import Store, Tx

__all__ = [
    "HEADERS_KEPT",
    "REPLAYED_HEADER",
    "Answer",
    "AnswerInvalid",
    "Answered",
    "Begun",
    "InProgress",
    "Keys",
    "Mismatch",
    "Replay",
    "Started",
    "request_hash",
]

LEASE_S = 30.0
EXPIRES_S = 86_400.0
RETRY_AFTER_S = 1.0
PRUNE_MAX = 500
BEGIN_TRIES = 4
BEGIN_WAIT_S = 0.005
POLL_S = 0.05
POLL_S_MAX = 1.0
HEADERS_KEPT = frozenset({"content-type", "content-encoding", "content-language", "location", "etag", "retry-after"})
"""Headers that describe the answer itself; cookies, tokens and everything about one connection are not kept."""


class Keys:
    """Idempotency keys on a store. Threads may share it."""

    def __init__(
        self,
        store: Store,
        *,
        lease_s: float = LEASE_S,
        expires_s: float = EXPIRES_S,
        retry_after_s: float = RETRY_AFTER_S,
        headers_kept: frozenset[str] = HEADERS_KEPT,
        dialect: Dialect = Dialect.NESTED,
        classifier: Classifier = DEFAULT_CLASSIFIER,
    ) -> None:
        """
        Args:
            lease_s: how long a holder that died blocks its key.
            expires_s: how long an answer is kept; after that the key counts as new. Counted from the beginning of
                the work, or from its end where that took longer than a hundredth of it.
            retry_after_s: when a twin is told to ask again.
            headers_kept: which headers of an answer are stored, in lower case.
            dialect: how a failure is written down as an answer.
            classifier: what the exceptions of the work mean.
        """
        for name, seconds in (("lease_s", lease_s), ("expires_s", expires_s)):
            number(name, seconds, above=0)
        number("retry_after_s", retry_after_s, least=0)
        if not hasattr(store, "atomic"):
            raise refused("store", store, "give the Store itself: Keys(Store.open(…))")
        if is_a(headers_kept, str):
            raise refused("headers_kept", headers_kept, 'write {"etag"}')
        dialect = one_of("dialect", dialect, Dialect)
        self.store = store
        self.lease_s = lease_s
        """How long a holder that died blocks its key."""
        self._lease_us = int(lease_s * 1_000_000)
        # While a caller works on a key it cannot expire.
        self._expires_us = int(max(expires_s, lease_s) * 1_000_000)
        self._retry_after_s = retry_after_s
        self._headers_kept = headers_kept
        self._headers_kept_raw = frozenset(name.encode("latin-1") for name in headers_kept)
        self._dialect = dialect
        self._classifier = classifier
        self._together = KeysTogether(store, lease_us=self._lease_us, expires_us=self._expires_us)

    def once(
        self,
        operation: str,
        key: str,
        request: object,
        work: Work,
        *,
        tenant: str = "",
        wait_s: float | None = None,
    ) -> Answered:
        """Do the work, unless the same request was answered before; then that is the answer.

        A failure that is final is an answer like any other, and repeats get the same one. A failure that is retried
        gives the key back and is raised, and so is every exception that is not a `Failure`.

        Args:
            request: what makes it the same request: bytes or anything that JSON can say.
            wait_s: maximum time that a twin waits for the first one's answer; without it, a twin is refused at once.

        Raises:
            Failure: IDEMPOTENCY_KEY_INVALID, IDEMPOTENCY_PAYLOAD_MISMATCH, IDEMPOTENCY_IN_PROGRESS with a time to
                ask again, IDEMPOTENCY_LOST when the lease ran out and another caller took over.
            TypeError: the work returned no `Answer`.
        """
        wanted = {"tenant": tenant, "operation": operation, "key": key, "request_hash": request_hash(body=request)}
        give_up_s = monotonic_s() + min(wait_s or 0.0, left_s())
        while True:
            match self.begin(**wanted):
                case Started() as started:
                    return self._settled(started, work)
                case Replay(answer):
                    return Answered(answer, replayed=True)
                case Mismatch():
                    raise IDEMPOTENCY_PAYLOAD_MISMATCH(operation=operation)
                case InProgress(retry_after_s):
                    if not self._freed(wanted, give_up_s):
                        raise IDEMPOTENCY_IN_PROGRESS(retry_after_s=retry_after_s, operation=operation)

    def begin(self, *, tenant: str = "", operation: str, key: str, request_hash: str) -> Begun:
        """Take the key for a lease, or learn why not. A caller that gets `Started` must finish or release it.

        Raises:
            Failure: IDEMPOTENCY_KEY_INVALID; BAD_REQUEST names the field; or the database's own failure.
        """
        claim = self._claim(tenant=tenant, operation=operation, key=key, request_hash=request_hash)
        for tries in range(BEGIN_TRIES):
            if tries:
                world().sleep(BEGIN_WAIT_S)
            begun = verdict(claim, self._together.submit(claim))
            if isinstance(begun, InProgress) and OPEN_KEYS.freed(self.store, claim):
                begun = verdict(claim, self._together.submit(claim))
            if begun is not None:
                return self._begun(begun)
        return self._begun(None)

    async def begin_async(self, *, tenant: str = "", operation: str, key: str, request_hash: str) -> Begun:
        """As `begin`, for coroutines: those that begin at the same time share a commit."""
        claim = self._claim(tenant=tenant, operation=operation, key=key, request_hash=request_hash)
        for tries in range(BEGIN_TRIES):
            if tries:
                await world().pause(BEGIN_WAIT_S)
            begun = verdict(claim, await self._together.join(claim))
            if isinstance(begun, Started):
                return begun
            if isinstance(begun, InProgress) and OPEN_KEYS.knows(self.store, claim):
                import asyncio

                if await asyncio.to_thread(OPEN_KEYS.freed, self.store, claim):
                    begun = verdict(claim, await self._together.join(claim))
            if begun is not None:
                return self._begun(begun)
        return self._begun(None)

    def _claim(self, *, tenant: str, operation: str, key: str, request_hash: str) -> key_ledger.Claim:
        checked_scope(tenant=tenant, operation=operation, key=key)
        token = key_ledger.new_token()
        return key_ledger.Claim(tenant, operation, key, token, request_hash, self._lease_us, self._expires_us)

    def _begun(self, begun: Begun | bool | None) -> Begun:
        match begun:
            case Started() | Replay() | Mismatch():
                return begun
            case InProgress(left):
                return InProgress(min(left, self._retry_after_s))
            case _:
                # Its row is locked: another transaction finishes or begins it at this moment.
                return InProgress(self._retry_after_s)

    def finish(self, started: Started, answer: Answer, *, tx: Tx | None = None, code: str | None = None) -> None:
        """Store the answer; with the caller's transaction, effect and answer commit together or not at all.

        Args:
            tx: from `store.atomic` or `store.join`.
            code: of the failure that the answer is, for the journal.

        Raises:
            Failure: IDEMPOTENCY_LOST when another caller has taken the key over; roll back what this one did.
            AnswerInvalid, SecretLeak: the answer cannot be kept.
            TypeError: `tx` is a connection.
        """
        kept = key_ledger.stored(answer, self._headers_kept)
        if tx is None:
            self.store_answer(started, kept, code)
            return
        try:
            # A loss is not written down here: the caller's transaction is about to be rolled back.
            done = key_ledger.finish(tx, started, kept, expires_us=self._expires_us, code=code)
        except AttributeError:
            from holdfast.store.transaction import refuse_connection

            refuse_connection(tx)
            raise
        if not done:
            raise _lost(started)
        # Only its owner knows how a joined transaction ends: `is_answered` looks when the work is over.
        started.within, started.answer, started.rolled_back = tx.is_open, answer, False
        tx.after_commit.append(lambda: _mark_finished(started))
        if tx.joined and not heartbeat.HEARTBEAT.holds(started):
            # Nothing tells when this work is over: a twin may take the key once the transaction is gone.
            OPEN_KEYS.follow(self.store, started, lease_s=self.lease_s, work_over=False)

    def finish_async(self, started: Started, answer: Answer, *, code: str | None = None) -> Coroutine[Any, Any, None]:
        """As `finish` without a transaction of the caller's, for coroutines, which share commits."""
        return self.store_answer_async(started, key_ledger.stored(answer, self._headers_kept), code)

    def kept_reply(
        self, status: int, headers: Iterable[tuple[bytes, bytes]], body: bytes, resources: Mapping[str, str]
    ) -> key_ledger.Stored:
        """What is stored of a reply as ASGI writes it, for `store_answer`.

        Raises:
            AnswerInvalid: there is no such status.
            SecretLeak, TypeError, ValueError: the resources have no JSON form.
        """
        return key_ledger.stored_reply(status, headers, body, resources, self._headers_kept_raw)

    def store_answer(self, started: Started, kept: key_ledger.Stored, code: str | None) -> None:
        """Finish the key with an answer in the form in which it is stored.

        Raises:
            Failure: IDEMPOTENCY_LOST; or the database's own.
        """
        finish = Finish(started, kept, code)
        if not verdict(finish, self._together.submit(finish)):
            raise _lost(started)
        started.finished = True

    async def store_answer_async(self, started: Started, kept: key_ledger.Stored, code: str | None = None) -> None:
        """The same for coroutines, which share commits."""
        finish = Finish(started, kept, code)
        told = await self._together.join(finish)
        if told is not True and not verdict(finish, told):
            raise _lost(started)
        started.finished = True

    def is_answered(self, started: Started) -> bool:
        """Whether the answer is stored, or a transaction that has stored it is still to be committed.

        False after a rollback: the key is still held, and its holder finishes it otherwise or releases it.
        """
        if not started.finished and started.within is not None:
            outcome = key_ledger.outcome(self.store, started)
            started.finished = outcome is key_ledger.Outcome.STORED
            started.rolled_back = outcome is key_ledger.Outcome.ROLLED_BACK
            started.within = started.within if outcome is key_ledger.Outcome.OPEN else None
        return started.finished or started.within is not None

    def leave(self, started: Started) -> None:
        """The work is over: where its transaction goes on, a rollback frees the key. `once` does it by itself."""
        if started.within is not None and not started.finished:
            OPEN_KEYS.follow(self.store, started, lease_s=self.lease_s, work_over=True)

    def release(self, started: Started, *, code: str | None = None) -> bool:
        """Give the key back unanswered, so that the same request may run again; False when it was not held."""
        return self.store.atomic(lambda tx: key_ledger.release(tx, started, code=code), repeatable=True)

    def renew(self, started: Started) -> None:
        """Extend the lease of slow work; `once` and `held` do it by themselves.

        Raises:
            Failure: IDEMPOTENCY_LOST.
        """
        heartbeat.renew(self.store, [started], lease_s=self.lease_s)
        if started.lost:
            raise _lost(started)

    def held(self, started: Started) -> heartbeat.Held:
        """Inside the block the lease is renewed by itself, and `started.lost` tells if that came too late.

        Entering it raises CONCURRENCY_EXCEEDED when this process holds too many keys.
        """
        return heartbeat.Held(self.store, started, lease_s=self.lease_s)

    def show(self, *, tenant: str = "", operation: str, key: str) -> dict[str, Any] | None:
        """What is known of a key, without the answer's body: state, status, resources, first and last seen."""
        scope = {"tenant": tenant, "operation": operation, "key": key}
        found = self.store.atomic(lambda tx: tx.records("idempotency.show", **scope), write=False)
        return found[0] if found else None

    def prune(self, count: int = PRUNE_MAX) -> int:
        """Delete up to `count` expired keys; how many were deleted."""
        return self.store.atomic(lambda tx: tx.run("idempotency.prune", count=count), repeatable=True)

    def _settled(self, started: Started, work: Work) -> Answered:
        try:
            return do(self, started, work, classifier=self._classifier, dialect=self._dialect)
        finally:
            self.leave(started)

    def _freed(self, wanted: dict[str, str], give_up_s: float) -> bool:
        """Wait until nobody holds the key; False when the time is up."""
        scope = {name: wanted[name] for name in ("tenant", "operation", "key")}
        poll_s = POLL_S
        while (time_left_s := give_up_s - monotonic_s()) > 0:
            world().sleep(min(poll_s, time_left_s))
            if self.store.atomic(lambda tx: tx.row("idempotency.left", **scope), write=False) is None:
                return True
            poll_s = min(poll_s * 1.5, POLL_S_MAX)
        return False


def _lost(started: Started) -> Failure:
    started.lost = True
    return IDEMPOTENCY_LOST(operation=started.operation)


def _mark_finished(started: Started) -> None:
    started.finished = True
