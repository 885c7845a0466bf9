"""What every test shares: the root of the checkout, and a store on each engine."""

from __future__ import annotations

import os
import socket
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

from holdfast.http.wrong_tokens import WRONG_TOKENS
from holdfast.store import Store
from holdfast.testing.accessibility import Inspector, inspector
from holdfast.testing.npm import NotInstalled
from holdfast.testing.pgbouncer import PgBouncer, PgBouncerMissing
from holdfast.testing.postgres import PostgresAddress

pytest_plugins = ("holdfast.testing.pytest_postgres", "holdfast.testing.pytest_s3")

# How long an example takes depends on what else the machine does. The same examples are tried in each run, so that
# a change fails for what it changed; HYPOTHESIS_PROFILE=explore looks for new ones.
PATIENT = {"deadline": None, "print_blob": True, "suppress_health_check": [HealthCheck.too_slow]}
settings.register_profile("same", **PATIENT, derandomize=True, database=None)
settings.register_profile("explore", **PATIENT)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "same"))

PROMISES = ("/crash/", "/test_crash.py", "/test_chaos.py")
"""Tests that kill processes and count: a single failure there is a finding, and is never tried again."""
LONG = ("/holdfast_systems/", "/tests/crash/", "/tests/cli/", "/tests/console/", "accessibility.py")
"""Tests that start processes, servers and browsers, where one file takes up to two minutes."""
EARLY = 0.7
"""Where in the run the last of them begins."""
RERUNS_MAX = 3
"""More tests than that do not fail by chance in one run."""

ENGINES = ("sqlite", "postgresql")
POOLED = (
    "/tests/crash/",
    "/tests/store/",
    "/tests/worker/",
    "/tests/guard/test_idempotency.py",
    "/tests/guard/test_keys_together.py",
)
NOT_POOLED = ("test_wake.py",)
"""Tests that also run through a pooler: what the durable core promises. Behind one, workers do not listen."""
TEMPLATE = "holdfast_template"
MIGRATIONS = "holdfast_migration"
TABLES = (
    "SELECT relname FROM pg_class WHERE relnamespace = 'public'::regnamespace AND relkind = 'r'"
    f" AND relname <> '{MIGRATIONS}'"
)
COUNTED = "SELECT sequencename FROM pg_sequences WHERE schemaname = 'public' AND last_value IS NOT NULL"
"""Sequences that have given out a number."""
SCHEMA = "SELECT " + ", ".join(
    f"(SELECT sum(xmin::text::bigint) FROM {catalog})"
    for catalog in ("pg_attribute", "pg_constraint", "pg_index", "pg_trigger")
)
"""Another answer when a table, a constraint, an index or a trigger was added, changed or dropped."""


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    chosen = any("database_url" in mark.args[0] for mark in metafunc.definition.iter_markers("parametrize"))
    if "database_url" in metafunc.fixturenames and not chosen:
        path = metafunc.definition.path.as_posix()
        engines = (
            (*ENGINES, "pooled") if any(part in path for part in POOLED) and not path.endswith(NOT_POOLED) else ENGINES
        )
        metafunc.parametrize("database_url", engines, indirect=True)


@pytest.hookimpl(trylast=True)  # pytest itself brings together what shares a fixture
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if any(part in item.path.as_posix() for part in PROMISES):
            item.add_marker(pytest.mark.flaky(reruns=0))
    items[:] = long_files_early(items)


def long_files_early(items: list[pytest.Item]) -> list[pytest.Item]:
    """The same tests, file by file, with the files that take long among the first of the others.

    One that began last would keep all processes but its own waiting; and if all of them came at once, processes that
    are killed, browsers and servers would wait for each other.
    """
    files: dict[Path, list[pytest.Item]] = {}
    for item in items:
        files.setdefault(item.path, []).append(item)
    long = [path for path in files if any(part in path.as_posix() for part in LONG)]
    others = [path for path in files if path not in set(long)]
    places = {path: (number + 1) * EARLY / len(long) for number, path in enumerate(long)}
    places |= {path: (number + 1) / len(others) for number, path in enumerate(others)}
    return [item for path in sorted(files, key=places.__getitem__) for item in files[path]]


def pytest_sessionstart(session: pytest.Session) -> None:
    # Before each test a worker of xdist tells the counter of reruns two things in a row. The second would wait until
    # the first is acknowledged, which takes 40 ms: a quarter of the whole run.
    connection = getattr(getattr(session.config, "failures_db", None), "sock", None)
    if connection is not None:
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)


def pytest_sessionfinish(session: pytest.Session) -> None:
    reporter = session.config.pluginmanager.get_plugin("terminalreporter")
    again = reporter.stats.get("rerun", []) if reporter is not None else []
    for report in again:
        reporter.write_line(f"\nTRIED AGAIN: {report.nodeid}\n{report.longreprtext}", yellow=True)
    if len(again) > RERUNS_MAX and session.exitstatus == pytest.ExitCode.OK:
        reporter.write_line(f"\nFAILED: {len(again)} tests were tried again, {RERUNS_MAX} may be.", red=True)
        session.exitstatus = pytest.ExitCode.TESTS_FAILED


