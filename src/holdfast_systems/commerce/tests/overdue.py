"""The end of a lease, without waiting for it."""

from __future__ import annotations

from holdfast.store import Store

OVER = "UPDATE holdfast_commerce_run SET lease_until_us = 1 WHERE lease_until_us IS NOT NULL"


def runs_are_overdue(store: Store) -> None:
    """Let the leases of all runs be over, as they are some 80 s after the only gateway died with them."""
    store.atomic(lambda tx: tx._execute(OVER, {}))
