"""A pooler before the database: recognised, and nothing is used that belongs to a session."""

from __future__ import annotations

import logging
import subprocess
import sys

import psycopg
import pytest

from holdfast.base import REAL
from holdfast.store import Store
from holdfast.store.connections import SETTINGS
from holdfast.store.postgresql import PostgresqlDatabase
from holdfast.testing.pgbouncer import PgBouncer
from holdfast.worker import Handlers, Jobs, Worker

ENQUEUE = "import sys; from holdfast import Jobs, Store; Jobs(Store.open(sys.argv[1])).enqueue('k', 7)"


def database(store: Store) -> PostgresqlDatabase:
    assert isinstance(store.database, PostgresqlDatabase)
    return store.database


def test_a_pooler_is_recognised_and_a_server_is_not_taken_for_one(
    pooler: PgBouncer, emptied_dsn: str, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, logger="holdfast.store")
    for url, pooled in ((emptied_dsn, False), (pooler.dsn(emptied_dsn), True)):
        store = Store.open(url)
        assert store.migrate() == []
        assert database(store).pooled is pooled
        assert ("pooler" in caplog.text) is pooled
        store.close()


@pytest.mark.parametrize("said", ["", "?pooled=1"], ids=["found out", "declared"])
def test_every_transaction_has_its_own_settings(pooler: PgBouncer, emptied_dsn: str, said: str) -> None:
    store = Store.open(pooler.dsn(emptied_dsn) + said)
    asked = ", ".join(f"current_setting('{name}')" for name in SETTINGS)
    for block in (store.database.transaction(write=True), store.database.single()):
        with block as execute:
            (told,) = execute(f"SELECT {asked}", {}).fetchall()
        found = dict(zip(SETTINGS, told, strict=True)) | {"idle_in_transaction_session_timeout": "60000"}
        assert found == SETTINGS
    store.close()
    with psycopg.connect(pooler.dsn(emptied_dsn), prepare_threshold=None) as own:
        # Whoever is lent the same session next finds nothing of ours in it.
        assert own.execute("SHOW enable_seqscan").fetchone() == ("on",)
        assert own.execute("SELECT count(*) FROM pg_prepared_statements").fetchone() == (0,)


def test_a_job_of_another_process_is_found_without_listening(pooler: PgBouncer, emptied_dsn: str) -> None:
    url = pooler.dsn(emptied_dsn)
    store = Store.open(url)
    handlers = Handlers()
    done: list[float] = []
    handlers.handle("k")(lambda job: done.append(REAL.monotonic_s()))
    worker = Worker(store, handlers)
    worker.start()
    try:
        subprocess.run([sys.executable, "-c", ENQUEUE, url], check=True, timeout=60)
        (made,) = Jobs(store).list()
        Jobs(store).wait(made["id"], timeout_s=30)
    finally:
        worker.stop()
        store.close()
    assert len(done) == 1
