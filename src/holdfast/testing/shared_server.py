"""One server for several processes, such as the workers of one test run.

The first to come starts a guardian, a process that owns the server. Each user holds a shared lock on one file; the
guardian waits for the exclusive one. The kernel is the reference count: it lets go of the lock of a process that was
killed, so the server ends with its last user however that one ended.
"""

from __future__ import annotations

import fcntl
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from importlib import import_module
from pathlib import Path
from typing import IO

from holdfast.testing.processes import wait_until

GUARDIAN = "import sys; from holdfast.testing.shared_server import guard; guard(sys.argv[1], sys.argv[2])"
LAST_WAIT_S = 60.0
LOG_TAIL_CHARS = 2_000

Start = Callable[[Path], AbstractContextManager[str]]
"""Runs a server in a folder while the block lasts; the text tells users how to reach it."""


class SharedServerBroken(RuntimeError):
    """The server that was to be shared did not start; the message ends with what its guardian said."""


@contextmanager
def shared_server(folder: Path, start: str) -> Iterator[str]:
    """What the server of this folder told of itself; it ends when the last of its users leaves the block.

    Args:
        start: the dotted name of a `Start`, as in `holdfast.testing.s3.started`.

    Raises:
        SharedServerBroken: the server did not start.
    """
    folder.mkdir(parents=True, exist_ok=True)
    with _users(folder) as users:
        with _locked(folder / "start.lock", fcntl.LOCK_EX):
            # Waits while a guardian that has seen its last user leave is still clearing up.
            fcntl.flock(users, fcntl.LOCK_SH)
            if not _guarded(folder):
                _start_guardian(folder, start)
            told = (folder / "told").read_text()
        try:
            yield told
        finally:
            with _locked(folder / "start.lock", fcntl.LOCK_EX):
                fcntl.flock(users, fcntl.LOCK_UN)
                last = _nobody_left(folder)
    if last:
        wait_until(lambda: not _guarded(folder), within_s=LAST_WAIT_S, what=f"the server of {folder.name} has ended")


def guard(folder_name: str, start: str) -> None:
    """The guardian's life: start the server, tell how to reach it, wait until nobody uses it, end it."""
    folder = Path(folder_name)
    module, _, name = start.rpartition(".")
    begin: Start = getattr(import_module(module), name)
    with _locked(folder / "guardian.lock", fcntl.LOCK_EX), _users(folder) as users:
        with begin(folder / "server") as told:
            (folder / "told").write_text(told)
            sys.stdout.write("ready\n")
            sys.stdout.flush()
            # Held until all is gone, so that a new user waits and then starts a server of its own.
            fcntl.flock(users, fcntl.LOCK_EX)
        (folder / "told").unlink()


def _start_guardian(folder: Path, start: str) -> None:
    # Through a shell that ends at once: the guardian is not a child of ours, since it may outlive us.
    command = ["/bin/sh", "-c", '"$@" &', "holdfast-guardian", sys.executable, "-c", GUARDIAN, str(folder), start]
    with (folder / "guardian.log").open("ab") as log:
        shell = subprocess.Popen(  # noqa: S603 - our own interpreter and code
            command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=log, start_new_session=True
        )
    with shell:
        told = shell.stdout.readline() if shell.stdout else b""
    if told != b"ready\n":
        tail = (folder / "guardian.log").read_text(errors="replace")[-LOG_TAIL_CHARS:]
        raise SharedServerBroken(f"the server of {folder.name} did not start:\n{tail}")


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
