"""The other side of the suite `jobs`: one contender in a process of its own, told what to do by its arguments.

`python -m bench.jobs_program CONTENDER COMMAND ADDRESS [NUMBER …]`. Everything but a worker answers one line of JSON.
A worker says `ready`, waits for a line, works, and ends when its standard input does: none outlives who started it.
"""

from __future__ import annotations

import json
import os
import random
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from importlib import import_module
from itertools import count
from time import monotonic_ns, sleep
from typing import Any

from bench.jobs_peers.contender import Contender

READY = "ready"
TOLD_EVERY = 500
"""Number of jobs between two reports of a worker's count; it also reports its first job."""
BATCH = 1_000
PAUSE_S = (0.005, 0.025)
"""Between two samples of a pick-up the worker is idle for a random time."""
SETTLED_S = 2.0


def main(name: str, command: str, address: str, *numbers: str) -> None:
    contender: Contender = import_module(f"bench.jobs_peers.{name}").CONTENDER
    answer = COMMANDS[command](contender, address, *map(int, numbers))
    if answer is not None:
        print(json.dumps(answer), flush=True)


def prepare(contender: Contender, address: str) -> dict[str, Any]:
    contender.prepare(address)
    return {"unfinished": contender.unfinished}


def fill(contender: Contender, address: str, jobs: int) -> int:
    payloads = [f"payload-{number}" for number in range(jobs)]
    contender.fill(address, [payloads[start : start + BATCH] for start in range(0, jobs, BATCH)])
    return jobs


def singly(contender: Contender, address: str, milliseconds: int) -> float:
    return contender.singly(address, milliseconds / 1_000)


def together(contender: Contender, address: str, milliseconds: int, callers: int) -> float:
    return contender.together(address, milliseconds / 1_000, callers)


def bulk(contender: Contender, address: str, milliseconds: int) -> float:
    return contender.bulk(address, milliseconds / 1_000, BATCH)


def work(contender: Contender, address: str) -> None:
    """Count what is handled; lines are a number and the time."""
    numbers = count(1)

    def handled(payload: str) -> None:
        number = next(numbers)
        if number == 1 or number % TOLD_EVERY == 0:
            _tell(f"{number} {monotonic_ns()}")

    contender.work(address, handled, _at_the_gate)


def work_telling(contender: Contender, address: str) -> None:
    """Tell when each job began; lines are its payload and the time."""
    contender.work(address, lambda payload: _tell(f"{payload} {monotonic_ns()}"), _at_the_gate)


def work_hanging(contender: Contender, address: str) -> None:
    """Begin jobs and never end one."""

    def hang(payload: str) -> None:
        _tell(f"{payload} {monotonic_ns()}")
        threading.Event().wait()

    contender.work(address, hang, _at_the_gate)


def recover(contender: Contender, address: str, jobs: int) -> list[float]:
    """Seconds from the SIGKILL of a worker that holds this many jobs until an idle one has begun each of them again."""
    contender.fill(address, [[f"payload-{number}" for number in range(jobs)]])
    with _worker(address, "work_hanging") as first, _worker(address, "work_telling") as other:
        first.begin()
        _wait_for(first.lines, "payload-")
        sleep(SETTLED_S)  # it has claimed all that it is going to claim, and renewed what it renews
        other.begin()
        sleep(SETTLED_S)
        first.process.kill()
        killed_ns = monotonic_ns()
        begun = [int(_wait_for(other.lines, "payload-").split()[1]) for _ in range(jobs)]
    # One that the killed worker had left in the queue was not lost with it.
    return [(at_ns - killed_ns) / 1e9 for at_ns in begun if at_ns > killed_ns]


def pickup(contender: Contender, address: str, samples: int) -> list[float]:
    """Milliseconds from the call that enqueues to the first line of the handler, one job at a time."""
    taken = []
    with _worker(address, "work_telling") as worker:
        worker.begin()
        with contender.waker(address) as send:
            sleep(1.0)
            for number in range(samples):
                sleep(random.uniform(*PAUSE_S))
                sent_ns = monotonic_ns()
                send(f"sample-{number}")
                began_ns = int(_wait_for(worker.lines, f"sample-{number} ").split()[1])
                taken.append((began_ns - sent_ns) / 1_000_000)
    return taken


class _Worker:
    """A worker of the same contender in a process of its own, and what it says."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        assert process.stdout is not None
        self.process = process
        self.lines = iter(process.stdout.readline, "")

    def begin(self) -> None:
        _wait_for(self.lines, READY)
        assert self.process.stdin is not None
        self.process.stdin.write("go\n")
        self.process.stdin.flush()


@contextmanager
def _worker(address: str, command: str) -> Iterator[_Worker]:
    words = [sys.executable, "-m", "bench.jobs_program", sys.argv[1], command, address]
    process = subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, bufsize=1)
    try:
        yield _Worker(process)
    finally:
        process.kill()
        process.wait()


def _wait_for(lines: Any, start: str) -> str:
    for line in lines:
        if line.startswith(start):
            return str(line)
    raise RuntimeError(f"the worker ended before it said {start!r}")


def _at_the_gate() -> None:
    """All workers of a measurement start at the same moment, and end with the one that started them."""
    _tell(READY)
    if not sys.stdin.readline():
        os._exit(0)

    def watch() -> None:
        with suppress(OSError):
            sys.stdin.read()
        os._exit(0)

    threading.Thread(target=watch, daemon=True).start()


def _tell(line: str) -> None:
    os.write(1, f"{line}\n".encode())


COMMANDS: dict[str, Callable[..., Any]] = {
    "prepare": prepare,
    "fill": fill,
    "singly": singly,
    "together": together,
    "bulk": bulk,
    "work": work,
    "work_telling": work_telling,
    "work_hanging": work_hanging,
    "recover": recover,
    "pickup": pickup,
}

if __name__ == "__main__":
    main(*sys.argv[1:])
