"""What the whole system keeps in the store: its schema, the numbers of ids, and what all processes agree on."""

from __future__ import annotations

import threading
from typing import Any

from holdfast.base import now_us, utc_text
from holdfast.store import Store, Tx
from holdfast_systems.records.model import Kind, day_of, uid

PACKAGE = "holdfast_systems.records"
SYSTEM = "records"
BLOCK = 100
"""Number of id numbers that a process takes at once; those that it does not use are never used."""


def prepare(store: Store) -> None:
    """Bring the schema up to date and read the statements. Safe when many processes start at once."""
    store.migrate(PACKAGE, system=SYSTEM)
    store.load(PACKAGE)


def setting(tx: Tx, name: str) -> str | None:
    """The value that counts for all processes; None when there is none."""
    found = tx.row("records_access.setting", name=name)
    return None if found is None else str(found[0])


class Numbers:
    """Gives out the ids of companies and people. Threads may share it."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._lock = threading.Lock()
        self._left: dict[tuple[Kind, str], list[int]] = {}

    def one(self, kind: Kind) -> str:
        """A new id; most need no statement."""
        day = day_of(now_us())
        with self._lock:
            left = self._left.get((kind, day))
            if not left:
                # Yesterday's numbers are of no use any more.
                self._left = {key: value for key, value in self._left.items() if key[1] == day}
                first = self._first(kind, day, BLOCK)
                left = self._left[kind, day] = list(range(first + BLOCK - 1, first - 1, -1))
            return uid(kind, day, left.pop())

    def many(self, kind: Kind, count: int) -> list[str]:
        """This many new ids, in order, by one statement."""
        day = day_of(now_us())
        first = self._first(kind, day, count)
        return [uid(kind, day, number) for number in range(first, first + count)]

    def _first(self, kind: Kind, day: str, count: int) -> int:
        found = self._store.single("records.number", repeatable=True, kind=kind.value, day=day, count=count)
        return int(found[0][0]) - count


def shown(row: dict[str, Any], **names: str) -> dict[str, Any]:
    """A row as the API tells it: moments as text, and other names where they are given."""
    return {
        names.get(name, name.replace("_us", "_at") if name.endswith("_us") else name): (
            utc_text(value) if name.endswith("_us") and value is not None else value
        )
        for name, value in row.items()
    }
