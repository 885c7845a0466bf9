"""We are guests in the user's database: our names do not clash, and our tables can stand in a schema of their own."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import psycopg
import pytest
import sqlalchemy

from holdfast.catalog import Failure
from holdfast.store import AddressInvalid, Store, read_address, tables
from holdfast.testing.postgres import PostgresAddress
from holdfast.worker import Handlers, Job, Jobs, NewJob, Worker

OF_SQLITE = {"holdfast_key_write"}
"""What PostgreSQL does not need."""
SCHEMA = "failures"


@pytest.fixture
def empty_dsn(postgres_server: PostgresAddress, tmp_path: Path, worker_id: str) -> str:
    """A database with nothing in it."""
    return postgres_server.create_database(f"guest_{tmp_path.name[:40].lower()}_{worker_id}")


def names(dsn: str, schema: str) -> set[str]:
    """The tables and views of a schema."""
    with psycopg.connect(dsn) as connection:
        rows = connection.execute(
            "SELECT relname FROM pg_class JOIN pg_namespace ON pg_namespace.oid = relnamespace"
            " WHERE nspname = %s AND relkind IN ('r', 'v')",
            [schema],
        )
        return {name for (name,) in rows}


def objects(dsn: str) -> set[str]:
    """Everything that has a name in any schema of the user's database: tables, indexes, sequences, constraints."""
    with psycopg.connect(dsn) as connection:
        rows = connection.execute(
            "SELECT relname FROM pg_class JOIN pg_namespace ON pg_namespace.oid = relnamespace"
            " WHERE nspname NOT IN ('pg_catalog', 'information_schema', 'pg_toast')"
            " UNION SELECT conname FROM pg_constraint JOIN pg_namespace ON pg_namespace.oid = connamespace"
            " WHERE nspname NOT IN ('pg_catalog', 'information_schema')"
        )
        return {name for (name,) in rows}


def test_every_object_in_the_database_has_our_name(empty_dsn: str) -> None:
    store = Store.open(empty_dsn)
    store.migrate()
    store.close()
    assert {name for name in objects(empty_dsn) if not name.startswith("holdfast_")} == set()
    assert names(empty_dsn, "public") == tables() - OF_SQLITE


def test_the_tables_of_a_system_are_known_with_its_package() -> None:
    systems = tables("holdfast_systems.conversion")
    assert tables() < systems
    assert "holdfast_conversion_upload" in systems


@pytest.mark.parametrize("by_address", [True, False])
def test_everything_runs_in_a_schema_of_its_own(empty_dsn: str, by_address: bool) -> None:
    store = Store.open(f"{empty_dsn}?schema={SCHEMA}") if by_address else Store.open(empty_dsn, schema=SCHEMA)
    with psycopg.connect(empty_dsn) as connection:  # tables of the user's own, of the same names
        connection.execute("CREATE TABLE holdfast_job (id TEXT)")
        connection.execute("CREATE TABLE holdfast_queue (id TEXT)")
    assert store.migrate() == ["0001_baseline", "0002_key_writes", "0003_key_finishes"]
    assert store.migrate() == []
    assert names(empty_dsn, SCHEMA) == tables() - OF_SQLITE
    handlers = Handlers()

    @handlers.handle("k")
    def handle(job: Job) -> Any:
        return job.payload

    jobs = Jobs(store)
    with psycopg.connect(empty_dsn) as own:  # whose search path knows nothing of the schema
        joined = jobs.enqueue("k", "joined", tx=store.join(own))
    several = jobs.enqueue_many([NewJob(kind="k", payload=number) for number in range(50)])
    worker = Worker(store, handlers)
    worker.start()
    try:
        assert jobs.wait(joined.id, timeout_s=30) == "joined"
        assert [jobs.wait(job.id, timeout_s=30) for job in several] == list(range(50))
    finally:
        worker.stop()
        store.close()
    with psycopg.connect(empty_dsn) as connection:
        assert connection.execute("SELECT count(*) FROM public.holdfast_job").fetchone() == (0,)


