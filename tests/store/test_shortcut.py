"""The shorter way to PostgreSQL for statements that are transactions of their own."""

from __future__ import annotations

import asyncio
import gc
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from weakref import ref

import psycopg
import pytest

from holdfast.base import new_id
from holdfast.catalog import Failure
from holdfast.catalog.durable import COMMIT_UNKNOWN
from holdfast.guard.idempotency import Keys
from holdfast.store import Store, read_address
from holdfast.store.postgresql import PostgresqlDatabase
from holdfast.store.row_parameters import array_text
from holdfast.store.shortcut import Shortcuts
from holdfast.testing.proxy import FaultProxy
from holdfast.worker import Jobs, NewJob
from holdfast.worker.prepared import prepared

PLANNED_ANEW = 5
"""So often PostgreSQL plans a prepared statement anew, before it looks whether one plan for all would do."""
INSERTED = "INSERT INTO holdfast_(queue|job) "


@pytest.fixture
def connection(emptied_dsn: str) -> Iterator[psycopg.Connection[Any]]:
    with psycopg.connect(emptied_dsn, autocommit=True) as made:
        made.execute("CREATE TEMPORARY TABLE kept (words TEXT, number BIGINT CHECK (number < 100))")
        yield made


def kept(connection: psycopg.Connection[Any]) -> list[tuple[Any, ...]]:
    return connection.execute("SELECT words, number FROM kept ORDER BY number").fetchall()


@pytest.mark.parametrize(
    "texts",
    [
        (),
        ("same", "same"),
        ("", "a", "NULL"),
        ('"', "\\", '\\"', "{}", ",", " "),
        ("a\x1fb", "\x1f", '"'),
        ("a", None, '"\x1f', None),
        (None, None),
        ("\n\t", "ü🔑", "'"),
    ],
)
def test_a_column_of_texts_arrives_as_it_was_given(connection: psycopg.Connection[Any], texts: Any) -> None:
    found = connection.execute("SELECT %s::text[]", [array_text(texts, "text")]).fetchone()
    assert found == (list(texts),)


@pytest.mark.parametrize("numbers", [(), (1, -2, 2**62), (7, 7), (None, 1), (None, None)])
def test_a_column_of_numbers_arrives_as_it_was_given(connection: psycopg.Connection[Any], numbers: Any) -> None:
    found = connection.execute("SELECT %s::bigint[]", [array_text(numbers, "bigint")]).fetchone()
    assert found == (list(numbers),)


PUT = "INSERT INTO kept (words, number) VALUES (%(words)s || '%%', %(number)s)"


def test_values_go_as_they_are(connection: psycopg.Connection[Any]) -> None:
    shortcuts = Shortcuts()
    odd = "Łódź 'x' \\ \n\t %s $1 🐟"
    assert shortcuts.run(connection, PUT, {"words": odd, "number": -1})
    assert shortcuts.run(connection, PUT, {"words": "", "number": 2})
    assert shortcuts.run(connection, PUT, {"words": None, "number": 3})
    assert kept(connection) == [(f"{odd}%", -1), ("%", 2), (None, 3)]


@pytest.mark.parametrize("value", ["half\0lost", 1.5, True, b"bytes"])
def test_what_is_not_plain_is_left_to_the_driver(connection: psycopg.Connection[Any], value: object) -> None:
    assert not Shortcuts().run(connection, PUT, {"words": value, "number": 1})
    assert kept(connection) == []


def test_what_the_database_refuses_is_left_to_the_driver_and_not_done(connection: psycopg.Connection[Any]) -> None:
    shortcuts = Shortcuts()
    assert not shortcuts.run(connection, PUT, {"words": "a", "number": 100})
    assert not shortcuts.run(connection, "INSERT INTO nowhere VALUES (%(words)s)", {"words": "a"})
    assert shortcuts.run(connection, PUT, {"words": "a", "number": 99})
    assert kept(connection) == [("a%", 99)]


def test_a_statement_that_the_server_has_forgotten_is_prepared_again(connection: psycopg.Connection[Any]) -> None:
    shortcuts = Shortcuts()
    other = PUT.replace("||", "|| ")
    for text in (PUT, other):
        assert shortcuts.run(connection, text, {"words": "a", "number": 1})
    connection.execute("DEALLOCATE ALL")
    assert not shortcuts.run(connection, PUT, {"words": "b", "number": 2})
    assert shortcuts.run(connection, PUT, {"words": "b", "number": 2})
    assert not shortcuts.run(connection, other, {"words": "b", "number": 3})
    assert shortcuts.run(connection, other, {"words": "b", "number": 3})
    assert [number for _, number in kept(connection)] == [1, 1, 2, 3]


