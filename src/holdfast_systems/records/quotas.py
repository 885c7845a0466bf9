"""Quotas: how many requests an account may send in a minute, a day and a month.

The store keeps one truth. A process takes a few requests of a quota at once and counts them down by itself; near the
end of a quota it takes one at a time, so that no request too many passes. What is not limited is counted all the same,
once a second. While the store takes no writes, requests are let through uncounted: those that need it fail anyway.
"""

from __future__ import annotations

import threading
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

from holdfast.base import monotonic_s, now_us, utc_text
from holdfast.catalog import Failure
from holdfast.http.aside import aside
from holdfast.http.exchange import Exchange
from holdfast.http.leases import Leases
from holdfast.operate import Actor, carry_out
from holdfast.policy import Limited, RateLimit
from holdfast.store import Store, Tx
from holdfast_systems.records.faults import QUOTA_EXCEEDED, RATE_LIMIT_EXCEEDED

REMEMBERED_S = 1.0
"""How long a process goes on with what it knows of an account."""
SHARE = 20
"""No process takes more than this part of what is left of a quota."""
BLOCK_MAX = 100
ACCOUNTS_MAX = 10_000
MINUTE_S = 60.0
RATES_MAX = 1_000
DAILY, MONTHLY = "daily", "monthly"


@dataclass(frozen=True, slots=True)
class Quota:
    """What an account may ask for; None is as much as it likes."""

    daily: int | None = None
    monthly: int | None = None
    per_minute: int | None = None

    def shown(self) -> dict[str, int | None]:
        """As the API tells it."""
        return {"daily": self.daily, "monthly": self.monthly, "per_minute": self.per_minute}


@dataclass(slots=True)
class _Account:
    """What this process knows of one account."""

    lock: threading.Lock = field(default_factory=threading.Lock)
    quota: Quota = field(default_factory=Quota)
    periods: tuple[str, str] = ("", "")
    until_s: float = float("-inf")
    left: int = 0
    """Requests that were taken from the store and are not used yet; without a quota, none are taken."""
    uncounted: int = 0
    refusal: Failure | None = None

    def quick(self, now_s: float, periods: tuple[str, str]) -> bool:
        """Count one request without asking anybody; False when the store has to be asked."""
        if now_s >= self.until_s or periods != self.periods:
            return False
        if self.quota.daily is None and self.quota.monthly is None:
            self.uncounted += 1
            return True
        if self.left <= 0:
            return False
        self.left -= 1
        return True


class Quotas:
    """The quotas of all accounts, as this process sees them."""

    def __init__(self, store: Store, *, per_minute: int) -> None:
        self._store = store
        self._per_minute = per_minute
        self._accounts: dict[str, _Account] = {}
        self._rates: dict[int, Leases] = {}

    async def check(self, exchange: Exchange, account_id: str) -> None:
        """Count a request of the account.

        Raises:
            Failure: RATE_LIMIT_EXCEEDED, QUOTA_EXCEEDED.
        """
        account = self._account(account_id)
        if not self._quick(account):
            await aside(lambda: self._take(account, account_id))
        await self._check_rate(exchange, account_id, account.quota.per_minute or self._per_minute)

    def read(self, account_id: str) -> tuple[Quota, dict[str, int]]:
        """The quota of an account, and what it has used today and this month."""
        day, month = periods(now_us())

        def phase(tx: Tx) -> tuple[Quota, dict[str, int]]:
            used: dict[str, int] = dict(tx.rows("records_access.usage", account_id=account_id, periods=[day, month]))
            return _quota(tx, account_id), {DAILY: used.get(day, 0), MONTHLY: used.get(month, 0)}

        return self._store.atomic(phase, write=False)

    def set(self, account_id: str, quota: Quota, *, actor: Actor, reason: str | None = None) -> None:
        """Let this be the quota of the account; in other processes within a second."""
        said = ", ".join(f"{name} {limit}" for name, limit in quota.shown().items() if limit is not None)
        carry_out(
            self._store,
            "set",
            f"quota:{account_id}",
            lambda tx: tx.run("records_access.set_quota", account_id=account_id, **quota.shown()),
            actor=actor,
            reason=reason or said or "no limit",
        )
        self._account(account_id).until_s = float("-inf")

    def _account(self, account_id: str) -> _Account:
        account = self._accounts.get(account_id)
        if account is None:
            while len(self._accounts) >= ACCOUNTS_MAX:
                del self._accounts[next(iter(self._accounts))]
            account = self._accounts.setdefault(account_id, _Account())
        return account

    def _quick(self, account: _Account) -> bool:
        # The lock is held for as long as another thread asks the store; the event loop must not wait for that.
        if not account.lock.acquire(blocking=False):
            return False
        try:
            return account.quick(monotonic_s(), periods(now_us()))
        finally:
            account.lock.release()

    def _take(self, account: _Account, account_id: str) -> None:
        with account.lock:
            asked_s, current = monotonic_s(), periods(now_us())
            if account.quick(asked_s, current):
                return
            given_back = account.left if current == account.periods else 0
            counted = account.uncounted if current == account.periods else 0
            try:
                quota, taken, refusal = self._store.atomic(
                    lambda tx: _phase(tx, account_id, current, given_back=given_back, counted=counted)
                )
            except Failure:
                # Reads may still be answered, by a standby for one; what needs the store fails for that reason.
                account.until_s = asked_s + REMEMBERED_S
                return
            account.quota, account.periods, account.until_s = quota, current, asked_s + REMEMBERED_S
            account.left, account.uncounted = max(0, taken - 1), 0
            if refusal is not None:
                raise refusal

    async def _check_rate(self, exchange: Exchange, account_id: str, per_minute: int) -> None:
        leases = self._rates.get(per_minute)
        if leases is None:
            if len(self._rates) >= RATES_MAX:
                self._rates.clear()
            rate = RateLimit(count=per_minute, per_s=MINUTE_S)
            leases = self._rates.setdefault(per_minute, Leases(f"records-{per_minute}", rate, self._store))
        found = leases.quick(account_id)
        if found is None:
            found = await aside(lambda: leases.take(account_id))
        remaining = 0 if isinstance(found, Limited) else min(found.remaining, per_minute)
        policy, left = f'"account";q={per_minute};w=60', f'"account";r={remaining}'
        exchange.headers += [(b"ratelimit-policy", policy.encode()), (b"ratelimit", left.encode())]
        if isinstance(found, Limited):
            raise RATE_LIMIT_EXCEEDED(retry_after_s=found.retry_after_s, **leases.rate.details(found))


