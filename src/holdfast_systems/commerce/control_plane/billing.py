"""What authorizing, settling and releasing do to a wallet: pure decisions on rows that are locked.

Always true: available + held + spent = paid in, before and after every operation; a settled reservation has one entry
for ever. A settle that comes after its reservation expired (the sweep has given the credits back) charges what is still
available, at most what was asked for; the rest is written down as the shortfall and is not collected later.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from holdfast.catalog import Failure
from holdfast_systems.commerce.faults import (
    COMMERCE,
    INSTANCE_NOT_FOUND,
    INSTANCE_PAUSED,
    INSUFFICIENT_CREDITS,
    RESERVATION_NOT_FOUND,
    RESERVATION_RELEASED,
    RESERVATION_SETTLED,
    SETTLE_EXCEEDS_RESERVATION,
)
from holdfast_systems.commerce.model import ENTRY, RESERVATION, InstanceStatus, ReservationState, make_id

MISMATCH = COMMERCE["IDEMPOTENCY_PAYLOAD_MISMATCH"]
HELD, SETTLED, RELEASED, EXPIRED = ReservationState


@dataclass(frozen=True, slots=True)
class Authorize:
    """Hold credits for a run."""

    instance_id: str
    run_id: str
    budget: int
    tenant: str = ""
    """Whose objects the caller sees; empty is everybody's."""


@dataclass(frozen=True, slots=True)
class Settle:
    """Charge what a run used, and give back the rest."""

    reservation_id: str
    amount: int
    tenant: str = ""


@dataclass(frozen=True, slots=True)
class Release:
    """Give everything back: the run did not happen."""

    reservation_id: str
    tenant: str = ""


@dataclass(frozen=True, slots=True)
class Expire:
    """Give everything back, because nobody has settled in time."""

    reservation_id: str
    tenant: str = ""


Operation = Authorize | Settle | Release | Expire
Answer = dict[str, Any]


@dataclass(slots=True)
class Wallet:
    """The row of a wallet, as it will be."""

    id: str
    tenant: str
    available: int
    held: int
    spent: int
    paid_in: int
    entry_count: int


@dataclass(slots=True)
class Reservation:
    """The row of a reservation, as it will be."""

    id: str
    instance_id: str
    run_id: str
    wallet_id: str
    budget: int
    state: str
    charged: int | None = None
    asked: int | None = None
    late: int = 0
    entry_id: str | None = None


@dataclass(frozen=True, slots=True)
class Instance:
    """What billing has to know about an instance."""

    id: str
    tenant: str
    wallet_id: str
    status: str


