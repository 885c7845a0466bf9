"""The parent of several worker processes: it does no work itself, and keeps as many children as were asked for.

Always true: a child that dies is started again, after a pause that grows while it keeps dying; on stop every child is
waited for; when the parent itself is killed, its children notice and stop.
"""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from socket import socket

from holdfast.base import monotonic_s, world
from holdfast.policy import Backoff
from holdfast.worker.lifeline import READY, Ask, Lifeline
from holdfast.worker.signals import STOPPING, Bell, Words

RESTART = Backoff.exponential(0.5, cap_s=10.0)
"""The pauses before a child that died is started again."""
HEALTHY_S = 60.0
"""Minimum run time after which a child that dies is started again with the shortest pause."""
PROCESSES_MAX = 256
LOOK_S = 1.0
END_S = 15.0
"""Time beyond the grace time that a child has to end before it is killed."""
KILLED = 1
MISUSED = 2
"""With this code a child ends that was started with words it cannot use; a new one could not either."""


@dataclass(slots=True)
class _Child:
    """A place for one child, and who sits in it."""

    process: subprocess.Popen[bytes] | None = None
    line: Lifeline | None = None
    started_s: float = 0.0
    restart_s: float = field(default=float("-inf"))
    """Not started again before this time."""
    deaths: int = 0
    ready: bool = False


class Processes:
    """Keeps worker processes running until a signal says stop.

    Args:
        command: what starts a child; the number of its lifeline is appended as the last word.
        say: told of every child that died.
    """

    def __init__(
        self,
        command: Sequence[str],
        count: int,
        *,
        grace_s: float,
        say: Callable[[str], None],
        environment: Mapping[str, str] | None = None,
    ) -> None:
        self._command = tuple(command)
        self._grace_s = grace_s
        self._say = say
        self._environment = environment
        self._children = [_Child() for _ in range(count)]
        self._proven = False
        """Whether the first child got somewhere; until then it is alone, so that a mistake is told once."""
        self._words = Words()
        self._stopping = False
        self._kill_s = float("inf")
        self._code = 0

    def run(self) -> int:
        """Work until SIGTERM or SIGINT; a second one makes the children give back what they hold.

        The exit code: 0, or 1 when a child had to be killed, or 2 when the children cannot use their words.
        """
        with Bell((*STOPPING, signal.SIGCHLD)) as bell:
            try:
                while not self._done():
                    self._start_missing()
                    bell.wait(self._next_look_s(), *self._lines())
                    self._heed(bell.rung())
                    self._look_after()
            finally:
                self._kill()
        return self._code

    def _done(self) -> bool:
        return self._stopping and all(child.process is None for child in self._children)

    def _lines(self) -> list[Lifeline]:
        return [child.line for child in self._children if child.line is not None]

    def _next_look_s(self) -> float:
        if self._stopping or not self._proven:
            return LOOK_S
        return min([LOOK_S, *(child.restart_s - monotonic_s() for child in self._children if child.process is None)])

    def _start_missing(self) -> None:
        if self._stopping:
            return
        for child in self._children if self._proven else self._children[:1]:
            if child.process is None and child.restart_s <= monotonic_s():
                self._start(child)

    def _start(self, child: _Child) -> None:
        line, theirs = Lifeline.pair()
        child.line, child.started_s, child.ready = line, monotonic_s(), False
        try:
            child.process = self._spawn(theirs)
        except OSError as refused:
            self._mourn(child, f"a worker process could not be started ({refused.strerror or refused})")

    def _spawn(self, theirs: socket) -> subprocess.Popen[bytes]:
        with theirs:
            return subprocess.Popen(  # noqa: S603 - our own program, with the words that were given to us
                [*self._command, str(theirs.fileno())],
                stdin=subprocess.DEVNULL,
                env=None if self._environment is None else {**os.environ, **self._environment},
                pass_fds=(theirs.fileno(),),
                # Ctrl-C reaches the whole group of the terminal; a child shall hear it once, from its parent.
                process_group=0,
            )

    def _heed(self, numbers: list[int]) -> None:
        stopping, leaving = self._words.said, self._words.again
        self._words.hear(numbers)
        if self._words.said and not stopping:
            self._ask(Ask.STOP)
        if self._words.again and not leaving:
            self._ask(Ask.LEAVE)

    def _ask(self, what: Ask) -> None:
        self._stopping = True
        self._kill_s = min(self._kill_s, monotonic_s() + (self._grace_s if what is Ask.STOP else 0.0) + END_S)
        for line in self._lines():
            line.ask(what)

    def _look_after(self) -> None:
        for child in self._children:
            if child.line is not None:
                self._listen(child, child.line)
            if child.process is not None and child.process.poll() is not None:
                self._bury(child, child.process)
        if monotonic_s() >= self._kill_s:
            self._kill()

    def _listen(self, child: _Child, line: Lifeline) -> None:
        heard = line.heard()
        if heard is None:
            self._hang_up(child)
        elif READY in heard:
            child.ready = self._proven = True

    def _bury(self, child: _Child, process: subprocess.Popen[bytes]) -> None:
        child.process = None
        if process.returncode == MISUSED and not child.ready and not self._stopping:
            # It has said why; every other child would say the same.
            self._code = MISUSED
            self._ask(Ask.STOP)
        self._mourn(child, f"worker process {process.pid} {_how(process.returncode)}")

    def _mourn(self, child: _Child, what: str) -> None:
        self._hang_up(child)
        if self._stopping:
            return
        self._proven = True
        child.deaths = 1 if monotonic_s() - child.started_s >= HEALTHY_S else child.deaths + 1
        pause_s = RESTART.delay_s(child.deaths, world().dice)
        child.restart_s = monotonic_s() + pause_s
        self._say(f"{what}; a new one starts in {pause_s:g} s")

    @staticmethod
    def _hang_up(child: _Child) -> None:
        if child.line is not None:
            child.line.close()
            child.line = None

    def _kill(self) -> None:
        self._stopping = True
        for child in self._children:
            if child.process is not None:
                child.process.kill()
                self._code = self._code or KILLED
                self._say(f"worker process {child.process.pid} did not stop in time and was killed")
                child.process.wait()
                self._bury(child, child.process)


def _how(code: int) -> str:
    if code >= 0:
        return f"ended with code {code}"
    try:
        return f"was killed by {signal.Signals(-code).name}"
    except ValueError:
        return f"was killed by signal {-code}"