def test_two_schemas_of_one_database_share_nothing(empty_dsn: str) -> None:
    first, second = Store.open(empty_dsn, schema="one"), Store.open(empty_dsn, schema="two")
    for store in (first, second):
        store.migrate()
    Jobs(first).enqueue("k")
    assert (len(Jobs(first).list()), len(Jobs(second).list())) == (1, 0)
    first.close()
    second.close()


def test_a_role_that_may_not_create_schemas_uses_the_one_it_was_given(empty_dsn: str) -> None:
    role = f"guest_{abs(hash(empty_dsn))}"
    with psycopg.connect(empty_dsn, autocommit=True) as connection:
        connection.execute(f"CREATE ROLE {role} LOGIN")
        connection.execute(f"CREATE SCHEMA {SCHEMA} AUTHORIZATION {role}")
    store = Store.open(empty_dsn.replace("postgres@", f"{role}@"), schema=SCHEMA)
    assert store.migrate() == ["0001_baseline", "0002_key_writes", "0003_key_finishes"]
    store.close()


@pytest.mark.parametrize("schema", ["Failures", "a-b", "1st", 'a"b', "a; DROP TABLE b", "x" * 64, ""])
def test_a_schema_that_could_not_be_written_plainly_is_refused(schema: str) -> None:
    with pytest.raises(AddressInvalid, match="lower-case"):
        read_address(f"postgresql://u@h/d?schema={schema}")


def test_only_postgresql_has_schemas() -> None:
    with pytest.raises(AddressInvalid, match="only PostgreSQL"):
        Store.open("sqlite://", schema=SCHEMA)


def test_the_address_tells_its_schema_and_reads_it_again() -> None:
    address = read_address(f"postgresql://u@h/d?connect_timeout=3&schema={SCHEMA}")
    assert (address.target, address.schema) == ("postgresql://u@h/d?connect_timeout=3", SCHEMA)
    assert read_address(str(address)) == address


def test_the_options_of_the_address_survive(empty_dsn: str) -> None:
    with psycopg.connect(empty_dsn) as connection:
        connection.execute("CREATE SCHEMA elsewhere")
    store = Store.open(f"{empty_dsn}?options=-csearch_path%3Delsewhere&application_name=shop")
    store.migrate()
    assert names(empty_dsn, "elsewhere") == tables() - OF_SQLITE
    with store.database.single() as execute:
        asked = "SELECT current_setting('application_name'), current_setting('synchronous_commit')"
        assert execute(asked, {}).fetchall() == [("shop", "on")]
    store.close()


@pytest.mark.parametrize("engine", ["sqlite", "postgresql"])
def test_a_table_of_the_same_name_is_named_with_the_remedy(
    request: pytest.FixtureRequest, tmp_path: Path, engine: str
) -> None:
    sqlite = f"sqlite:///{tmp_path / 'other.db'}"
    store = Store.open(sqlite if engine == "sqlite" else request.getfixturevalue("empty_dsn"))
    with store.database.transaction(write=True) as execute:
        execute("CREATE TABLE holdfast_job (id TEXT)", {})
    with pytest.raises(Failure) as refused:
        store.migrate()
    assert refused.value.code == "TABLE_NAME_TAKEN"
    assert "holdfast_job" in str(refused.value)
    assert refused.value.fault.remedy is not None
    assert "schema" in refused.value.fault.remedy
    store.close()


def test_alembic_leaves_our_tables_alone(empty_dsn: str) -> None:
    from alembic.autogenerate import compare_metadata
    from alembic.migration import MigrationContext

    store = Store.open(empty_dsn)
    store.migrate()
    store.close()

    def include_name(name: str | None, kind: str, parents: Any) -> bool:
        return not (kind == "table" and name in tables())

    engine = sqlalchemy.create_engine(empty_dsn.replace("postgresql://", "postgresql+psycopg://"))
    with engine.connect() as connection:
        careless = MigrationContext.configure(connection)
        careful = MigrationContext.configure(connection, opts={"include_name": include_name})
        assert len(compare_metadata(careless, sqlalchemy.MetaData())) > 0
        assert compare_metadata(careful, sqlalchemy.MetaData()) == []
    engine.dispose()
