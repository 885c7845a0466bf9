"""A real PgBouncer before a PostgreSQL server, in transaction mode: sessions are lent for one transaction each.

Always true: it listens on loopback only, takes no startup options, and ends with the program that started it.
"""

from __future__ import annotations

import shutil
import signal
import socket
from pathlib import Path
from typing import Self

from holdfast.testing.ports import free_port
from holdfast.testing.postgres import PostgresAddress
from holdfast.testing.postgres_files import open_place
from holdfast.testing.processes import Child, other_account, wait_until

READY_S_MAX = 20.0
PLACES = "/usr/sbin:/usr/local/sbin:/opt/homebrew/bin"
"""Where packages put the program when the PATH does not lead there."""
SETTINGS = """\
[databases]
* = host=127.0.0.1 port={server_port} user=postgres

[pgbouncer]
listen_addr = 127.0.0.1
listen_port = {port}
unix_socket_dir =
auth_type = any
pool_mode = transaction
max_client_conn = 500
default_pool_size = 20
server_check_delay = 1
"""


class PgBouncerMissing(RuntimeError):
    """There is no PgBouncer on this machine."""


class PgBouncer:
    """A pooler of our own; its addresses lead to the databases of the server behind it."""

    def __init__(self, server: PostgresAddress, folder: Path) -> None:
        """Start it.

        Raises:
            PgBouncerMissing: the program is not installed.
        """
        found = program()
        self.port = free_port()
        account = other_account()
        # The program opens its file by name, and may run as another account.
        self._home = None if account is None or account.can_enter(folder) else open_place(account)
        settings = (self._home or folder) / "pgbouncer.ini"
        settings.write_text(SETTINGS.format(port=self.port, server_port=server.port))
        with (folder / "pgbouncer.log").open("ab") as log:
            self._child = Child([found, settings], log=log, account=account, leftover=self._home)
        try:
            wait_until(self._ready, within_s=READY_S_MAX, what="PgBouncer is ready")
        except TimeoutError:
            self.close()
            raise

    def dsn(self, address: str) -> str:
        """The same database, through the pooler."""
        return f"postgresql://postgres@127.0.0.1:{self.port}/{address.rpartition('/')[2]}"

    def close(self) -> None:
        """End it with all its connections."""
        self._child.end((signal.SIGTERM, signal.SIGKILL))
        if self._home is not None:
            shutil.rmtree(self._home, ignore_errors=True)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _ready(self) -> bool:
        try:
            socket.create_connection(("127.0.0.1", self.port), timeout=1).close()
        except OSError:
            return False
        return True


def program() -> str:
    """The program on this machine.

    Raises:
        PgBouncerMissing: with what to install.
    """
    found = shutil.which("pgbouncer") or shutil.which("pgbouncer", path=PLACES)
    if found is None:
        raise PgBouncerMissing("no PgBouncer: install the package pgbouncer")
    return found
