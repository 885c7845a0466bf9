"""Real child processes for tests: they die with the program that started them, and their end can be waited for.

Time here is always real time, also where a test has replaced the world: other processes do not live in it.
"""

from __future__ import annotations

import os
import select
import signal
import subprocess
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

from holdfast.base import REAL

END_WAIT_S = 20.0
POLL_S = 0.01
IPC_RMID = 0
SENTINEL = """
read -r _
kill -QUIT "$1"
tries=0
while kill -0 "$1" 2>/dev/null && [ $tries -lt 100 ]; do sleep 0.1; tries=$((tries + 1)); done
kill -KILL "$1" 2>/dev/null
[ -z "$2" ] || rm -rf -- "$2"
"""


@dataclass(frozen=True, slots=True)
class Account:
    """A user of this machine that a server may run as."""

    user_id: int
    group_id: int

    def can_enter(self, folder: Path) -> bool:
        """Whether every folder on the way, and this one, lets the account through."""
        return all(self._can_pass(step) for step in (folder, *folder.parents))

    def _can_pass(self, folder: Path) -> bool:
        status = folder.stat()
        if status.st_uid == self.user_id:
            return bool(status.st_mode & 0o100)
        if status.st_gid == self.group_id:
            return bool(status.st_mode & 0o010)
        return bool(status.st_mode & 0o001)

    def own(self, folder: Path) -> None:
        """Give the folder and all that is in it to the account."""
        for place, folders, files in os.walk(folder):
            os.chown(place, self.user_id, self.group_id)
            for name in (*folders, *files):
                os.lchown(os.path.join(place, name), self.user_id, self.group_id)


def other_account() -> Account | None:
    """Whom a server that refuses to be root runs as; None where this process is not root."""
    if os.geteuid() != 0:
        return None
    import pwd

    entry = pwd.getpwnam("nobody")
    return Account(entry.pw_uid, entry.pw_gid)


class Child:
    """A process of our own that is ended when this program ends, however that comes about."""

    def __init__(
        self,
        command: Sequence[str | Path],
        *,
        log: IO[bytes],
        environment: Mapping[str, str] | None = None,
        account: Account | None = None,
        leftover: Path | None = None,
    ) -> None:
        """Start it; `leftover` is a folder to delete when this program was killed and could not."""
        # The process and all its descendants inherit the writing end; when reading meets the end, all are gone.
        self._family, inherited = os.pipe()
        try:
            self._process = subprocess.Popen(  # noqa: S603 - callers pass fixed programs
                [str(part) for part in command],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                cwd="/",  # the account may not be allowed into ours
                env=environment,
                pass_fds=(inherited,),
                start_new_session=True,  # Ctrl-C is for the tests, which then end the server in order
                **as_account(account),
            )
        finally:
            os.close(inherited)
        self._sentinel = Sentinel(self._process.pid, leftover)

    @property
    def pid(self) -> int:
        return self._process.pid

    def running(self) -> bool:
        return self._process.poll() is None

    def end(self, signals: Sequence[signal.Signals], *, each_s: float = END_WAIT_S) -> None:
        """Send one signal after the other until the process ends, then wait for its descendants.

        Raises:
            TimeoutError: something of it is still alive.
        """
        for number in signals:
            self._process.send_signal(number)
            try:
                self._process.wait(each_s)
                break
            except subprocess.TimeoutExpired:
                continue
        self.wait()

    def kill(self) -> None:
        """End the process and its children at one blow, as a crash would, and wait until none is left."""
        # A stopped parent starts no more children and reaps none, so no number in the list can be someone else's.
        self._process.send_signal(signal.SIGSTOP)
        for pid in children(self.pid):
            _signal(pid, signal.SIGKILL)
        self._process.kill()
        self.wait()

    def wait(self, within_s: float = END_WAIT_S) -> None:
        """Return when the process and all that descend from it are gone.

        Raises:
            TimeoutError: something of it is still alive.
        """
        try:
            self._process.wait(within_s)
        except subprocess.TimeoutExpired:
            raise TimeoutError(f"process {self.pid} did not end within {within_s} s") from None
        self._sentinel.dismiss()
        if self._family < 0:
            return
        if not select.select([self._family], [], [], within_s)[0]:
            raise TimeoutError(f"a descendant of process {self.pid} did not end within {within_s} s")
        os.close(self._family)
        self._family = -1


class Sentinel:
    """A shell that ends a process when this program is gone.

    It waits for the end of a pipe that only this program holds open, which the kernel closes even after SIGKILL.
    A parent-death signal would do less: it fires when the *thread* that started the process ends, and is lost
    when the process changes its user.
    """

    def __init__(self, pid: int, leftover: Path | None) -> None:
        self._shell = subprocess.Popen(  # noqa: S603 - a fixed script, a number and a path of ours
            ["/bin/sh", "-c", SENTINEL, "holdfast-sentinel", str(pid), str(leftover or "")],
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            cwd="/",
            start_new_session=True,
        )

    def dismiss(self) -> None:
        """End the watch and leave the process alone."""
        self._shell.kill()
        self._shell.wait()
        if self._shell.stdin is not None:
            self._shell.stdin.close()


def children(pid: int) -> list[int]:
    """The direct children of a process; none where the system has no /proc to tell."""
    found = []
    for entry in Path("/proc").glob("[0-9]*/stat"):
        try:
            # The name in brackets may hold anything; the parent is the second field after it.
            parent = int(entry.read_text(errors="replace").rpartition(")")[2].split()[1])
        except (OSError, IndexError):
            continue  # it ended while we looked
        if parent == pid:
            found.append(int(entry.parent.name))
    return found


def wait_until(true: Callable[[], bool], *, within_s: float, what: str) -> None:
    """Return when the condition holds.

    Raises:
        TimeoutError: it did not come to hold in time.
    """
    last_s = REAL.monotonic_s() + within_s
    while not true():
        if REAL.monotonic_s() > last_s:
            raise TimeoutError(f"{what}: not within {within_s} s")
        REAL.sleep(POLL_S)


def as_account(account: Account | None) -> dict[str, Any]:
    """The arguments with which `subprocess` starts a process as the account; nothing for our own."""
    if account is None:
        return {}
    return {"user": account.user_id, "group": account.group_id, "extra_groups": ()}


def _signal(pid: int, number: signal.Signals) -> None:
    try:
        os.kill(pid, number)
    except ProcessLookupError:
        return


def free_shared_memory(lock_file: Path) -> None:
    """Give back the small System V segment that a killed PostgreSQL left behind; its lock file names it."""
    import ctypes

    try:
        segment = int(lock_file.read_text().splitlines()[6].split()[1])
    except (OSError, IndexError, ValueError):
        return  # it ended in order
    ctypes.CDLL(None).shmctl(segment, IPC_RMID, None)