def test_an_answer_reads_as_the_drivers_own_does(connection: psycopg.Connection[Any]) -> None:
    text = (
        "SELECT %(words)s::text AS words, %(number)s::bigint AS number, NULL::integer AS nothing, 7::smallint AS small,"
        " true AS yes, ARRAY[1, 2] AS many, '\\x00ff'::bytea AS bytes, 1.5::double precision AS half"
    )
    given = {"words": "Łódź\n🐟", "number": 2**62}
    shortcuts = Shortcuts()
    for _ in range(2):
        answer, own = shortcuts.run(connection, text, given), connection.execute(text, given)
        assert answer is not None
        assert answer.fetchall() == own.fetchall()
        assert answer.description is not None
        assert [column[0] for column in answer.description] == [column.name for column in own.description or ()]
        assert answer.rowcount == own.rowcount == 1


def test_an_answer_counts_what_was_changed(connection: psycopg.Connection[Any]) -> None:
    shortcuts = Shortcuts()
    put = shortcuts.run(connection, PUT, {"words": "a", "number": 1})
    assert put is not None
    assert (put.rowcount, put.description) == (1, None)
    changed = shortcuts.run(connection, "UPDATE kept SET number = 2 WHERE words = %(words)s", {"words": "nobody"})
    assert changed is not None
    assert changed.rowcount == 0
    made = shortcuts.run(connection, "CREATE TEMPORARY TABLE other (a INTEGER)", {})
    assert made is not None
    assert made.rowcount == -1


def test_a_statement_for_many_rows_is_planned_once_for_a_single_row_too(emptied_dsn: str) -> None:
    """To plan the statement of idempotency keys takes longer than to run it."""
    store = Store.open(emptied_dsn)
    keys = Keys(store)
    for number in range(PLANNED_ANEW + 7):
        keys.begin(operation="pay", key=f"key-{number}", request_hash="r")
    asked = "SELECT custom_plans, generic_plans FROM pg_prepared_statements WHERE statement LIKE 'WITH given%'"
    with store.database.single() as execute:
        plans = execute(asked.replace("%", "%%"), {}).fetchall()
    store.close()
    assert plans == [(PLANNED_ANEW, 7)]


def test_a_connection_that_is_thrown_away_is_not_kept(emptied_dsn: str) -> None:
    shortcuts = Shortcuts()
    with psycopg.connect(emptied_dsn, autocommit=True) as connection:
        shortcuts.run(connection, "SELECT 1", {})
    gone = ref(connection)
    del connection
    gc.collect()
    assert gone() is None


def test_a_database_in_another_encoding_keeps_every_letter_that_it_has(postgres_dsn: str) -> None:
    name = f"latin_{new_id().replace('-', '')}"
    with psycopg.connect(postgres_dsn, autocommit=True) as connection:
        connection.execute(f"CREATE DATABASE {name} ENCODING 'LATIN1' LOCALE 'C' TEMPLATE template0")
    store = Store.open(f"{postgres_dsn.rpartition('/')[0]}/{name}")
    try:
        store.migrate()
        store.put("queue.register", name="café")
        assert store.single("queue.registered", most=9)[0][0] == "café"
        (made,) = Jobs(store).enqueue_many([NewJob(kind="naïve", queue="café")])
        assert Jobs(store).show(made.id)["kind"] == "naïve"
    finally:
        store.close()
        with psycopg.connect(postgres_dsn, autocommit=True) as connection:
            connection.execute(f"DROP DATABASE {name} WITH (FORCE)")


def test_the_error_is_the_drivers_own(emptied_dsn: str) -> None:
    database = PostgresqlDatabase(read_address(emptied_dsn))
    try:
        with pytest.raises(psycopg.errors.UndefinedTable):
            database.put("INSERT INTO nowhere VALUES (%(words)s)", {"words": "a"})
        database.put("INSERT INTO holdfast_queue (name) VALUES (%(name)s)", {"name": "mail"})
    finally:
        database.close()


def test_what_follows_may_fail_and_what_was_put_stays(emptied_dsn: str) -> None:
    database = PostgresqlDatabase(read_address(emptied_dsn))
    register = "INSERT INTO holdfast_queue (name) VALUES (%(name)s)"
    try:
        assert database.put(register, {"name": "a"}, (register, {"name": "b"}))
        assert not database.put(register, {"name": "c"}, (register, {"name": "b"})), "b was there already"
        assert not database.put(register, {"name": "d"}, ("SELECT pg_terminate_backend(pg_backend_pid())", {}))
        assert not database.put(register, {"name": "e"})
        with pytest.raises(psycopg.errors.UniqueViolation):
            database.put(register, {"name": "a"}, (register, {"name": "f"}))
        with database.single() as execute:
            assert execute("SELECT name FROM holdfast_queue ORDER BY name", {}).fetchall() == [
                (name,) for name in "abcde"
            ]
    finally:
        database.close()


