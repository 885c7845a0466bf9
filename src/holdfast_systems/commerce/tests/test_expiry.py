"""Reservations that nobody settled in time: the sweep, and settles that come after it."""

from __future__ import annotations

from pathlib import Path

import pytest

from holdfast.catalog import Failure
from holdfast.store import Store
from holdfast.testing.processes import wait_until
from holdfast_systems.commerce.control_plane.billing import Authorize, Release, Settle
from holdfast_systems.commerce.control_plane.ledger import Ledger

from .live import PATIENCE_S, Live, running
from .shop import PLANE, authorize, bought, wallet

SOON = 0.000_001
LONG = 3_600.0


def swept(store: Store, live: Live, *, budget: int = 60) -> tuple[dict[str, str], str]:
    """A reservation that was held for next to no time, and released by the sweep."""
    made = bought(live)
    ledger = Ledger(store, reservation_s=SOON)
    reservation = ledger.book(Authorize(made["instanceId"], "r1", budget))["reservationId"]
    assert wallet(live, made["walletId"]) == (100 - budget, budget, 0, 100)
    assert ledger.sweep() == 1
    assert wallet(live, made["walletId"]) == (100, 0, 0, 100)
    return made, reservation


def test_the_sweep_releases_what_has_expired_and_nothing_else(live: Live, store: Store) -> None:
    made = bought(live)
    Ledger(store, reservation_s=LONG).book(Authorize(made["instanceId"], "r0", 7))
    short = Ledger(store, reservation_s=SOON)
    for number in range(1, 4):
        short.book(Authorize(made["instanceId"], f"r{number}", 5))
    assert short.sweep() == 3
    assert short.sweep() == 0
    assert wallet(live, made["walletId"]) == (93, 7, 0, 100)


def test_a_late_settle_charges_what_was_used_and_says_that_it_was_late(live: Live, store: Store) -> None:
    made, reservation = swept(store, live)
    ledger = Ledger(store, reservation_s=LONG)
    first = ledger.book(Settle(reservation, 40))
    assert (first["charged"], first["late"], first["shortfall"]) == (40, True, 0)
    assert ledger.book(Settle(reservation, 40)) == first
    assert wallet(live, made["walletId"]) == (60, 0, 40, 100)
    entry = live.get(PLANE, f"/wallets/{made['walletId']}/entries").json()["entries"][0]
    assert (entry["ledgerEntryId"], entry["late"], entry["shortfall"]) == (first["ledgerEntryId"], True, 0)


def test_a_late_settle_charges_at_most_what_is_available_and_writes_down_the_shortfall(
    live: Live, store: Store
) -> None:
    made, reservation = swept(store, live)
    assert authorize(live, made["instanceId"], "r2", 90).json()["allowed"]
    first = Ledger(store, reservation_s=LONG).book(Settle(reservation, 60))
    assert (first["charged"], first["shortfall"]) == (10, 50)
    assert wallet(live, made["walletId"]) == (0, 90, 10, 100)
    assert Ledger(store, reservation_s=LONG).book(Settle(reservation, 60)) == first


def test_a_late_settle_above_the_reservation_is_refused(live: Live, store: Store) -> None:
    _, reservation = swept(store, live)
    with pytest.raises(Failure, match="SETTLE_EXCEEDS_RESERVATION"):
        Ledger(store, reservation_s=LONG).book(Settle(reservation, 61))


def test_what_expired_and_was_then_released_is_never_charged(live: Live, store: Store) -> None:
    made, reservation = swept(store, live)
    ledger = Ledger(store, reservation_s=LONG)
    assert ledger.book(Release(reservation)) == ledger.book(Release(reservation))
    with pytest.raises(Failure, match="RESERVATION_RELEASED"):
        ledger.book(Settle(reservation, 1))
    assert wallet(live, made["walletId"]) == (100, 0, 0, 100)


def test_one_that_has_expired_but_was_not_swept_is_settled_in_full(live: Live, store: Store) -> None:
    made = bought(live)
    ledger = Ledger(store, reservation_s=SOON)
    reservation = ledger.book(Authorize(made["instanceId"], "r1", 30))["reservationId"]
    settled = ledger.book(Settle(reservation, 30))
    assert (settled["charged"], settled.get("late")) == (30, None)
    assert ledger.sweep() == 0
    assert wallet(live, made["walletId"]) == (70, 0, 30, 100)


def test_the_clock_starts_the_sweep(store: Store, tmp_path: Path) -> None:
    with running(store, tmp_path / "commerce", reservation_s="0.001", sweep_every_s="1") as live:
        made = bought(live)
        assert authorize(live, made["instanceId"], "r1", 60).json()["allowed"]
        wait_until(
            lambda: wallet(live, made["walletId"]) == (100, 0, 0, 100),
            within_s=PATIENCE_S,
            what="the reservation is released",
        )
