"""Real processes of one test: started, stopped, paused and killed by their own ids; none outlives the test."""

from __future__ import annotations

import json
import os
import signal
import sys
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from holdfast.testing.processes import Child, wait_until

PROGRAMS = Path(__file__).parent / "programs"
END_S = 60.0


class Member:
    """One process."""

    def __init__(self, name: str, child: Child) -> None:
        self.name = name
        self.child = child
        self.paused = False

    @property
    def pid(self) -> int:
        return self.child.pid

    @property
    def running(self) -> bool:
        return self.child.running()

    @property
    def was_killed(self) -> bool:
        """Whether it ended by SIGKILL, its own or another's."""
        return self.child._process.poll() == -signal.SIGKILL

    def signal(self, number: signal.Signals) -> None:
        """Send a signal, unless the process has ended: then its id may be someone else's."""
        if self.running:
            os.kill(self.pid, number)

    def kill(self) -> None:
        """SIGKILL: no last word."""
        self.child.kill()

    def pause(self) -> None:
        """Let it stand still, as a virtual machine that is moved does."""
        self.signal(signal.SIGSTOP)
        self.paused = True

    def go_on(self) -> None:
        self.signal(signal.SIGCONT)
        self.paused = False

    def stop(self) -> None:
        """SIGTERM: finish what runs, and go.

        Raises:
            TimeoutError: it did not; where it stood is in its log.
        """
        self.signal(signal.SIGTERM)
        self.stopped()

    def stopped(self) -> None:
        """Wait until it has gone by itself; a second SIGTERM would tell it to hurry."""
        try:
            wait_until(lambda: not self.running, within_s=END_S, what=f"process {self.pid} has ended in order")
        except TimeoutError:
            self.signal(signal.SIGUSR1)
            raise
        self.wait()

    def wait(self, within_s: float = END_S) -> None:
        self.child.wait(within_s)


class Fleet:
    """The processes of one test, and what they wrote."""

    def __init__(self, folder: Path, url: str) -> None:
        self.folder = folder
        self.url = url
        self.acknowledged = folder / "acknowledged"
        self.members: list[Member] = []

    def worker(self, url: str | None = None, environment: Mapping[str, str] | None = None, **settings: Any) -> Member:
        """Start a worker process."""
        arguments = [url or self.url, json.dumps(settings)]
        return self._start("worker", "work.py", arguments, environment)

    def enqueuer(self, url: str | None = None, **settings: Any) -> Member:
        """Start an enqueuer, which goes on where the one before it was killed."""
        arguments = [url or self.url, str(settings.pop("file", self.acknowledged)), json.dumps(settings)]
        return self._start("enqueuer", "enqueue.py", arguments)

    def workers(self) -> list[Member]:
        """The workers that live."""
        return [member for member in self.members if member.name == "worker" and member.running]

    def stop_workers(self) -> None:
        """End them in order."""
        living = self.workers()
        for member in living:
            member.signal(signal.SIGTERM)
        for member in living:
            member.stopped()

    def acknowledged_ids(self) -> dict[int, str]:
        """Every number that an enqueuer was told is safe, and its job."""
        if not self.acknowledged.exists():
            return {}
        lines = (line.split() for line in self.acknowledged.read_text().splitlines())
        return {int(number): job_id for number, job_id in lines}

    def said(self) -> str:
        """Everything that any process wrote to its standard output and error."""
        return "".join(path.read_text(errors="replace") for path in sorted(self.folder.glob("*.log")))

    def complaints(self) -> list[str]:
        """Lines that no process should ever write."""
        bad = ("Traceback", "database is locked", "Error:")
        return [line for line in self.said().splitlines() if any(word in line for word in bad)]

    def close(self) -> None:
        """Kill whatever is left, and take leave of all that ended by themselves."""
        for member in self.members:
            if member.running:
                member.kill()
            else:
                member.wait()

    def _start(
        self, name: str, program: str, arguments: Iterable[str], environment: Mapping[str, str] | None = None
    ) -> Member:
        with (self.folder / f"{name}-{len(self.members):03}.log").open("ab") as log:
            child = Child(
                [sys.executable, PROGRAMS / program, *arguments],
                log=log,
                environment={**os.environ, "PYTHONUNBUFFERED": "1", **(environment or {})},
            )
        self.members.append(Member(name, child))
        return self.members[-1]


def all_gone(members: Iterable[Member], within_s: float = END_S) -> None:
    """Wait until none of them lives."""
    chosen = list(members)
    wait_until(lambda: not any(member.running for member in chosen), within_s=within_s, what="they have ended")
