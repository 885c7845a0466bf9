"""A real PostgreSQL server for tests: started, stopped, killed, recovered, replicated and promoted at will.

Always true: it listens on loopback only, an acknowledged commit is on disk unless `fsync` was switched off, and no
process of it outlives the program that started it.
"""

from __future__ import annotations

import signal
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

from holdfast.base import REAL
from holdfast.testing.ports import free_port
from holdfast.testing.postgres_files import Files, PostgresBroken
from holdfast.testing.processes import Child, free_shared_memory, wait_until

if TYPE_CHECKING:
    import psycopg

READY_S_MAX = 60.0
PORT_TRIES = 5
LOG_TAIL_CHARS = 2_000

SETTINGS = {
    "listen_addresses": "127.0.0.1",
    "unix_socket_directories": "",  # their paths may be 107 characters long; temporary folders are longer
    "max_connections": "200",
    "shared_buffers": "128MB",
    "synchronous_commit": "on",
    "timezone": "UTC",
    "log_timezone": "UTC",
    "logging_collector": "off",
    # Shared memory as files of the cluster: elsewhere it would stay behind after a kill.
    "dynamic_shared_memory_type": "mmap",
    # A standby that lost its primary asks again at once rather than every five seconds.
    "wal_retrieve_retry_interval": "100ms",
}


class PostgresAddress:
    """A running server as its clients see it."""

    def __init__(self, port: int) -> None:
        self.port = port

    def dsn(self, database: str = "postgres") -> str:
        return f"postgresql://postgres@127.0.0.1:{self.port}/{database}"

    def create_database(self, name: str, *, template: str = "template1") -> str:
        """A new database, equal to the template, and its DSN; nobody may be connected to the template."""
        self.execute(f'CREATE DATABASE "{name}" TEMPLATE "{template}"')
        return self.dsn(name)

    def drop_database(self, name: str) -> None:
        """Delete a database together with the connections to it."""
        self.execute(f'DROP DATABASE IF EXISTS "{name}" WITH (FORCE)')

    def execute(self, statement: str) -> list[tuple[Any, ...]]:
        """Run one statement as superuser outside any transaction; its rows."""
        with self._connected() as connection:
            cursor = connection.execute(statement.encode())
            return cursor.fetchall() if cursor.description else []

    def _connected(self) -> psycopg.Connection[tuple[Any, ...]]:
        import psycopg

        return psycopg.connect(self.dsn(), autocommit=True, connect_timeout=10)


