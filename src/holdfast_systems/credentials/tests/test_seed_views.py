"""The statements of the webhook contract run on its own table names, on both databases, and change nothing."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from uuid import UUID

import psycopg
import pytest

from holdfast.base import now_us
from holdfast.catalog import Failure
from holdfast.store import Store
from holdfast.testing.postgres import PostgresAddress
from holdfast_systems.credentials.main import build

from .live import Live, created, ground, running, settings_file
from .receiver import Say, receiving

# As the document has them.
CHECK = "SELECT result FROM processed_events WHERE event_id = $1"
FAILURES = "SELECT * FROM webhook_failures ORDER BY created_at ASC LIMIT $1"
FAILURES_OF = "SELECT * FROM webhook_failures WHERE event_id = $1"
SIZE = {
    "postgresql": "SELECT COUNT(*) FROM webhook_failures WHERE created_at > NOW() - INTERVAL '1 hour'",
    # SQLite has no intervals.
    "sqlite": "SELECT COUNT(*) FROM webhook_failures WHERE created_at > datetime('now', '-1 hour')",
}
WRITES = (
    "INSERT INTO processed_events (event_id, event_type, result) VALUES ($1, $1, $1)",
    "INSERT INTO webhook_failures (event_id, event_type, payload) VALUES ($1, $1, $1)",
    "DELETE FROM webhook_failures WHERE event_id = $1",
    "DELETE FROM processed_events WHERE event_id = $1",
    "UPDATE processed_events SET event_type = $1 WHERE event_id = $1",
)
FAILURE_COLUMNS = ("id", "event_id", "event_type", "payload", "error_message", "status_code", "attempts",
                   "last_attempt_at", "created_at")  # fmt: skip
HOUR_S = 3_600
VIEWS = {"HOLDFAST_CREDENTIALS_VIEWS": "1"}
NAMES = {
    "postgresql": "SELECT viewname FROM pg_views WHERE schemaname = current_schema()",
    "sqlite": "SELECT name FROM sqlite_master WHERE type = 'view'",
}


@pytest.fixture(params=["sqlite", "postgresql"])
def store(request: pytest.FixtureRequest, tmp_path: Path, worker_id: str) -> Iterator[Store]:
    """A database of the test's own: views with names of their own must not meet other tests."""
    url = f"sqlite:///{tmp_path / 'views.db'}"
    if request.param == "postgresql":
        server: PostgresAddress = request.getfixturevalue("postgres_server")
        url = server.create_database(f"views_{tmp_path.name[:40].lower()}_{worker_id}")
    opened = Store.open(url)
    opened.migrate()
    yield opened
    opened.close()


class Client:
    """Somebody's own connection to the database, with the parameters that the document writes."""

    def __init__(self, store: Store) -> None:
        self.engine = store.database.engine
        if self.engine == "postgresql":
            self.connection: Any = psycopg.connect(
                store.address_for("psycopg"), cursor_factory=psycopg.RawCursor, autocommit=True
            )
        else:
            self.connection = sqlite3.connect(store.address.target, isolation_level=None)

    def rows(self, statement: str, *values: Any) -> tuple[list[str], list[tuple[Any, ...]]]:
        given: Any = values if self.engine == "postgresql" else {str(n): value for n, value in enumerate(values, 1)}
        cursor = self.connection.execute(statement, given)
        return [column[0] for column in cursor.description or ()], cursor.fetchall()


@contextmanager
def client_of(store: Store) -> Iterator[Client]:
    client = Client(store)
    with closing(client.connection):
        yield client


@pytest.fixture
def sent(store: Store, tmp_path: Path) -> Iterator[Live]:
    """One event processed by the engine, and one that its endpoint refused."""
    with receiving() as receiver:
        receiver.always = Say(404, b'{"error": "no such webhook"}')
        environment = {**VIEWS, "HOLDFAST_CREDENTIALS_ENGINE_URL": receiver.url}
        with running(store, tmp_path, environment=environment, worker=True) as live:
            live.send(created("evt_a1b2c3d4e5f6789a", "contrib_1"))
            live.ask("POST", "/platform/v1/events", json=created("evt_dead"))
            live.wait_event("evt_dead", "failed")
            yield live


