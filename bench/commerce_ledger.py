"""The ledger as the control plane uses it: coroutines that book on wallets which were filled before."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import count
from time import perf_counter

from holdfast.store import Store, Tx
from holdfast_systems.commerce import tables
from holdfast_systems.commerce.control_plane import instances, plans, wallets
from holdfast_systems.commerce.control_plane.billing import Authorize, Settle
from holdfast_systems.commerce.control_plane.ledger import Ledger
from holdfast_systems.commerce.control_plane.proof import prove
from holdfast_systems.commerce.model import EntryKind

BUDGET, AMOUNT = 5, 3
CREDITS = 1_000_000_000

_RUNS = count(1)


@dataclass(frozen=True, slots=True)
class Filled:
    """Wallets with plenty of credits, each with an instance."""

    store: Store
    instances: tuple[str, ...]
    wallets: tuple[str, ...]

    def check(self) -> None:
        """Everything that was measured really happened."""
        proof = prove(self.store)
        assert proof.holds, proof.findings[:3]
        assert proof.held == 0, proof.held


@contextmanager
def filled(database: str, count_: int) -> Iterator[Filled]:
    """A fresh database that holds this many wallets."""
    store = Store.open(database)
    store.migrate()
    tables.prepare(store)
    plans.seed(store)

    def phase(tx: Tx) -> list[tuple[str, str]]:
        plan = plans.plan(tx, "agent-basic")
        made = []
        for number in range(count_):
            wallet = wallets.opened(tx, f"tenant-{number}")
            wallets.pay_in(tx, wallet, wallets.Payment(kind=EntryKind.TOPUP, credits=CREDITS, key="first"))
            new = instances.NewInstance(tenant=wallet.tenant, wallet_id=wallet.id, plan=plan)
            made.append((instances.add(tx, new), wallet.id))
        return made

    made = store.atomic(phase)
    try:
        yield Filled(store, tuple(one for one, _ in made), tuple(one for _, one in made))
    finally:
        store.close()


def pairs(ledger: Ledger, place: Filled, *, clients: int, seconds: float) -> float:
    """Pairs of authorize and settle in a second."""

    async def window() -> float:
        until_s = perf_counter() + seconds
        done = 0

        async def client(number: int) -> None:
            nonlocal done
            while perf_counter() < until_s:
                run = next(_RUNS)
                instance = place.instances[(run * 7 + number) % len(place.instances)]
                held = await ledger.book_async(Authorize(instance, f"run-{run}", BUDGET))
                await ledger.book_async(Settle(held["reservationId"], AMOUNT))
                done += 1

        begun_s = perf_counter()
        await asyncio.gather(*(client(number) for number in range(clients)))
        return done / (perf_counter() - begun_s)

    return asyncio.run(window())
