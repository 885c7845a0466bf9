"""The proof that every credit is where it should be: each wallet beside its entries and its reservations."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from holdfast.store import Store

PAGE_ROWS = 500


@dataclass(frozen=True, slots=True)
class Finding:
    """Something that does not add up."""

    wallet_id: str
    """Empty for what belongs to no wallet."""
    problem: str

    def document(self) -> dict[str, str]:
        """For programs."""
        return {"walletId": self.wallet_id, "problem": self.problem}


@dataclass(frozen=True, slots=True, kw_only=True)
class Proof:
    """What was looked at, and what does not add up."""

    wallets: int
    entries: int
    available: int
    held: int
    spent: int
    paid_in: int
    findings: tuple[Finding, ...]

    @property
    def holds(self) -> bool:
        """Whether everything adds up."""
        return not self.findings

    def document(self) -> dict[str, Any]:
        """For programs."""
        return {
            "holds": self.holds,
            "wallets": self.wallets,
            "entries": self.entries,
            "available": self.available,
            "held": self.held,
            "spent": self.spent,
            "paidIn": self.paid_in,
            "findings": [finding.document() for finding in self.findings],
        }


def prove(store: Store) -> Proof:
    """Look at every wallet; it changes nothing and may run while credits move."""
    totals = dict.fromkeys(("wallets", "entries", "available", "held", "spent", "paid_in"), 0)
    findings = list(_orphans(store))
    for row in _wallets(store):
        totals["wallets"] += 1
        for name in ("entries", "available", "held", "spent", "paid_in"):
            totals[name] += row[name]
        findings += [Finding(row["id"], problem) for problem in problems(row)]
    return Proof(**totals, findings=tuple(findings))


def problems(row: dict[str, Any]) -> Iterator[str]:
    """What does not add up in a wallet."""
    parts = row["available"] + row["held"] + row["spent"]
    if parts != row["paid_in"]:
        yield f"available + held + spent is {parts}, and {row['paid_in']} was paid in"
    for name, other, what in (
        ("paid_in", "entries_paid_in", "its entries pay in"),
        ("spent", "entries_spent", "its entries charge"),
        ("held", "reservations_held", "its reservations hold"),
        ("entry_count", "entries", "its entries number"),
    ):
        if row[name] != row[other]:
            yield f"{name} is {row[name]}, but {what} {row[other]}"
    if row["unmatched"]:
        yield f"{row['unmatched']} charges differ from their reservations"
    if row["broken"]:
        yield f"{row['broken']} entries do not follow from the one before"


def _wallets(store: Store) -> Iterator[dict[str, Any]]:
    after = ""
    while True:
        place = after
        page = store.atomic(lambda tx: tx.records("ledger.proofs", after=place, count=PAGE_ROWS), write=False)  # noqa: B023
        # Sums come as decimals from one engine.
        yield from (
            {name: value if isinstance(value, str) else int(value) for name, value in row.items()} for row in page
        )
        if len(page) < PAGE_ROWS:
            return
        after = page[-1]["id"]


def _whole(row: dict[str, Any]) -> dict[str, Any]:
    """Sums come as decimals from one engine."""
    return {name: value if isinstance(value, str) else int(value) for name, value in row.items()}


def _orphans(store: Store) -> Iterator[Finding]:
    (row,) = store.atomic(lambda tx: tx.records("ledger.orphans"), write=False)
    for name, what in (
        ("uncharged", "settled reservations have no charge"),
        ("entries", "entries belong to no wallet"),
        ("reservations", "reservations belong to no wallet"),
    ):
        if row[name]:
            yield Finding("", f"{row[name]} {what}")
