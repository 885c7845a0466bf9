"""The measuring side of the suite `jobs`: start contenders as processes, listen to workers, end every one of them."""

from __future__ import annotations

import json
import os
import selectors
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from time import monotonic_ns, perf_counter, sleep
from typing import Any

from bench.jobs_program import READY, TOLD_EVERY

ROOT = Path(__file__).parent.parent
COMMAND_S_MAX = 240.0
READY_S_MAX = 30.0
POLL_S = 0.01
END_S = 5.0
TICKS = os.sysconf("SC_CLK_TCK")
PAGE = os.sysconf("SC_PAGE_SIZE")


class Unavailable(Exception):
    """A contender that cannot be run; the message says why."""


@cache
def python_of(contender: str) -> str:
    """The interpreter that has the contender's package.

    Raises:
        Unavailable: there is none.
    """
    if contender == "oban":
        from bench.jobs_oban import python_with_oban

        return python_with_oban()
    return sys.executable


def ask(contender: str, command: str, address: str, *numbers: int) -> Any:
    """Run one command of a contender to its end; its answer.

    Raises:
        Unavailable: the program failed; the last line of its error is the message.
    """
    arguments = _arguments(contender, command, address, *numbers)
    try:
        done = subprocess.run(arguments, cwd=ROOT, capture_output=True, text=True, timeout=COMMAND_S_MAX, check=False)
    except subprocess.TimeoutExpired:
        raise Unavailable(f"{command} took longer than {COMMAND_S_MAX:.0f} s") from None
    if done.returncode:
        raise Unavailable(f"{command}: {_last_line(done.stderr)}")
    return json.loads(done.stdout.splitlines()[-1])


@dataclass(slots=True)
class Worker:
    """A worker process, and what it has told."""

    process: subprocess.Popen[bytes]
    errors: Any
    told: list[tuple[int, int]] = field(default_factory=list)
    """How many jobs it had handled, and when."""
    ready: bool = False
    _rest: bytes = b""

    @property
    def handled(self) -> int:
        return self.told[-1][0] if self.told else 0

    def listen(self) -> None:
        """Take what it has said; there is something to read."""
        assert self.process.stdout is not None
        said = os.read(self.process.stdout.fileno(), 65_536)
        if not said:
            raise Unavailable(f"a worker ended: {self.last_words()}")
        *lines, self._rest = (self._rest + said).split(b"\n")
        for line in lines:
            if line == READY.encode():
                self.ready = True
            elif len(parts := line.split()) == 2 and parts[0].isdigit():
                self.told.append((int(parts[0]), int(parts[1])))

    def go(self) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(b"go\n")
        self.process.stdin.flush()

    def last_words(self) -> str:
        self.errors.seek(0)
        return _last_line(self.errors.read().decode(errors="replace"))

    def complaints(self, word: str) -> int:
        """How often a word stands in what it wrote to its standard error."""
        self.errors.seek(0)
        return int(self.errors.read().decode(errors="replace").count(word))


class Crew:
    """Some workers of one contender on one database, started at the same moment."""

    def __init__(self, workers: list[Worker]) -> None:
        self.workers = workers
        self._heard = selectors.DefaultSelector()
        for worker in workers:
            assert worker.process.stdout is not None
            self._heard.register(worker.process.stdout, selectors.EVENT_READ, worker)

    def go(self) -> None:
        """Let them begin, once all have everything imported and connected."""
        give_up = perf_counter() + READY_S_MAX
        while not all(worker.ready for worker in self.workers):
            self.listen(0.1)
            if perf_counter() > give_up:
                raise Unavailable(f"no worker was ready within {READY_S_MAX:.0f} s")
        for worker in self.workers:
            worker.go()

    def listen(self, seconds: float) -> None:
        for key, _ in self._heard.select(seconds):
            key.data.listen()

    def begun(self, *, within_s: float) -> None:
        """Wait for the first job that any of them handles."""
        give_up = perf_counter() + within_s
        while not any(worker.told for worker in self.workers):
            self.listen(POLL_S)
            if perf_counter() > give_up:
                raise Unavailable(f"no job was handled within {within_s:.0f} s")

    def cpu_s(self) -> float:
        return sum(cpu_s(worker.process.pid) for worker in self.workers)

    def drained(self, jobs: int, unfinished: Callable[[], int], *, within_s: float) -> float:
        """Seconds from the first job handled to all jobs done, by what the database says.

        Raises:
            Unavailable: it took too long.
        """
        give_up = perf_counter() + within_s
        # The database is asked only when the workers say that little is left: a question is a burden too.
        almost = jobs - len(self.workers) * TOLD_EVERY
        self.begun(within_s=within_s)
        while sum(worker.handled for worker in self.workers) < almost:
            self.listen(POLL_S)
            if perf_counter() > give_up:
                handled = sum(worker.handled for worker in self.workers)
                raise Unavailable(f"{handled} of {jobs} jobs were handled within {within_s:.0f} s")
        while (left := unfinished()) > 0:
            self.listen(POLL_S)
            if perf_counter() > give_up:
                raise Unavailable(f"{left} of {jobs} jobs were left after {within_s:.0f} s")
        ended_ns = monotonic_ns()
        self.listen(0)
        return (ended_ns - min(worker.told[0][1] for worker in self.workers if worker.told)) / 1e9


@contextmanager
def crew(contender: str, address: str, workers: int) -> Iterator[Crew]:
    """Worker processes that wait for `go`; each is ended, by its id, when the block ends."""
    with ExitStack() as ends:
        started = []
        for _ in range(workers):
            errors = ends.enter_context(tempfile.TemporaryFile())
            process = subprocess.Popen(
                _arguments(contender, "work", address),
                cwd=ROOT,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=errors,
            )
            ends.callback(_end, process)
            started.append(Worker(process, errors))
        yield Crew(started)


def cpu_s(process: int) -> float:
    """CPU time that a process has used so far, all threads included."""
    fields = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / TICKS


def resident_mb(process: int) -> float:
    """How much memory a process occupies."""
    return int(Path(f"/proc/{process}/statm").read_text().split()[1]) * PAGE / 1_000_000


def wait_s(seconds: float, meanwhile: Crew | None = None) -> None:
    """Let time pass, and listen so that no worker waits for a full pipe."""
    end = perf_counter() + seconds
    while (left := end - perf_counter()) > 0:
        if meanwhile is None:
            sleep(left)
        else:
            meanwhile.listen(min(left, 0.2))


def _arguments(contender: str, command: str, address: str, *numbers: int) -> list[str]:
    return [python_of(contender), "-m", "bench.jobs_program", contender, command, address, *map(str, numbers)]


def _end(process: subprocess.Popen[bytes]) -> None:
    process.terminate()
    try:
        process.wait(END_S)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
    for pipe in (process.stdin, process.stdout):
        if pipe is not None:
            pipe.close()


def _last_line(text: str) -> str:
    lines = [line for line in text.strip().splitlines() if line.strip()]
    return lines[-1][:200] if lines else "it said nothing"
