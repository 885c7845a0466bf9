"""Many at once on one wallet, and the same order many times at once: on both engines, in one process."""

from __future__ import annotations

import asyncio
import os
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import httpx

from holdfast.catalog import Failure
from holdfast.store import Store
from holdfast_systems.commerce.control_plane.billing import Authorize, Release, Settle
from holdfast_systems.commerce.control_plane.ledger import Ledger
from holdfast_systems.commerce.control_plane.proof import prove

from .live import SERVICE, Live
from .shop import PLANE, bought, line, wallet

THREADS = 64
RUNS = int(os.environ.get("HOLDFAST_COMMERCE_RACE", "150"))
BUDGET = 4
STRIDE = 7_919


def test_64_threads_authorize_settle_and_release_on_one_wallet_with_duplicates(live: Live, store: Store) -> None:
    made = bought(live, quantity=RUNS)
    ledger = Ledger(store, reservation_s=3_600)

    def end(run: int, reservation: str) -> Any:
        try:
            if run % 3 == 0:
                return ledger.book(Release(reservation))
            return ledger.book(Settle(reservation, run % (BUDGET + 1)))["ledgerEntryId"]
        except Failure as refused:
            return refused.code

    def whole(run: int) -> tuple[int, str, Any]:
        reservation = ledger.book(Authorize(made["instanceId"], f"r{run}", BUDGET))["reservationId"]
        return run, reservation, end(run, reservation)

    # Everything four times, in an order in which the same ones are now near each other and now far apart.
    work = [number * STRIDE % (4 * RUNS) // 4 for number in range(4 * RUNS)]
    with ThreadPoolExecutor(THREADS) as threads:
        done = list(threads.map(whole, work))
    reservations = {(run, reservation) for run, reservation, _ in done}
    assert len(reservations) == RUNS
    assert len({(run, str(ended)) for run, _, ended in done}) == RUNS
    spent = sum(run % (BUDGET + 1) for run in range(RUNS) if run % 3)
    assert wallet(live, made["walletId"]) == (100 * RUNS - spent, 0, spent, 100 * RUNS)
    assert prove(store).holds


def test_a_wallet_is_never_overdrawn_by_runs_that_come_at_once(live: Live, store: Store) -> None:
    made = bought(live)
    ledgers = [Ledger(store, reservation_s=3_600) for _ in range(4)]

    def ask(run: int) -> bool:
        # As four processes would: each ledger gathers for itself.
        return bool(ledgers[run % 4].book(Authorize(made["instanceId"], f"r{run}", 7))["allowed"])

    with ThreadPoolExecutor(THREADS) as threads:
        allowed = Counter(threads.map(ask, range(64)))
    assert allowed == {True: 14, False: 50}
    assert wallet(live, made["walletId"]) == (2, 98, 0, 100)
    assert prove(store).holds


def test_several_ledgers_with_several_wallets_wait_for_each_other_in_one_order(live: Live, store: Store) -> None:
    made = [bought(live, user=f"u{number}", order=f"O{number}")["instanceId"] for number in range(6)]
    ledgers = [Ledger(store, reservation_s=3_600) for _ in range(4)]

    def whole(run: int) -> None:
        ledger = ledgers[run % 4]
        reservation = ledger.book(Authorize(made[run * 7 % 6], f"r{run}", 1))["reservationId"]
        ledger.book(Settle(reservation, 1))

    with ThreadPoolExecutor(THREADS) as threads:
        list(threads.map(whole, range(240)))
    proof = prove(store)
    assert (proof.holds, proof.spent, proof.held) == (True, 240, 0)


def test_the_same_order_many_times_at_once_makes_one_instance_and_one_entry_for_each_line(served: Live) -> None:
    lines = [{"productSku": "agent-basic"}, {"productSku": "credits-100"}]
    shop = f"{served.standin('saleor')}/orders"
    paid = served.http.post(shop, json={"userId": "u1", "lines": lines}).json()

    async def all_at_once() -> list[httpx.Response]:
        async with httpx.AsyncClient(timeout=100) as client:
            again = [client.post(f"{shop}/{paid['orderId']}/redeliver") for _ in range(12)]
            return list(await asyncio.gather(*again))

    replies = asyncio.run(all_at_once())
    assert {reply.status_code for reply in replies} == {200}
    (account,) = {one["walletId"] for one in paid["delivery"]["reply"]["lines"]}
    assert wallet(served, account) == (200, 0, 0, 200)
    assert len(served.get(PLANE, "/instances?tenant=u1").json()["instances"]) == 1


def test_one_line_from_many_clients_at_once_is_created_once(served: Live) -> None:
    async def all_at_once() -> list[httpx.Response]:
        headers = {**SERVICE, "Idempotency-Key": "saleor:O9:L1"}
        async with httpx.AsyncClient(timeout=100) as client:
            url = f"{served.urls[PLANE]}/integrations/saleor/order-paid"
            asked = [client.post(url, json=line(order="O9", user="u9"), headers=headers) for _ in range(24)]
            return list(await asyncio.gather(*asked))

    replies = asyncio.run(all_at_once())
    assert {reply.status_code for reply in replies} == {200}
    assert Counter(reply.json()["status"] for reply in replies) == {"created": 1, "already_processed": 23}
    assert len({reply.json()["ledgerEntryId"] for reply in replies}) == 1
    assert len(served.get(PLANE, "/instances?tenant=u9").json()["instances"]) == 1
