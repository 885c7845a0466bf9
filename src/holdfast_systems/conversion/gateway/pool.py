"""A few processes that convert, kept ready: each caller gets a free one, and a worn one is replaced.

Always true: a process works for one conversion at a time, and one that died, or had to be ended, harms no other.
"""

from __future__ import annotations

import logging
from queue import LifoQueue
from threading import Lock

from holdfast.catalog import Failure
from holdfast_systems.conversion.gateway.converter import Converter, Done, Order
from holdfast_systems.conversion.gateway.faults import CONVERTER_LOST
from holdfast_systems.conversion.gateway.limits import GatewayLimits

LOST_IN_A_ROW_MAX = 3
"""Number of processes lost one after the other at which the gateway reports itself as unhealthy."""

_log = logging.getLogger("holdfast.conversion.gateway")


class Pool:
    """Processes that convert. `convert` blocks and may be called from as many threads as there are processes."""

    def __init__(self, limits: GatewayLimits) -> None:
        self._limits = limits
        self._free: LifoQueue[Converter] = LifoQueue()
        self._lock = Lock()
        self._every: set[Converter] = set()
        self._lost_in_a_row = 0
        self._stopped = False

    def start(self) -> None:
        """Start every process and wait until each takes work.

        Raises:
            Failure: CONVERTER_LOST.
        """
        for _ in range(self._limits.processes):
            converter = Converter(self._limits)
            self._every.add(converter)
            self._free.put(converter)
        try:
            for converter in list(self._every):
                converter.wait_ready()
        except Failure:
            self.stop()
            raise

    def stop(self) -> None:
        """End every process, in the middle of its work if need be, and wait for those who work with one."""
        with self._lock:
            self._stopped = True
            every = list(self._every)
        for converter in every:
            converter.kill()
        for _ in range(self._limits.processes):
            self._free.get().end()

    @property
    def healthy(self) -> bool:
        """Whether the last conversions were not all lost to processes that died."""
        return self._lost_in_a_row < LOST_IN_A_ROW_MAX

    @property
    def pids(self) -> list[int]:
        """The processes as they are now."""
        with self._lock:
            return sorted(converter.pid for converter in self._every)

    def convert(self, order: Order) -> Done:
        """Convert in a free process.

        Raises:
            Failure: about the file, its weight, or the loss of the process.
            Abandoned: nobody waits any more.
        """
        converter = self._free.get()
        try:
            if converter.worn:
                converter = self._replaced(converter)
            done = converter.convert(order)
            self._lost_in_a_row = 0
            return done
        except Failure as failure:
            lost = failure.code == CONVERTER_LOST.code
            if lost:
                _log.warning("process %d was lost: %s", converter.pid, failure.technical)
            self._lost_in_a_row = self._lost_in_a_row + 1 if lost else 0
            raise
        finally:
            # Started now, it is ready by the time somebody asks.
            self._free.put(self._replaced(converter) if converter.worn else converter)

    def _replaced(self, worn: Converter) -> Converter:
        """A new process, or where none can be had, the old one: its place must not be lost."""
        worn.end()
        with self._lock:
            if self._stopped:
                return worn
            self._every.discard(worn)
            try:
                fresh = Converter(self._limits)
            except OSError:
                return worn
            self._every.add(fresh)
            return fresh
