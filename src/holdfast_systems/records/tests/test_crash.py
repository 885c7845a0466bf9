"""An import survives the death of the server, however often: no row twice, none missing.

`HOLDFAST_RECORDS_CRASH=100000x10` imports so many rows and kills so often; a run without it does less of the same.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest

from holdfast.store import Store
from holdfast.testing.ports import free_port
from holdfast.testing.processes import wait_until

from .live import ALL, OPERATOR, Account, lines

ROWS, KILLS = (int(part) for part in os.environ.get("HOLDFAST_RECORDS_CRASH", "8000x3").split("x"))
PROGRAM = Path(__file__).parent / "programs" / "serve_records.py"
BAD_EVERY = 100
PATIENCE_S = 110.0


class Server:
    """The system in a process of its own, at one address through all its lives."""

    def __init__(self, database: str, folder: Path) -> None:
        self._command = [sys.executable, str(PROGRAM), database, str(folder), str(free_port())]
        self.url = f"http://127.0.0.1:{self._command[-1]}"
        self.process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        self.process = subprocess.Popen(self._command)

    def kill(self) -> None:
        assert self.process is not None
        self.process.send_signal(signal.SIGKILL)
        self.process.wait()


@contextmanager
def served(database: str, folder: Path) -> Iterator[Server]:
    server = Server(database, folder)
    server.start()
    try:
        yield server
    finally:
        server.kill()


@pytest.mark.timeout(600)
def test_an_import_survives_the_death_of_the_server(database_url: str, tmp_path: Path) -> None:
    with served(database_url, tmp_path / "records") as server, httpx.Client(base_url=server.url, timeout=30) as http:
        asked = {"account_id": "acct_acme", "scopes": ALL}
        made = patiently(lambda: http.post("/records/v1/admin/keys", json=asked, headers=OPERATOR)).json()
        account = Account(http, made["api_key"], made["key_id"], "acct_acme")
        headers = {"Content-Type": "application/x-ndjson"}
        reply = account.ask("POST", "/imports", content=file(), headers=headers)
        assert reply.status_code == 202, reply.text
        path = f"/imports/{reply.json()['import_id']}"
        progress: list[int] = []
        for number in range(1, KILLS + 1):
            found = seen(account, path, ROWS * number // (KILLS + 2))
            assert found["status"] == "running", found
            progress.append(found["rows_succeeded"] + found["rows_failed"])
            server.kill()
            server.start()
        found = seen(account, path, ROWS)
        assert progress == sorted(progress)
        assert (found["status"], found["rows_total"]) == ("complete", ROWS)
        assert (found["rows_succeeded"], found["rows_failed"]) == (ROWS - ROWS // BAD_EVERY, ROWS // BAD_EVERY)
    check(database_url, reply.json()["import_id"])


def check(database: str, import_id: str) -> None:
    """Every row is there once, with its slots, and what became of each is kept once."""
    from holdfast_systems.records import tables
    from holdfast_systems.records.api_imports import rows_after

    store = Store.open(database)
    tables.prepare(store)
    good = ROWS - ROWS // BAD_EVERY
    told = store.atomic(lambda tx: rows_after(tx, import_id, 0, ROWS + 1, None), write=False)
    assert [one["row"] for one in told] == list(range(1, ROWS + 1))
    uids = [one["uid"] for one in told if one["uid"]]
    assert len(uids) == len(set(uids)) == good

    def stored(tx: Any) -> list[dict[str, Any]]:
        return list(tx.records("records.companies", account_id="acct_acme", after="", count=ROWS + 1, q=None))

    rows = store.atomic(stored, write=False)
    assert sorted(row["uid"] for row in rows) == sorted(uids)
    assert len({row["name"] for row in rows}) == good
    slots = store.atomic(lambda tx: tx.rows("records.slots", account_id="acct_acme", uids=uids), write=False)
    assert len(slots) == 3 * good
    store.close()


def file() -> bytes:
    return lines(
        *(
            {"type": "company", "name": "" if number % BAD_EVERY == 0 else f"Company {number}"}
            for number in range(1, ROWS + 1)
        )
    )


def seen(account: Account, path: str, rows: int) -> dict[str, Any]:
    """The import as soon as so many rows are done."""
    found: list[dict[str, Any]] = []

    def look() -> bool:
        try:
            reply = account.get(path)
        except httpx.TransportError:
            return False  # it is starting
        found[:] = [reply.json()]
        return reply.status_code == 200 and found[0]["rows_succeeded"] + found[0]["rows_failed"] >= rows

    wait_until(look, within_s=PATIENCE_S, what=f"{rows} rows of {path}")
    return found[0]


def patiently(ask: Any) -> httpx.Response:
    replies: list[httpx.Response] = []

    def answered() -> bool:
        try:
            replies[:] = [ask()]
        except httpx.TransportError:
            return False
        return True

    wait_until(answered, within_s=PATIENCE_S, what="the server answers")
    return replies[0]
