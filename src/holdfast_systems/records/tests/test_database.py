"""Database errors, provoked on real servers, and how the API tells of them."""

from __future__ import annotations

import asyncio
import os
import subprocess
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import httpx
import psycopg
import pytest

from holdfast.store import Store, Tx, connections
from holdfast.testing.postgres import PostgresServer
from holdfast.testing.processes import wait_until
from holdfast_systems.records import slots

from .live import Live, called, running

KILOBYTES = 1_024


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[PostgresServer]:
    with PostgresServer.start(tmp_path_factory.mktemp("postgres"), fsync=False) as started:
        yield started


def opened(server: PostgresServer, name: str, **settings: Any) -> Store:
    server.drop_database(name)
    store = Store.open(server.create_database(name), **settings)
    store.migrate()
    return store


def test_a_database_that_is_away_is_told_as_such_and_comes_back(
    server: PostgresServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(connections, "WAIT_S", 0.5)
    store = opened(server, "away")
    with called(store, tmp_path) as live:
        account = live.account()
        uid = account.company()
        server.kill()
        for method, path, body in (("GET", f"/companies/{uid}", None), ("POST", "/companies", {"name": "B"})):
            reply = account.ask(method, path, **({"json": body} if body else {}))
            assert (reply.status_code, reply.json()["error_code"]) == (503, "DATABASE_CONNECTION_ERROR")
            assert reply.json()["details"]["database"] == "primary"
            assert reply.json()["details"]["error_type"] in ("connection_refused", "connection_failed")
            assert reply.json()["details"]["retry_recommended"] is True
            assert (reply.json()["retry_after"], reply.headers["retry-after"]) == (30, "30")
        server.restart()
        wait_until(lambda: account.get(f"/companies/{uid}").status_code == 200, within_s=30, what="it is back")
    store.close()


def test_a_pool_that_is_used_up_sheds_instead_of_queueing_for_ever(
    server: PostgresServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(connections, "WAIT_S", 0.5)
    store = opened(server, "pool", pool_max=1)
    with called(store, tmp_path) as live:
        account = live.account()
        assert account.get("/companies").status_code == 200
        inside, go_on = threading.Event(), threading.Event()

        def hold(tx: Tx) -> None:
            tx.now_us()
            inside.set()
            assert go_on.wait(30)

        holder = threading.Thread(target=lambda: store.atomic(hold, write=False))
        holder.start()
        assert inside.wait(30)
        reply = account.get("/companies")
        go_on.set()
        holder.join(30)
        assert (reply.status_code, reply.json()["error_code"]) == (503, "SERVICE_OVERLOADED")
        assert reply.json()["details"]["reason"] == "database_pool_exhausted"
        assert reply.json()["retry_after"] >= 1
        assert account.get("/companies").status_code == 200
    store.close()


class Attempts:
    """Counts how often an assignment is tried, and does something before the first time."""

    def __init__(self, patch: pytest.MonkeyPatch, before_first: Callable[[Tx], None] = lambda tx: None) -> None:
        self.count = 0
        self.errors: list[type[psycopg.Error]] = []
        self._assign = slots.assign
        self._before_first = before_first
        patch.setattr(slots, "assign", self)

    def __call__(self, tx: Tx, *given: Any) -> Any:
        self.count += 1
        if self.count == 1:
            self._before_first(tx)
        try:
            return self._assign(tx, *given)
        except psycopg.Error as error:
            self.errors.append(type(error))
            raise


def test_a_deadlock_is_retried_inside_and_has_one_effect(
    server: PostgresServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = opened(server, "deadlock")
    deadlocks = "SELECT deadlocks FROM pg_stat_database WHERE datname = 'deadlock'"
    with called(store, tmp_path) as live, psycopg.connect(server.dsn("deadlock")) as other:
        account = live.account()
        uid = account.company()
        person = account.person(uid)
        slot = {"company": uid, "person": person}
        attempts = Attempts(monkeypatch)
        assert server.execute(deadlocks)[0][0] == 0
        # The other one waits patiently, so that it is the API's transaction that is rolled back.
        other.execute("SET deadlock_timeout = '30s'")
        other.execute("SELECT 1 FROM holdfast_records_slot WHERE company_uid = %(company)s FOR UPDATE", slot)

        def crosswise() -> None:
            waiting = "SELECT 1 FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND datname = 'deadlock'"
            wait_until(lambda: bool(server.execute(waiting)), within_s=30, what="the API waits for the slot")
            other.execute("SELECT 1 FROM holdfast_records_person WHERE uid = %(person)s FOR UPDATE", slot)
            other.commit()

        thread = threading.Thread(target=crosswise)
        thread.start()
        reply = account.put_slot(f"SL-{uid}-CEO", person)
        thread.join(30)
        assert (reply.status_code, reply.json()["status"]) == (200, "assigned")
        # The server counts it with the end of the transaction, and tells a moment later.
        wait_until(lambda: server.execute(deadlocks)[0][0] == 1, within_s=30, what="the deadlock is counted")
        assert attempts.errors == [psycopg.errors.DeadlockDetected]
        assert attempts.count == 2, "the first time it was rolled back, the second time it was done"
        assert reply.json()["previous_occupant"] is None
        assert account.get(f"/companies/{uid}").json()["slots"][0]["person_uid"] == person
    store.close()


def test_a_serialisation_failure_is_retried_inside_and_has_one_effect(
    server: PostgresServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = repeatable(server, "serialisation")
    with called(store, tmp_path) as live, psycopg.connect(server.dsn("serialisation")) as other:
        account = live.account()
        uid = account.company()
        person = account.person(uid)

        def change_meanwhile(tx: Tx) -> None:
            tx.now_us()  # from here on the transaction sees the database as it is now
            other.execute("UPDATE holdfast_records_person SET role = 'meanwhile' WHERE uid = %s", [person])
            other.commit()

        attempts = Attempts(monkeypatch, change_meanwhile)
        reply = account.put_slot(f"SL-{uid}-CEO", person)
        assert (reply.status_code, reply.json()["status"]) == (200, "assigned")
        assert attempts.errors == [psycopg.errors.SerializationFailure]
        assert attempts.count == 2, "the first time it was rolled back, the second time it was done"
        assert account.get(f"/companies/{uid}").json()["slots"][0]["person_uid"] == person
    store.close()


def repeatable(server: PostgresServer, name: str) -> Store:
    """A store whose transactions see the database as it was when they began."""
    server.drop_database(name)
    server.create_database(name)
    server.execute(f"ALTER DATABASE {name} SET default_transaction_isolation = 'repeatable read'")
    store = Store.open(server.dsn(name))
    store.migrate()
    return store


def test_serialisation_failures_are_retried_inside_and_one_racer_wins(server: PostgresServer, tmp_path: Path) -> None:
    store = repeatable(server, "serial")
    with running(store, tmp_path, QUEUEING_TARGET_S="60") as live:
        account = live.account()
        uid = account.company()
        people = [account.person(uid, f"P{number}") for number in range(20)]
        replies = asyncio.run(race(live, account.key, f"/records/v1/slots/SL-{uid}-CEO", people))
        assert sorted(reply.status_code for reply in replies) == [200, *[409] * 19]
    store.close()


async def race(live: Live, key: str, path: str, people: list[str]) -> list[httpx.Response]:
    headers = {"Authorization": f"Bearer {key}"}
    async with httpx.AsyncClient(base_url=live.url, headers=headers, timeout=60) as http:
        return await asyncio.gather(*(http.put(path, json={"person_uid": one}) for one in people))


def test_a_read_only_standby_tells_writers_to_come_back(server: PostgresServer, tmp_path: Path) -> None:
    store = opened(server, "primary")
    with called(store, tmp_path) as live, server.standby(tmp_path / "standby", synchronous=True) as standby:
        account = live.account()
        primary, replica = store.database, Store.open(standby.dsn("primary")).database
        store.database = replica
        try:
            reply = account.post("/companies", {"name": "B"})
        finally:
            store.database = primary
            replica.close()
        assert (reply.status_code, reply.json()["error_code"]) == (503, "DATABASE_CONNECTION_ERROR")
        assert reply.json()["details"]["error_type"] == "read_only"
        server.execute("ALTER SYSTEM RESET synchronous_standby_names")
        server.execute("SELECT pg_reload_conf()")
    store.close()


def test_of_many_who_create_one_website_one_does(store: Store, tmp_path: Path) -> None:
    with running(store, tmp_path, QUEUEING_TARGET_S="60") as live:
        account = live.account()

        async def all_at_once() -> list[httpx.Response]:
            headers = {"Authorization": f"Bearer {account.key}"}
            async with httpx.AsyncClient(base_url=live.url, headers=headers, timeout=60) as http:
                body = {"name": "Acme", "website": "https://acme.example"}
                return await asyncio.gather(*(http.post("/records/v1/companies", json=body) for _ in range(20)))

        replies = asyncio.run(all_at_once())
        made = [reply.json()["company_uid"] for reply in replies if reply.status_code == 201]
        lost = [reply.json() for reply in replies if reply.status_code == 409]
        assert (len(made), len(lost)) == (1, 19)
        assert {(one["error_code"], one["details"]["existing"]) for one in lost} == {("DUPLICATE_RECORD", made[0])}


def test_a_disk_that_is_full_is_told_as_such(tmp_path: Path) -> None:
    folder = tmp_path / "small"
    folder.mkdir()
    size = 6_144 * KILOBYTES
    mounted = subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={size}", "tmpfs", folder], capture_output=True)
    if mounted.returncode:
        pytest.skip("a file system of one's own needs a privilege that this user has not")
    try:
        store = Store.open(f"sqlite:///{folder / 'full.db'}")
        store.migrate()
        with called(store, tmp_path / "records") as live:
            account = live.account()
            uid = account.company()
            with (folder / "filler").open("wb", buffering=0) as filler:
                try:
                    while True:
                        filler.write(b"x" * 4 * KILOBYTES)
                except OSError:
                    os.fsync(filler.fileno())
            replies = [account.post("/companies", {"name": "x" * 200, "industry": "y" * 200}) for _ in range(3)]
            told = {(reply.status_code, reply.json().get("error_code")) for reply in replies}
            assert (507, "STORAGE_FULL") in told
            assert told <= {(201, None), (507, "STORAGE_FULL")}
            assert account.get(f"/companies/{uid}").status_code == 200
            (folder / "filler").unlink()
            assert account.post("/companies", {"name": "Room again"}).status_code == 201
        store.close()
    finally:
        subprocess.run(["umount", "--lazy", folder], check=True)
