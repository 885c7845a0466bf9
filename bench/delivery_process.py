"""The measuring side of the suite `delivery`: parties as processes, and a count that they share with this one."""

from __future__ import annotations

import mmap
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from time import perf_counter, sleep

from bench.jobs_process import cpu_s
from holdfast.testing.postgres import PostgresServer

ROOT = Path(__file__).parent.parent
COUNT_BYTES = 8
READY_S_MAX = 60.0
POLL_S = 0.002
END_S = 5.0


class Count:
    """A number in memory that two processes see: one adds to it, the other looks. To look costs nobody anything."""

    def __init__(self, path: str) -> None:
        self.path = path
        with open(path, "r+b") as file:
            self._shared = mmap.mmap(file.fileno(), COUNT_BYTES)

    @property
    def value(self) -> int:
        return int.from_bytes(self._shared[:COUNT_BYTES], "little")

    @value.setter
    def value(self, number: int) -> None:
        self._shared[:COUNT_BYTES] = number.to_bytes(COUNT_BYTES, "little")


@contextmanager
def shared_count() -> Iterator[Count]:
    """A new count; it begins at nothing."""
    handle, path = tempfile.mkstemp()
    try:
        os.write(handle, bytes(COUNT_BYTES))
        os.close(handle)
        yield Count(path)
    finally:
        os.unlink(path)


class Party:
    """A process of `bench.delivery_program`."""

    def __init__(self, *arguments: str) -> None:
        command = [sys.executable, "-m", "bench.delivery_program", *arguments]
        self._process = subprocess.Popen(command, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    def says(self) -> str:
        """The next line it writes.

        Raises:
            RuntimeError: it ended.
        """
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        if not line:
            raise RuntimeError(f"a process of the suite ended with {self._process.wait()}")
        return line.strip()

    def go(self) -> None:
        """Let it begin."""
        assert self._process.stdin is not None
        self._process.stdin.write("go\n")
        self._process.stdin.flush()

    @property
    def cpu_s(self) -> float:
        return cpu_s(self._process.pid)

    def end(self) -> None:
        self._process.terminate()
        try:
            self._process.wait(END_S)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        for pipe in (self._process.stdin, self._process.stdout):
            if pipe is not None:
                with suppress(BrokenPipeError):
                    pipe.close()


@contextmanager
def party(*arguments: str) -> Iterator[Party]:
    """A process that is ended, by its id, when the block ends."""
    one = Party(*arguments)
    try:
        yield one
    finally:
        one.end()


def until(reached: Callable[[], bool], *, within_s: float) -> float:
    """Wait; the time at which it was so.

    Raises:
        TimeoutError: it took too long.
    """
    give_up_s = perf_counter() + within_s
    while not reached():
        if perf_counter() > give_up_s:
            raise TimeoutError(f"it did not come to that within {within_s:.0f} s")
        sleep(POLL_S)
    return perf_counter()


def backends_s(server: PostgresServer, database: str) -> float:
    """CPU time that the connections to a database have used so far, on the server's side."""
    found = server.execute(f"SELECT pid FROM pg_stat_activity WHERE datname = '{database}'")
    return sum(cpu_s(int(pid)) for (pid,) in found)
