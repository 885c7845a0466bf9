"""A leader that hangs, and one that takes no writes any more: the same processes go on with whoever does."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import psycopg
import pytest

from holdfast.base import REAL
from holdfast.catalog import Failure
from holdfast.store import Store
from holdfast.testing.postgres import PostgresServer, multi_host_dsn
from holdfast.testing.processes import wait_until
from holdfast.worker import Jobs, NewJob

CALL_TIMEOUT_S = 1.0


@contextmanager
def standing_still(server: PostgresServer) -> Iterator[None]:
    """All processes of the server hang, with their sockets open."""
    assert server.pid is not None
    family = os.getpgid(server.pid)
    os.killpg(family, signal.SIGSTOP)
    try:
        yield
    finally:
        os.killpg(family, signal.SIGCONT)


@pytest.mark.timeout(180)
def test_a_leader_that_hangs_is_left_for_the_new_one(tmp_path: Path) -> None:
    with (
        PostgresServer.start(tmp_path / "primary", fsync=False) as primary,
        primary.standby(tmp_path / "standby", synchronous=False) as standby,
    ):
        url = f"{multi_host_dsn([primary, standby])}&connect_timeout=2&call_timeout_s={CALL_TIMEOUT_S}"
        store = Store.open(url)
        store.migrate()
        jobs = Jobs(store)
        # Several connections are open when it begins to hang.
        jobs.enqueue_many([NewJob(kind="k") for _ in range(200)])
        for _ in range(5):
            jobs.enqueue("k")
        with standing_still(primary):
            standby.promote()
            began_s = REAL.monotonic_s()
            made = [jobs.enqueue("k").id for _ in range(3)]
            took_s = REAL.monotonic_s() - began_s
            assert {jobs.show(job_id)["state"] for job_id in made} == {"queued"}
            assert took_s < 30, "as long as it hangs"
        jobs.close()
        store.close()


@pytest.mark.timeout(180)
def test_a_server_behind_one_address_that_takes_no_writes_for_a_while_is_found_again(tmp_path: Path) -> None:
    with PostgresServer.start(tmp_path / "server", fsync=False) as server:
        store = Store.open(server.dsn())
        store.migrate()
        jobs = Jobs(store)
        jobs.enqueue_many([NewJob(kind="k") for _ in range(10)])
        jobs.enqueue("k")
        _take_writes(server, "off")
        for enqueue in (lambda: jobs.enqueue("k"), lambda: jobs.enqueue_many([NewJob(kind="k")] * 3)):
            with pytest.raises(Failure) as refused:
                enqueue()
            assert refused.value.code in {"DATABASE_READ_ONLY", "DATABASE_CONNECTION_ERROR"}
            assert (refused.value.status, refused.value.retryable) == (503, True)
        _take_writes(server, "on")
        assert jobs.enqueue("k").created
        jobs.close()
        store.close()


def _take_writes(server: PostgresServer, whether: str) -> None:
    read_only = {"on": "off", "off": "on"}[whether]
    with psycopg.connect(server.dsn(), autocommit=True, options="-c default_transaction_read_only=off") as connection:
        connection.execute(f"ALTER SYSTEM SET default_transaction_read_only = {read_only}")
        connection.execute("SELECT pg_reload_conf()")
    asked = "SHOW default_transaction_read_only"
    wait_until(lambda: server.execute(asked) == [(read_only,)], within_s=30, what="the setting counts")
