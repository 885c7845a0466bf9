"""A rate limit that all processes share, without a transaction for every request.

The store keeps one truth for each subject. A process leases a few tokens of it at once and spends them by itself; how
many depends on how quickly the last ones went. A lease is short, and what is left of it is given back with the next.

Always true: in any stretch of time at most `burst` plus the rate times that stretch passes, and a tenth of a burst more
for each process, because leased tokens and refilled ones can meet. A limit with a burst below 20 leases one token at a
time, and is exact. While the store cannot be reached, each process limits by itself.
"""

from __future__ import annotations

import threading
from dataclasses import dataclass, field
from math import ceil
from typing import TYPE_CHECKING

from holdfast.base import digest, monotonic_s
from holdfast.catalog.failure import Failure
from holdfast.policy.rate_limit import SECOND_US, Allowed, Bucket, Limited, RateLimit

if TYPE_CHECKING:
    from holdfast.store import Store, Tx

LEASE_S = 1.0
BURST_SHARE = 10
"""No lease takes more than this part of a burst from the others."""
BATCH_MAX = 100
SUBJECTS_MAX = 10_000
"""Maximum number of subjects that are remembered; the first one is forgotten first, with what it had leased."""
SUBJECT_CHARS_MAX = 128
PRUNE_EVERY = 256
PRUNE_ROWS = 500


@dataclass(frozen=True, slots=True)
class Taken:
    """Go ahead."""

    remaining: int
    """How many more would pass now, as far as this process knows."""
    reset_s: float
    """How long until the whole burst is there again."""


@dataclass(slots=True)
class _Pool:
    """What this process holds of one subject's tokens."""

    bucket: Bucket
    lock: threading.Lock = field(default_factory=threading.Lock)
    batch: int = 1
    left: int = 0
    granted: int = 0
    until_s: float = float("-inf")
    shut_until_s: float = float("-inf")
    elsewhere: int = 0
    full_s: float = 0.0

    def take(self, now_s: float) -> Taken | Limited | None:
        """A token of the lease, or a refusal that still holds; None when the store has to be asked."""
        if now_s < self.shut_until_s:
            # Rounded up: a caller that comes back a hair too early is refused again.
            return Limited(ceil((self.shut_until_s - now_s) * SECOND_US))
        if self.left <= 0 or now_s >= self.until_s:
            return None
        self.left -= 1
        return Taken(self.left + self.elsewhere, max(0.0, self.full_s - now_s))

    def wanted(self, now_s: float, most: int) -> int:
        """How many to lease: twice as many where the last were gone before their time, else as many as were used."""
        if self.left == 0 and now_s < self.until_s:
            return min(self.batch * 2, most)
        return max(1, min(self.granted - self.left, self.batch // 2, most))


@dataclass(frozen=True, slots=True)
class _Grant:
    count: int
    retry_after_us: int
    remaining: int
    reset_s: float


class Leases:
    """One rate limit, for every subject that comes. Threads may share it."""

    def __init__(self, name: str, rate: RateLimit, store: Store | None) -> None:
        self.name = name
        self.rate = rate
        self._store = store
        self._batch_max = max(1, min(rate.burst // BURST_SHARE, BATCH_MAX))
        self._pools: dict[str, _Pool] = {}
        self._changing = threading.Lock()
        self._leases = 0

    def quick(self, subject: str) -> Taken | Limited | None:
        """The answer without asking the store; None when `take` has to be called, which may block."""
        if self._store is None:
            return self._alone(self._pool(subject))
        pool = self._pools.get(subject)
        # The lock is held for as long as another thread asks the store; this one must not wait for that.
        if pool is None or not pool.lock.acquire(blocking=False):
            return None
        try:
            return pool.take(monotonic_s())
        finally:
            pool.lock.release()

    def take(self, subject: str) -> Taken | Limited:
        """Let one through or refuse it; asks the store when nothing is leased."""
        pool = self._pool(subject)
        with pool.lock:
            answer = pool.take(monotonic_s())
            if answer is None:
                answer = self._leased(pool, subject)
        self._prune_now_and_then()
        return answer

    def refund(self, subject: str) -> None:
        """The request was refused for another reason: its token is free again."""
        pool = self._pools.get(subject)
        if pool is not None and pool.lock.acquire(blocking=False):
            pool.left += 1
            pool.lock.release()

    def _leased(self, pool: _Pool, subject: str) -> Taken | Limited:
        store = self._store
        if store is None:
            return self._alone(pool)
        asked_s = monotonic_s()
        batch, unused = pool.wanted(asked_s, self._batch_max), pool.left
        try:
            grant = store.atomic(
                lambda tx: self._phase(tx, _stored(subject), batch=batch, unused=unused), repeatable=True
            )
        except Failure:
            return self._alone(pool)  # the store is away: better a limit for each process than none or no service
        now_s = monotonic_s()
        pool.batch, pool.granted, pool.left = batch, grant.count, grant.count
        # Counted from before the question, so that no lease lasts longer than it says.
        pool.until_s, pool.elsewhere, pool.full_s = asked_s + LEASE_S, grant.remaining, now_s + grant.reset_s
        if not grant.count:
            pool.shut_until_s = now_s + grant.retry_after_us / SECOND_US
            return Limited(grant.retry_after_us)
        pool.left -= 1
        return Taken(pool.left + grant.remaining, grant.reset_s)

    def _phase(self, tx: Tx, subject: str, *, batch: int, unused: int) -> _Grant:
        scope = {"rule": self.name, "subject": subject}
        found = tx.row("limit.look", **scope)
        if found is None:
            tx.run("limit.begin", **scope)
            found = tx.row("limit.look", **scope)
            assert found is not None
        tat_us, now_us = found[0] - unused * self.rate.interval_us, found[1]
        count = min(batch, self.rate.remaining(tat_us, now_us))
        answer = self.rate.take(tat_us, now_us, max(1, count))
        if answer.tat_us != found[0]:
            tx.run("limit.keep", **scope, tat_us=answer.tat_us)
        return _Grant(
            count if isinstance(answer, Allowed) else 0,
            0 if isinstance(answer, Allowed) else answer.retry_after_us,
            self.rate.remaining(answer.tat_us, now_us),
            self.rate.reset_s(answer.tat_us, now_us),
        )

    def _alone(self, pool: _Pool) -> Taken | Limited:
        return pool.bucket.take() or Taken(pool.bucket.remaining(), pool.bucket.reset_s())

    def _pool(self, subject: str) -> _Pool:
        pool = self._pools.get(subject)
        if pool is not None:
            return pool
        with self._changing:
            while len(self._pools) >= SUBJECTS_MAX:
                del self._pools[next(iter(self._pools))]
            return self._pools.setdefault(subject, _Pool(Bucket(self.rate)))

    def _prune_now_and_then(self) -> None:
        self._leases += 1
        if self._store is None or self._leases % PRUNE_EVERY:
            return
        try:
            self._store.atomic(lambda tx: tx.run("limit.prune", count=PRUNE_ROWS), repeatable=True)
        except Failure:
            return  # a later lease prunes


def _stored(subject: str) -> str:
    """A subject as the table keeps it: short, whatever a client sent as its origin."""
    return subject if len(subject) <= SUBJECT_CHARS_MAX and subject.isprintable() else digest(subject)