@pytest.fixture(scope="session")
def root() -> Path:
    """The folder that holds pyproject.toml."""
    return Path(__file__).parent


@pytest.fixture
def inspected(root: Path) -> Iterator[Inspector]:
    """A browser with axe-core; without one of them the test is skipped, and says what was missing."""
    with ExitStack() as stack:
        try:
            found = stack.enter_context(inspector(root / "build"))
        except NotInstalled as missing:
            pytest.skip(f"ACCESSIBILITY NOT TESTED: {missing}")
        yield found


@pytest.fixture(scope="session")
def postgres_fsync() -> bool:
    """Durability itself is tested on servers of their own; everything else need not wait for the disk."""
    return False


@pytest.fixture(scope="session")
def postgres_template(postgres_server: PostgresAddress, worker_id: str) -> str:
    """A database with our schema, made once for each test process and copied for each test."""
    name = f"{TEMPLATE}_{worker_id}"
    store = Store.open(postgres_server.create_database(name))
    store.migrate()
    store.close()
    return name


@pytest.fixture(scope="session")
def recycled() -> dict[str, str]:
    """By their template, databases that one test after another uses: to empty one takes a tenth of making one."""
    return {}


@pytest.fixture
def emptied_dsn(postgres_server: PostgresAddress, postgres_template: str, recycled: dict[str, str]) -> Iterator[str]:
    """A database with our schema and nothing else; connections still open after the test are terminated.

    The tests of a system override the template with one that has the tables of the system too.
    """
    import psycopg

    name = f"recycled_{postgres_template}"
    if postgres_template not in recycled:
        recycled[postgres_template] = postgres_server.create_database(name, template=postgres_template)
    dsn = recycled[postgres_template]
    with psycopg.connect(dsn, autocommit=True) as connection:
        before = {table for (table,) in connection.execute(TABLES)}
        systems = [system for (system,) in connection.execute(f"SELECT DISTINCT system FROM {MIGRATIONS}")]
        schema = connection.execute(SCHEMA).fetchone()
    yield dsn
    with psycopg.connect(dsn, autocommit=True) as connection:
        connection.execute(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
            " WHERE datname = current_database() AND pid <> pg_backend_pid()"
        )
        after = {table for (table,) in connection.execute(TABLES)}
        for table in after - before:
            connection.execute(f'DROP TABLE "{table}" CASCADE')
        connection.execute(f"DELETE FROM {MIGRATIONS} WHERE system <> ALL(%s)", [systems])
        # To truncate takes 2 ms for each table, written or not: those that nothing was written to are left alone.
        written = [table for (table,) in connection.execute(f"{TABLES} AND pg_relation_size(oid) > 0")]
        if written:
            # A system may have triggers that refuse it.
            connection.execute("SET session_replication_role = replica")
            connection.execute(f"TRUNCATE {', '.join(written)} RESTART IDENTITY CASCADE")
        for (sequence,) in connection.execute(COUNTED).fetchall():
            connection.execute(f"ALTER SEQUENCE {sequence} RESTART")
        changed = connection.execute(SCHEMA).fetchone() != schema
    if changed:
        del recycled[postgres_template]
        postgres_server.drop_database(name)


@pytest.fixture(scope="session")
def pooler(postgres_server: PostgresAddress, tmp_path_factory: pytest.TempPathFactory) -> Iterator[PgBouncer]:
    """PgBouncer before the server of the run, in transaction mode."""
    try:
        started = PgBouncer(postgres_server, tmp_path_factory.mktemp("pooler"))
    except PgBouncerMissing as missing:
        pytest.skip(f"NOT TRIED THROUGH A POOLER: {missing}")
    with started:
        yield started


@pytest.fixture
def database_url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """The address of a fresh database with our schema, on each engine in turn."""
    if request.param == "pooled":
        pooler: PgBouncer = request.getfixturevalue("pooler")
        return pooler.dsn(request.getfixturevalue("emptied_dsn"))
    if request.param == "sqlite":
        url = f"sqlite:///{tmp_path / 'holdfast.db'}"
        store = Store.open(url)
        store.migrate()
        store.close()
        return url
    return str(request.getfixturevalue("emptied_dsn"))


@pytest.fixture
def store(database_url: str) -> Iterator[Store]:
    """A store on each engine, on the database's own clock."""
    opened = Store.open(database_url)
    yield opened
    opened.close()


@pytest.fixture
def virtual_store(database_url: str) -> Iterator[Store]:
    """A store on each engine that reads the injected clock, for tests in virtual time."""
    opened = Store.open(database_url, database_clock=False)
    yield opened
    opened.close()


@pytest.fixture(autouse=True)
def no_wrong_tokens() -> None:
    """Wrong tokens of other tests are not held against this one."""
    WRONG_TOKENS.forget()
