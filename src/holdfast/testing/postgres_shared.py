"""One PostgreSQL server for several processes, such as the workers of one test run.

The first to come starts a guardian, which owns the server. Each user holds a shared lock on one file; the guardian
waits for the exclusive one. The kernel is the reference count: it lets go of the lock of a process that was killed,
so the server ends with its last user however that one ended.
"""

from __future__ import annotations

import fcntl
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO

from holdfast.testing.postgres import LOG_TAIL_CHARS, PostgresAddress, PostgresServer
from holdfast.testing.postgres_files import PostgresBroken
from holdfast.testing.processes import wait_until

GUARDIAN = "import sys; from holdfast.testing.postgres_shared import guard; guard(sys.argv[1], sys.argv[2])"
LAST_WAIT_S = 60.0


@contextmanager
def shared_postgres(root: Path, *, fsync: bool = True) -> Iterator[PostgresAddress]:
    """The server that all users of the folder share; it ends when the last of them leaves the block.

    Raises:
        PostgresBroken: the server did not start.
    """
    folder = root / "shared-postgres"
    folder.mkdir(parents=True, exist_ok=True)
    with _users(folder) as users:
        with _locked(folder / "start.lock", fcntl.LOCK_EX):
            # Waits while a guardian that has seen its last user leave is still clearing up.
            fcntl.flock(users, fcntl.LOCK_SH)
            if not _guarded(folder):
                _start_guardian(folder, fsync)
            address = PostgresAddress(int((folder / "port").read_text()))
        try:
            yield address
        finally:
            with _locked(folder / "start.lock", fcntl.LOCK_EX):
                fcntl.flock(users, fcntl.LOCK_UN)
                last = _nobody_left(folder)
    if last:
        wait_until(lambda: not _guarded(folder), within_s=LAST_WAIT_S, what="the shared PostgreSQL has ended")


def guard(folder_name: str, fsync: str) -> None:
    """The guardian's life: start the server, tell its port, wait until nobody uses it, delete it."""
    folder = Path(folder_name)
    with (
        _locked(folder / "guardian.lock", fcntl.LOCK_EX),
        PostgresServer.start(folder / "server", fsync=fsync == "fsync") as server,
    ):
        (folder / "port").write_text(str(server.port))
        sys.stdout.write("ready\n")
        sys.stdout.flush()
        with _users(folder) as users:
            fcntl.flock(users, fcntl.LOCK_EX)
            # Held until all is gone, so that a new user waits and then starts a server of its own.
            server.close()
            (folder / "port").unlink()


def _start_guardian(folder: Path, fsync: bool) -> None:
    # Through a shell that ends at once: the guardian is no child of ours, since it may outlive us.
    command = ["/bin/sh", "-c", '"$@" &', "holdfast-guardian", sys.executable, "-c", GUARDIAN, str(folder)]
    with (folder / "guardian.log").open("ab") as log:
        shell = subprocess.Popen(  # noqa: S603 - our own interpreter and code
            [*command, "fsync" if fsync else "no-fsync"],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=log,
            start_new_session=True,
        )
    with shell:
        told = shell.stdout.readline() if shell.stdout else b""
    if told != b"ready\n":
        tail = (folder / "guardian.log").read_text(errors="replace")[-LOG_TAIL_CHARS:]
        raise PostgresBroken(f"the shared PostgreSQL did not start:\n{tail}")


def _guarded(folder: Path) -> bool:
    """Whether a guardian lives."""
    return not _free(folder / "guardian.lock", fcntl.LOCK_SH)


def _nobody_left(folder: Path) -> bool:
    """Whether no user holds the lock: either nobody does, or already the guardian."""
    users = folder / "users.lock"
    return _free(users, fcntl.LOCK_EX) or not _free(users, fcntl.LOCK_SH)


def _users(folder: Path) -> IO[bytes]:
    return (folder / "users.lock").open("ab")


@contextmanager
def _locked(file: Path, kind: int) -> Iterator[None]:
    with file.open("ab") as handle:
        fcntl.flock(handle, kind)
        yield


def _free(file: Path, kind: int) -> bool:
    try:
        with _locked(file, kind | fcntl.LOCK_NB):
            return True
    except BlockingIOError:
        return False