def test_the_statements_of_the_document_find_what_was_processed_and_what_failed(sent: Live) -> None:
    with client_of(sent.store) as client:
        _, ((result,),) = client.rows(CHECK, "evt_a1b2c3d4e5f6789a")
        told = result if client.engine == "postgresql" else json.loads(result)
        assert (
            told == sent.ask("GET", "/engine/v1/platforms/gotong_royong/events/evt_a1b2c3d4e5f6789a").json()["result"]
        )
        assert client.rows(CHECK, "evt_none")[1] == []
        for statement, value in ((FAILURES, 10), (FAILURES_OF, "evt_dead")):
            columns, (row,) = client.rows(statement, value)
            assert tuple(columns) == FAILURE_COLUMNS
            found = dict(zip(columns, row, strict=True))
            payload = found["payload"] if client.engine == "postgresql" else json.loads(found["payload"])
            assert payload["event_id"] == found["event_id"] == "evt_dead"
            assert (found["event_type"], found["status_code"], found["attempts"]) == ("contribution_created", 404, 1)
            assert "no such webhook" in found["error_message"]
            assert UUID(str(found["id"])).version == 7
            assert abs(_moment(found["created_at"]).timestamp() - now_us() / 1e6) < HOUR_S
        assert client.rows(SIZE[client.engine])[1] == [(1,)]


def _moment(value: Any) -> datetime:
    return value if isinstance(value, datetime) else datetime.fromisoformat(value).replace(tzinfo=UTC)


def test_a_time_zone_of_the_session_moves_nothing(sent: Live) -> None:
    with client_of(sent.store) as client:
        if client.engine == "postgresql":
            client.connection.execute("SET TIME ZONE 'Pacific/Kiritimati'")
        assert client.rows(SIZE[client.engine])[1] == [(1,)]


@pytest.mark.parametrize("statement", WRITES)
def test_nobody_writes_through_the_views(sent: Live, statement: str) -> None:
    with client_of(sent.store) as client:
        before = client.rows("SELECT * FROM processed_events")[1], client.rows("SELECT * FROM webhook_failures")[1]
        with pytest.raises((psycopg.Error, sqlite3.Error)):
            client.rows(statement, "evt_dead" if "failures" in statement else "evt_a1b2c3d4e5f6789a")
        after = client.rows("SELECT * FROM processed_events")[1], client.rows("SELECT * FROM webhook_failures")[1]
    assert before == after


def test_without_the_setting_there_is_no_name_but_our_own(store: Store, tmp_path: Path) -> None:
    build(ground(store, tmp_path, "http://127.0.0.1:9")).stop()
    with client_of(store) as client:
        assert [name for (name,) in client.rows(NAMES[client.engine])[1] if not name.startswith("holdfast_")] == []


def test_a_second_start_finds_them_there_and_a_file_may_ask_for_them(store: Store, tmp_path: Path) -> None:
    for environment in (VIEWS, settings_file(tmp_path, "views = true\n"), {}):
        build(ground(store, tmp_path, "http://127.0.0.1:9", environment)).stop()
    with client_of(store) as client:
        names = {name for (name,) in client.rows(NAMES[client.engine])[1]}
    assert {"processed_events", "webhook_failures"} <= names


def test_a_table_of_somebody_else_is_left_alone_and_named(store: Store, tmp_path: Path) -> None:
    with client_of(store) as client:
        client.connection.execute("CREATE TABLE webhook_failures (id TEXT)")
        with pytest.raises(Failure) as caught:
            build(ground(store, tmp_path, "http://127.0.0.1:9", VIEWS))
        assert (caught.value.code, caught.value.details["table"]) == ("TABLE_NAME_TAKEN", "webhook_failures")
        assert client.rows("SELECT * FROM webhook_failures")[1] == []