@pytest.mark.parametrize("fault", ["lose_request", "lose_reply"])
def test_a_lost_connection_leaves_open_whether_it_happened(behind: Store, proxy: FaultProxy, fault: str) -> None:
    behind.put("queue.register", name="before")
    proxy.set(**{fault: INSERTED, "times": 1})
    with pytest.raises(Failure) as unknown:
        behind.put("queue.register", name="mail")
    assert unknown.value.code == COMMIT_UNKNOWN.code


@pytest.mark.parametrize("fault", ["lose_request", "lose_reply"])
def test_a_job_whose_reply_was_lost_is_enqueued_once(behind: Store, proxy: FaultProxy, fault: str) -> None:
    jobs = Jobs(behind)
    jobs.enqueue("warm")
    proxy.set(**{fault: INSERTED, "times": 1})
    made = jobs.enqueue("mail")
    assert proxy.triggered == 1
    assert [job["id"] for job in jobs.list(kind="mail")] == [made.id]
    jobs.close()


def new_rows(count: int, payload: str = "1") -> list[tuple[Any, ...]]:
    return [prepared(NewJob(kind="mail", payload=payload)) for _ in range(count)]


async def test_many_rows_are_put_without_a_thread(emptied_dsn: str) -> None:
    store = Store.open(emptied_dsn)
    try:
        assert await store.many_rows_async("job.enqueue", new_rows(1), token=0) is None, "no connection is at hand yet"
        store.put("queue.register", name="default")
        assert await store.many_rows_async("job.enqueue", new_rows(20, "x" * 200_000), token=0) is not None
        assert await store.many_rows_async("job.enqueue", new_rows(2), token=0) is not None
        assert len(Jobs(store).list(kind="mail")) == 22
    finally:
        store.close()


async def test_others_go_on_while_the_database_works(emptied_dsn: str) -> None:
    store = Store.open(emptied_dsn)
    try:
        store.put("queue.register", name="default")
        with psycopg.connect(emptied_dsn) as holding:
            holding.execute("LOCK TABLE holdfast_job IN EXCLUSIVE MODE")
            put = asyncio.create_task(store.many_rows_async("job.enqueue", new_rows(1), token=0))
            await asyncio.sleep(0.05)
            assert not put.done()
        assert await put is not None
    finally:
        store.close()


async def test_one_who_stops_waiting_leaves_no_connection_in_the_middle_of_something(emptied_dsn: str) -> None:
    store = Store.open(emptied_dsn)
    try:
        store.put("queue.register", name="default")
        with psycopg.connect(emptied_dsn) as holding:
            holding.execute("LOCK TABLE holdfast_job IN EXCLUSIVE MODE")
            put = asyncio.create_task(store.many_rows_async("job.enqueue", new_rows(1), token=0))
            await asyncio.sleep(0.05)
            put.cancel()
            with pytest.raises(asyncio.CancelledError):
                await put
        store.put("queue.register", name="mail")
        assert len(store.atomic(lambda tx: tx.rows("queue.registered", most=9), write=False)) == 2
    finally:
        store.close()


@pytest.mark.parametrize("fault", ["lose_request", "lose_reply"])
async def test_coroutines_whose_reply_was_lost_enqueue_once(behind: Store, proxy: FaultProxy, fault: str) -> None:
    jobs = Jobs(behind)
    await jobs.enqueue_async("warm")
    proxy.set(**{fault: INSERTED, "times": 1})
    made = await asyncio.gather(*(jobs.enqueue_async("mail") for _ in range(5)))
    assert proxy.triggered == 1
    assert sorted(job["id"] for job in jobs.list(kind="mail")) == sorted(one.id for one in made)
    jobs.close()


async def test_sqlite_leaves_it_to_a_thread(tmp_path: Path) -> None:
    store = Store.open(f"sqlite:///{tmp_path / 'h.db'}")
    assert await store.many_rows_async("job.enqueue", new_rows(1), token=0) is None
    store.close()


def test_both_engines_put_alike(store: Store) -> None:
    for name in ("a", "b", new_id()):
        store.put("queue.register", name=name)
    found = store.atomic(lambda tx: tx.rows("queue.registered", most=99), write=False)
    assert len(found) == 3