@dataclass(slots=True)
class Book:
    """The rows that a batch of operations concerns, and what the operations change."""

    instances: dict[str, Instance]
    wallets: dict[str, Wallet]
    reservations: dict[str, Reservation]
    runs: dict[tuple[str, str], Reservation]
    held: list[Reservation] = field(default_factory=list)
    """Reservations that were not there before."""
    ended: dict[str, str] = field(default_factory=dict)
    """Reservations that were there and changed, with the state that they had."""
    entries: list[tuple[Any, ...]] = field(default_factory=list)

    def apply(self, operation: Operation) -> Answer | Failure:
        """Do the operation to the rows; the answer, or why it was refused and changed nothing."""
        match operation:
            case Authorize():
                return self._authorize(operation)
            case Settle():
                return self._settle(operation)
            case Release() | Expire():
                return self._give_back(operation)

    def _authorize(self, asked: Authorize) -> Answer | Failure:
        instance = self.instances.get(asked.instance_id)
        if instance is None or not _sees(asked.tenant, instance.tenant):
            return INSTANCE_NOT_FOUND(instanceId=asked.instance_id)
        known = self.runs.get((asked.instance_id, asked.run_id))
        if known is not None:
            if known.budget != asked.budget:
                return MISMATCH(runId=asked.run_id)
            return _allowed(known)
        if instance.status != InstanceStatus.ACTIVE:
            return INSTANCE_PAUSED(instanceId=instance.id)
        wallet = self.wallets[instance.wallet_id]
        if wallet.available < asked.budget:
            code = INSUFFICIENT_CREDITS.code
            return {"allowed": False, "code": code, "balance": wallet.available, "requiredBudget": asked.budget}
        wallet.available -= asked.budget
        wallet.held += asked.budget
        made = Reservation(make_id(RESERVATION), instance.id, asked.run_id, wallet.id, asked.budget, HELD.value)
        self.reservations[made.id] = self.runs[instance.id, asked.run_id] = made
        self.held.append(made)
        return _allowed(made)

    def _settle(self, asked: Settle) -> Answer | Failure:
        known = self._known(asked.reservation_id, asked.tenant)
        if known is None:
            return RESERVATION_NOT_FOUND(reservationId=asked.reservation_id)
        if known.state == RELEASED:
            return RESERVATION_RELEASED(reservationId=known.id)
        if known.state == SETTLED:
            return _settled(known) if known.asked == asked.amount else MISMATCH(reservationId=known.id)
        if asked.amount > known.budget:
            return SETTLE_EXCEEDS_RESERVATION(reservationId=known.id, reserved=known.budget, amount=asked.amount)
        wallet = self.wallets[known.wallet_id]
        late = known.state == EXPIRED
        charged = min(asked.amount, wallet.available) if late else asked.amount
        if late:
            wallet.available -= charged
        else:
            wallet.held -= known.budget
            wallet.available += known.budget - charged
        wallet.spent += charged
        wallet.entry_count += 1
        self._end(known, SETTLED)
        known.charged, known.asked, known.late, known.entry_id = charged, asked.amount, int(late), make_id(ENTRY)
        self.entries.append(_charge(wallet, known))
        return _settled(known)

    def _give_back(self, asked: Release | Expire) -> Answer | Failure:
        known = self._known(asked.reservation_id, asked.tenant)
        if known is None:
            return RESERVATION_NOT_FOUND(reservationId=asked.reservation_id)
        if known.state == SETTLED:
            return RESERVATION_SETTLED(reservationId=known.id, ledgerEntryId=known.entry_id)
        if known.state == HELD:
            wallet = self.wallets[known.wallet_id]
            wallet.held -= known.budget
            wallet.available += known.budget
            self._end(known, RELEASED if isinstance(asked, Release) else EXPIRED)
        elif known.state == EXPIRED and isinstance(asked, Release):
            # The credits are back already; from now on nothing can be charged either.
            self._end(known, RELEASED)
        return {"reservationId": known.id, "released": known.budget}

    def _known(self, reservation_id: str, tenant: str) -> Reservation | None:
        known = self.reservations.get(reservation_id)
        return known if known is not None and _sees(tenant, self.wallets[known.wallet_id].tenant) else None

    def _end(self, known: Reservation, state: ReservationState) -> None:
        self.ended.setdefault(known.id, known.state)
        known.state = state.value


def _sees(tenant: str, owner: str) -> bool:
    return not tenant or tenant == owner


def _allowed(known: Reservation) -> Answer:
    return {"allowed": True, "reservationId": known.id, "budget": known.budget}


def _settled(known: Reservation) -> Answer:
    assert known.asked is not None
    assert known.charged is not None
    answer = {"ledgerEntryId": known.entry_id, "charged": known.charged, "reservationId": known.id}
    return {**answer, "late": True, "shortfall": known.asked - known.charged} if known.late else answer


def _charge(wallet: Wallet, known: Reservation) -> tuple[Any, ...]:
    assert known.asked is not None
    assert known.charged is not None
    place = (wallet.id, wallet.entry_count, known.entry_id, known.charged)
    after = (wallet.available, wallet.held, wallet.spent, wallet.paid_in)
    return (*place, *after, known.instance_id, known.id, known.run_id, known.late, known.asked - known.charged)
