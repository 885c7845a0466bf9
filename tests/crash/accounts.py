"""The books after a crash: every job and every event, read past the engine, and what is wrong with them."""

from __future__ import annotations

import re
import sqlite3
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from holdfast.store import Engine, read_address

MOVES = ("claimed", "finished", "retried", "snoozed", "released", "reclaimed", "failed", "cancelled", "revived")
EVENTS = "SELECT subject, verb FROM holdfast_job_event WHERE verb <> 'enqueued' ORDER BY subject, position"
GIVEN_BACK = ("released", "snoozed")
# A claim is followed by exactly one settlement; what came too late is written down and moves nothing.
LIFE = re.compile(r"enqueued( claimed (retried|snoozed|released|reclaimed|cancelled revived|failed revived))*")
END = {
    "queued": "",
    "processing": " claimed",
    "complete": " claimed finished",
    "failed": "(?: claimed)? (?:failed|cancelled)",
}


class Connection:
    """Plain SQL on either engine."""

    def __init__(self, url: str) -> None:
        address = read_address(url)
        self._sqlite: sqlite3.Connection | None = None
        if address.engine is Engine.SQLITE:
            self._sqlite = sqlite3.connect(address.target, isolation_level=None, timeout=30)
        self.target = address.target

    def rows(self, statement: str) -> list[tuple[Any, ...]]:
        if self._sqlite is not None:
            return self._sqlite.execute(statement).fetchall()
        import psycopg

        with psycopg.connect(self.target, autocommit=True, connect_timeout=10) as connection:
            cursor = connection.execute(statement.encode())
            return cursor.fetchall() if cursor.description else []

    def close(self) -> None:
        if self._sqlite is not None:
            self._sqlite.close()


@dataclass(slots=True)
class Account:
    """One job as it stands, and all that happened to it."""

    id: str
    kind: str
    state: str
    token: int
    attempt_count: int
    pardon_count: int
    lease_owner: str | None
    error_code: str | None
    dedupe_key: str | None
    verbs: list[str] = field(default_factory=list)
    effects: int = 0

    def complaints(self) -> Iterable[str]:
        """What does not add up in the life of this job."""
        moves = [verb for verb in self.verbs if verb in MOVES]
        if not re.fullmatch(LIFE.pattern + END[self.state], " ".join(["enqueued", *moves])):
            yield f"{self.state} after {' '.join(self.verbs)}"
        counts = Counter(moves)
        if self.token != sum(counts[verb] for verb in MOVES):
            yield f"token {self.token} after {dict(counts)}"
        if not counts["revived"] and self.attempt_count != counts["claimed"] - sum(counts[v] for v in GIVEN_BACK):
            yield f"attempt {self.attempt_count} after {dict(counts)}"
        if counts["finished"] > 1:
            yield f"finished {counts['finished']} times"
        if (self.lease_owner is not None) != (self.state == "processing"):
            yield f"{self.state}, held by {self.lease_owner}"


@dataclass(slots=True)
class Books:
    """Every job of a database."""

    accounts: dict[str, Account]
    verbs: Counter[str]

    def in_state(self, state: str) -> list[Account]:
        return [account for account in self.accounts.values() if account.state == state]

    def complaints(self) -> list[str]:
        """Everything that does not add up."""
        found = [f"{account.id} ({account.kind}): {what}" for account in self.accounts.values()
                 for what in account.complaints()]  # fmt: skip
        keys = Counter(account.dedupe_key for account in self.accounts.values() if account.dedupe_key is not None)
        return found + [f"{count} jobs have the key {key}" for key, count in keys.items() if count > 1]


def books(url: str) -> Books:
    """Read everything; nobody should write meanwhile."""
    connection = Connection(url)
    try:
        columns = "id, kind, state, token, attempt_count, pardon_count, lease_owner, error_code, dedupe_key"
        accounts = {row[0]: Account(*row) for row in connection.rows(f"SELECT {columns} FROM holdfast_job")}
        verbs: Counter[str] = Counter()
        for subject, verb in connection.rows(EVENTS):
            verbs[verb] += 1
            if subject in accounts:
                accounts[subject].verbs.append(verb)
        for job_id, count in connection.rows("SELECT job_id, count(*) FROM effect GROUP BY job_id"):
            accounts[job_id].effects = count
        return Books(accounts, verbs)
    finally:
        connection.close()


def states(url: str) -> dict[str, int]:
    """How many jobs are in each state now."""
    connection = Connection(url)
    try:
        return dict(connection.rows("SELECT state, count(*) FROM holdfast_job GROUP BY state"))
    finally:
        connection.close()


def rows(url: str, statement: str) -> list[tuple[Any, ...]]:
    """One look at the database."""
    connection = Connection(url)
    try:
        return connection.rows(statement)
    finally:
        connection.close()


def make_effect_table(url: str) -> None:
    """The table that handlers write their effects to: it lets an effect happen twice, so that it can be seen."""
    rows(url, "CREATE TABLE effect (job_id TEXT NOT NULL, attempt INTEGER NOT NULL, process INTEGER NOT NULL)")
