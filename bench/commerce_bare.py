"""The same writes as the ledger's, by hand: two transactions for each pair, on the same tables."""

from __future__ import annotations

import sqlite3
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import count
from time import perf_counter
from typing import Any, Protocol

from psycopg_pool import ConnectionPool

from bench.commerce_ledger import AMOUNT, BUDGET, Filled

POOL = 16
"""As many connections as a store has."""
_RUNS = count(1)
TABLE = "holdfast_commerce"
HOLD = (
    f"UPDATE {TABLE}_wallet SET available = available - :budget, held = held + :budget"
    " WHERE id = :wallet AND available >= :budget",
    f"INSERT INTO {TABLE}_reservation (id, instance_id, run_id, wallet_id, budget, state, late, expires_us, created_us)"
    " VALUES (:id, :instance, :run, :wallet, :budget, 'held', 0, :now + 900000000, :now)",
)
SETTLE = (
    f"UPDATE {TABLE}_reservation SET state = 'settled', charged = :amount, asked = :amount, entry_id = :entry,"
    " ended_us = :now WHERE id = :id AND state = 'held'",
    f"UPDATE {TABLE}_wallet SET held = held - :budget, available = available + :budget - :amount,"
    " spent = spent + :amount, entry_count = entry_count + 1 WHERE id = :wallet"
    " RETURNING available, held, spent, paid_in, entry_count",
    f"INSERT INTO {TABLE}_entry (wallet_id, number, id, kind, credits, available, held, spent, paid_in, instance_id,"
    " reservation_id, run_id, late, shortfall, created_us) VALUES (:wallet, :number, :entry, 'charge', :amount,"
    " :available, :held, :spent, :paid_in, :instance, :id, :run, 0, 0, :now)",
)

Run = Callable[[str, dict[str, Any]], Any]
"""Runs a statement in the transaction; the first row of what it answers."""


class Bare(Protocol):
    """Books pairs."""

    def pairs(self, place: Filled, *, clients: int, seconds: float) -> float:
        """Pairs of authorize and settle per second, from `clients` concurrent threads."""
        ...


@contextmanager
def bare_of(database: str) -> Iterator[Bare]:
    """Bare SQL for a database."""
    if database.startswith("sqlite"):
        connection = sqlite3.connect(database.removeprefix("sqlite:///"), isolation_level=None, check_same_thread=False)
        connection.execute("PRAGMA journal_mode = WAL")
        connection.execute("PRAGMA synchronous = FULL")
        yield _Threads(_OneWriter(connection).transaction)
        connection.close()
        return
    with ConnectionPool(database, min_size=POOL, max_size=POOL, timeout=60) as pool:
        yield _Threads(_Pooled(pool).transaction)


class _OneWriter:
    """SQLite takes one writer: they wait for each other here rather than at its lock, which is faster."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        self._connection = connection
        self._lock = threading.Lock()

    def transaction(self, phase: Callable[[Run], None]) -> None:
        with self._lock:
            self._connection.execute("BEGIN IMMEDIATE")
            phase(lambda statement, given: self._connection.execute(statement, given).fetchone())
            self._connection.execute("COMMIT")


class _Pooled:
    def __init__(self, pool: Any) -> None:
        self._pool = pool

    def transaction(self, phase: Callable[[Run], None]) -> None:
        with self._pool.connection() as connection:

            def run(statement: str, given: dict[str, Any]) -> Any:
                cursor = connection.execute(_psycopg(statement), given, prepare=True)
                return cursor.fetchone() if cursor.description is not None else None

            phase(run)


_translated: dict[str, str] = {}


def _psycopg(statement: str) -> str:
    if statement not in _translated:
        import re

        _translated[statement] = re.sub(r":(\w+)", r"%(\1)s", statement)
    return _translated[statement]


class _Threads:
    def __init__(self, transaction: Callable[[Callable[[Run], None]], None]) -> None:
        self._transaction = transaction

    def pairs(self, place: Filled, *, clients: int, seconds: float) -> float:
        done = [0] * clients
        until_s = perf_counter() + seconds

        def client(number: int) -> None:
            while perf_counter() < until_s:
                self._pair(place, number)
                done[number] += 1

        threads = [threading.Thread(target=client, args=(number,)) for number in range(clients)]
        begun_s = perf_counter()
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        return sum(done) / (perf_counter() - begun_s)

    def _pair(self, place: Filled, number: int) -> None:
        run = next(_RUNS)
        at = (run * 7 + number) % len(place.instances)
        given: dict[str, Any] = {
            "wallet": place.wallets[at],
            "instance": place.instances[at],
            "run": f"bare-{run}",
            "id": f"res_bare_{run}",
            "entry": f"led_bare_{run}",
            "budget": BUDGET,
            "amount": AMOUNT,
            "now": 1_700_000_000_000_000,
        }

        def hold(execute: Run) -> None:
            for statement in HOLD:
                execute(statement, given)

        def settle(execute: Run) -> None:
            execute(SETTLE[0], given)
            available, held, spent, paid_in, entries = execute(SETTLE[1], given)
            after = {"available": available, "held": held, "spent": spent, "paid_in": paid_in, "number": entries}
            execute(SETTLE[2], {**given, **after})

        self._transaction(hold)
        self._transaction(settle)