def periods(at_us: int) -> tuple[str, str]:
    """The day and the month of a moment, as usage is kept under: `2024-08-28` and `2024-08`."""
    day = utc_text(at_us)[:10]
    return day, day[:7]


def resets_us(quota: str, at_us: int) -> int:
    """When a daily or monthly quota begins anew."""
    moment = datetime.fromtimestamp(at_us // 1_000_000, UTC).replace(hour=0, minute=0, second=0, microsecond=0)
    if quota == DAILY:
        return int(moment.timestamp()) * 1_000_000 + 86_400_000_000
    following = moment.replace(day=1, month=moment.month % 12 + 1, year=moment.year + moment.month // 12)
    return int(following.timestamp()) * 1_000_000


def _phase(
    tx: Tx, account_id: str, current: tuple[str, str], *, given_back: int, counted: int
) -> tuple[Quota, int, Failure | None]:
    """Take some requests of both quotas; how many, or why none."""
    quota = _quota(tx, account_id)
    limits = dict(zip(current, (quota.daily, quota.monthly), strict=True))
    used = {period: _used(tx, account_id, period) + counted - given_back for period in current}
    limited = [limit - used[period] for period, limit in limits.items() if limit is not None]
    taken = max(0, min(BLOCK_MAX, *(max(left // SHARE, min(left, 1)) for left in limited))) if limited else 0
    refusal = None
    if limited and taken == 0:
        refusal = _refusal(quota, used, current)
    # Without a quota there is nothing to take ahead: what was let through is counted, this request included.
    more = counted - given_back + (taken if limited else 1)
    for period in current:
        tx.run("records_access.use", account_id=account_id, period=period, count=more)
    return quota, taken, refusal


def _quota(tx: Tx, account_id: str) -> Quota:
    found = tx.row("records_access.quota", account_id=account_id)
    return Quota() if found is None else Quota(*found)


def _used(tx: Tx, account_id: str, period: str) -> int:
    found: Any = tx.row("records_access.take", account_id=account_id, period=period)
    return int(found[0])


def _refusal(quota: Quota, used: dict[str, int], current: tuple[str, str]) -> Failure:
    at_us = now_us()
    month_over = quota.monthly is not None and used[current[1]] >= quota.monthly
    name = MONTHLY if month_over else DAILY
    resets = resets_us(name, at_us)
    return QUOTA_EXCEEDED(
        retry_after_s=max(1.0, (resets - at_us) / 1_000_000),
        quota=name,
        limit=quota.monthly if month_over else quota.daily,
        used=used[current[1] if month_over else current[0]],
        resets_at=utc_text(resets),
    )
