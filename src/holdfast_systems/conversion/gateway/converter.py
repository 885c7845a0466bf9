"""One process that converts, seen from the gateway: started, given work, and ended when it goes over a limit.

Always true: a conversion ends within its wall time, with a result or a failure; a process that was ended is reaped.
"""

from __future__ import annotations

import os
import select
import signal
import subprocess
import sys
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from threading import Event
from typing import Any

from holdfast.base import decode, encode, monotonic_s
from holdfast.catalog import Failure
from holdfast_systems.conversion.gateway.faults import (
    CONVERSION_STARVED,
    CONVERSION_TOO_HEAVY,
    CONVERTER_LOST,
    GATEWAY_FAULTS,
)
from holdfast_systems.conversion.gateway.limits import GatewayLimits

START_S_MAX = 30.0
ANSWER_BYTES_MAX = 65_536
LOOK_S = 0.1
"""Interval between checks whether a caller still waits for a running conversion."""
ENDING_S_MAX = 10.0

CRASHES = frozenset({signal.SIGSEGV, signal.SIGABRT, signal.SIGTRAP, signal.SIGILL, signal.SIGBUS, signal.SIGFPE})
"""How pdfium ends when a file leads it astray, or when memory is refused to it."""
NO_MEMORY_STATUS = 127
"""How the C library ends a process that has no memory left for its thread."""
PASSED_ON = ("PATH", "PYTHONPATH", "LANG", "LC_ALL", "TMPDIR", "VIRTUAL_ENV")
"""All that a process that reads foreign files learns of our environment."""


class Abandoned(Exception):
    """Nobody waits for the conversion any more."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Order:
    """One conversion."""

    source: Path
    result: Path
    mapping: str
    wall_s: float
    abandoned: Event


@dataclass(frozen=True, slots=True)
class Done:
    """What a conversion gave."""

    pages: int
    bytes: int


class Converter:
    """A process that converts one PDF at a time."""

    def __init__(self, limits: GatewayLimits) -> None:
        self._limits = limits
        self._conversions = 0
        self._kept_bytes = 0
        self._buffer = b""
        self._ready = False
        self._process = subprocess.Popen(  # noqa: S603 - our own program
            [sys.executable, "-m", "holdfast_systems.conversion.gateway.child", str(limits.memory_bytes)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env=quiet_environment(os.environ),
            start_new_session=True,  # Ctrl-C is for the gateway
        )

    @property
    def pid(self) -> int:
        return self._process.pid

    @property
    def worn(self) -> bool:
        """Whether it should be replaced before the next conversion."""
        limits = self._limits
        return (
            self._process.poll() is not None
            or self._speaks_unasked()
            or self._conversions >= limits.conversions_max
            or self._kept_bytes > limits.idle_bytes_max
        )

    def wait_ready(self) -> None:
        """Return when it takes work.

        Raises:
            Failure: CONVERTER_LOST.
        """
        if self._ready:
            return
        try:
            told = self._answer(monotonic_s() + START_S_MAX, Event())
        except TimeoutError:
            told = None
        if told is None:
            self.end()
            raise CONVERTER_LOST(reason="not_started")
        self._ready = True

    def convert(self, order: Order) -> Done:
        """Convert, within the limits. After a failure that is not about the file the process is gone.

        Raises:
            Failure: about the file, its weight, or the loss of this process.
            Abandoned: nobody waits any more.
        """
        if self._process.poll() is not None:
            raise CONVERTER_LOST(reason="gone")
        self.wait_ready()
        self._conversions += 1
        try:
            self._send(order)
            told = self._answer(monotonic_s() + order.wall_s, order.abandoned)
        except Abandoned:
            self.end()
            raise
        except TimeoutError:
            self.end()
            raise CONVERSION_STARVED(wall_s=round(order.wall_s, 1)) from None
        if told is None:
            raise self._lost()
        self._kept_bytes = told["kept_bytes"]
        if "code" not in told:
            return Done(told["pages"], told["bytes"])
        if told.get("spent"):
            self.end()
        raise GATEWAY_FAULTS[told["code"]](**told["details"])

    def kill(self) -> None:
        """End it at once; the thread that works with it then finds it gone."""
        self._process.kill()

    def end(self) -> int:
        """Kill it, reap it and close what leads to it; the status it ended with."""
        self._process.kill()
        status = self._process.wait()
        for pipe in (self._process.stdin, self._process.stdout):
            if pipe is not None:
                with suppress(OSError):  # something may be left to write for a process that is gone
                    pipe.close()
        return status

    def _speaks_unasked(self) -> bool:
        """Whether its pipe has something to read between conversions: that can only be its end."""
        assert self._process.stdout is not None
        return self._ready and bool(select.select([self._process.stdout], [], [], 0)[0])

    def _send(self, order: Order) -> None:
        limits = self._limits
        line = encode(
            {
                "source": str(order.source),
                "result": str(order.result),
                "mapping": order.mapping,
                "cpu_s": limits.cpu_s,
                "pages_max": limits.pages_max,
                "page_chars_max": limits.page_chars_max,
                "xml_bytes_max": limits.xml_bytes_max,
            }
        )
        assert self._process.stdin is not None
        with suppress(OSError):  # if it is gone, its missing answer will tell
            self._process.stdin.write(f"{line}\n".encode())
            self._process.stdin.flush()

    def _answer(self, until_s: float, abandoned: Event) -> dict[str, Any] | None:
        """The next line; None when the process ended instead.

        Raises:
            TimeoutError: neither came in time.
            Abandoned: nobody waits any more.
        """
        assert self._process.stdout is not None
        pipe = self._process.stdout.fileno()
        while b"\n" not in self._buffer:
            if abandoned.is_set():
                raise Abandoned
            left_s = until_s - monotonic_s()
            if left_s <= 0:
                raise TimeoutError
            if select.select([pipe], [], [], min(left_s, LOOK_S))[0]:
                read = os.read(pipe, ANSWER_BYTES_MAX)
                if not read or len(self._buffer) > ANSWER_BYTES_MAX:
                    return None
                self._buffer += read
        line, _, self._buffer = self._buffer.partition(b"\n")
        told: dict[str, Any] = decode(line)
        return told

    def _lost(self) -> Failure:
        """Why the process ended."""
        with suppress(subprocess.TimeoutExpired):
            self._process.wait(ENDING_S_MAX)  # its pipe closes a moment before it can be reaped
        status = self.end()
        if status == NO_MEMORY_STATUS:
            return CONVERSION_TOO_HEAVY(reason="memory")
        number = -status
        if number == signal.SIGXCPU:
            return CONVERSION_TOO_HEAVY(reason="cpu")
        if number in CRASHES:
            return CONVERSION_TOO_HEAVY(reason="crash")
        return CONVERTER_LOST(reason=f"signal_{number}" if number > 0 else "exit")


def quiet_environment(given: Mapping[str, str]) -> dict[str, str]:
    """What a process of the gateway needs to know; secrets of the program around it are not among that."""
    kept = {name: given[name] for name in PASSED_ON if name in given}
    # One arena: what was freed is given back, and address space is not reserved for threads that do nothing.
    return {**kept, "MALLOC_ARENA_MAX": "1", "PYTHONUNBUFFERED": "1"}