class PostgresServer(PostgresAddress):
    """A server of our own.

    ```python
    with PostgresServer.start(tmp_path) as server:
        dsn = server.create_database("orders")
        server.kill()
        server.restart()
    ```
    """

    def __init__(self, files: Files, *, fsync: bool) -> None:
        super().__init__(free_port())
        self.files = files
        self.fsync = fsync
        self._child: Child | None = None
        self._synchronous: list[str] = []

    @classmethod
    def start(cls, folder: Path, *, fsync: bool = True, template: Path | None = None) -> PostgresServer:
        """A new cluster in the folder, running when this returns.

        Args:
            fsync: off is faster, and still safe against a killed process; not against a machine that fails.
            template: a folder that keeps a fresh cluster from the first start, so that later ones copy it.

        Raises:
            PostgresMissing: there are no PostgreSQL programs.
            PostgresBroken: the server did not come up; the message ends with its log.
        """
        files = Files.at(folder)
        server = cls(files, fsync=fsync)
        try:
            files.make_cluster(template)
            server._serve_on_some_port()
        except BaseException:
            server.close()
            raise
        return server

    @property
    def pid(self) -> int | None:
        """The process id of the postmaster; None while it is down."""
        return self._child.pid if self._child else None

    def stop(self) -> None:
        """End in order: clients are sent away, everything is written. Nothing happens when it is down."""
        self._end(signal.SIGINT, signal.SIGQUIT, signal.SIGKILL)

    def kill(self) -> None:
        """End all its processes with SIGKILL, as a crash would; none is left when this returns."""
        if self._child is not None:
            self._child.kill()
            self._child = None

    def restart(self) -> None:
        """Start again at the same port; after `kill()` this is a crash recovery.

        Raises:
            PostgresBroken: the server did not come up; the message ends with its log.
        """
        self.stop()
        self._serve()

    def standby(self, folder: Path, *, synchronous: bool = True) -> PostgresServer:
        """A replica that streams from this server.

        While a synchronous one is down, commits here wait for it: that is what no lost row costs.
        """
        name = f"standby_{REAL.token_bytes(4).hex()}"
        replica = PostgresServer(Files.at(folder), fsync=self.fsync)
        try:
            replica._copy_of(self, name)
            replica._serve_on_some_port()
            self._wait_for_standby(name, "state = 'streaming'")
            if synchronous:
                self._wait_on_commit_for(name)
        except BaseException:
            replica.close()
            raise
        return replica

    def promote(self) -> None:
        """Make a standby the primary; it takes writes when this returns.

        Raises:
            PostgresBroken: it is none, or it took too long.
        """
        if self.execute("SELECT pg_is_in_recovery()") != [(True,)]:
            raise PostgresBroken("only a standby can be promoted")
        if self.execute(f"SELECT pg_promote(true, {READY_S_MAX:.0f})") != [(True,)]:
            raise PostgresBroken(f"the standby did not become primary:{self._log_tail()}")

    def close(self) -> None:
        """End at once and delete the cluster; only the log is left."""
        self._end(signal.SIGQUIT, signal.SIGKILL)
        free_shared_memory(self.files.data / "postmaster.pid")
        self.files.remove()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _end(self, *signals: signal.Signals) -> None:
        if self._child is not None:
            self._child.end(signals)
            self._child = None

    def _serve_on_some_port(self) -> None:
        for _ in range(PORT_TRIES - 1):
            try:
                return self._serve()
            except PostgresBroken as broken:
                if "could not create any TCP/IP sockets" not in str(broken):
                    raise
            self.port = free_port()  # someone else took it between our look and the server's
        return self._serve()

    def _serve(self) -> None:
        settings = {**SETTINGS, "port": str(self.port), "fsync": "on" if self.fsync else "off"}
        arguments = [part for name, value in settings.items() for part in ("-c", f"{name}={value}")]
        with self.files.log.open("ab") as log:
            self._child = Child(
                [self.files.programs / "postgres", "-D", self.files.data, *arguments],
                log=log,
                environment=self.files.environment(),
                account=self.files.account,
                leftover=self.files.home if self.files.home != self.files.folder else None,
            )
        try:
            wait_until(self._ready, within_s=READY_S_MAX, what="PostgreSQL is ready")
        except (TimeoutError, PostgresBroken) as broken:
            self._end(signal.SIGQUIT, signal.SIGKILL)
            raise PostgresBroken(f"PostgreSQL did not start: {broken}{self._log_tail()}") from None

    def _ready(self) -> bool:
        import psycopg

        if self._child is None or not self._child.running():
            raise PostgresBroken("its process ended")
        try:
            # Asked for its folder, because a stranger may have been quicker to take the port.
            return self.execute("SHOW data_directory") == [(str(self.files.data),)]
        except psycopg.OperationalError:
            return False

    def _copy_of(self, primary: PostgresServer, name: str) -> None:
        self.files.make_data()
        source = f"host=127.0.0.1 port={primary.port} user=postgres application_name={name}"
        self.files.run(
            "pg_basebackup",
            ("-D", self.files.data, "-d", source, "-R", "-X", "stream", "-c", "fast", "-C", "-S", name, "--no-sync"),
        )
        # Promoted, it must not wait for the standbys that its primary had.
        with (self.files.data / "postgresql.auto.conf").open("a") as settings:
            settings.write("synchronous_standby_names = ''\n")

    def _wait_on_commit_for(self, name: str) -> None:
        self._synchronous.append(name)
        names = ", ".join(self._synchronous)
        self.execute(f"ALTER SYSTEM SET synchronous_standby_names = 'FIRST {len(self._synchronous)} ({names})'")
        self.execute("SELECT pg_reload_conf()")
        self._wait_for_standby(name, "sync_state = 'sync'")

    def _wait_for_standby(self, name: str, condition: str) -> None:
        question = f"SELECT 1 FROM pg_stat_replication WHERE application_name = '{name}' AND {condition}"  # noqa: S608
        wait_until(lambda: bool(self.execute(question)), within_s=READY_S_MAX, what=f"{name}: {condition}")

    def _log_tail(self) -> str:
        try:
            return "\n" + self.files.log.read_text(errors="replace")[-LOG_TAIL_CHARS:]
        except OSError:
            return ""


def multi_host_dsn(servers: Iterable[PostgresAddress], database: str = "postgres") -> str:
    """One DSN for all of them, which leads to the one that takes writes."""
    hosts = ",".join(f"127.0.0.1:{server.port}" for server in servers)
    return f"postgresql://postgres@{hosts}/{database}?target_session_attrs=read-write"
