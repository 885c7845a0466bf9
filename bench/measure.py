"""How time is taken: CPU time of a call, wall time of an import, best of several.

Noise only ever adds, so the least of many short batches is the figure. The cases of a group take turns, batch by
batch, so that a busy minute hits all of them alike.
"""

from __future__ import annotations

import asyncio
import gc
import os
import platform
import subprocess
import sys
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from importlib.metadata import version
from itertools import repeat
from math import inf
from tempfile import TemporaryDirectory
from time import process_time_ns
from types import MappingProxyType
from typing import Any

VALUE = 7
"""The argument of every measured call."""
MARK = "-- imports from here --"


@dataclass(frozen=True, slots=True, kw_only=True)
class Effort:
    """How long to look: more rounds find a quieter moment."""

    rounds: int
    batch_ns: int
    imports: int


QUICK = Effort(rounds=5, batch_ns=2_000_000, imports=3)
FULL = Effort(rounds=40, batch_ns=5_000_000, imports=10)

Call = Callable[[int], Any]
Batch = Callable[[int], int]
ALL_TAKEN: Mapping[str, type[Exception]] = MappingProxyType({})


def call_ns(
    cases: Mapping[str, Call],
    effort: Effort,
    *,
    awaited: bool = False,
    refused: Mapping[str, type[Exception]] = ALL_TAKEN,
) -> dict[str, float]:
    """Nanoseconds of CPU time per call of each case, all threads of the process included.

    The cases in `refused` have to raise what stands there, each time; catching it is part of their figure.
    """
    with asyncio.Runner() as runner, _settled_memory():
        batches = {
            name: _awaited(call, runner, refused.get(name)) if awaited else _plain(call, refused.get(name))
            for name, call in cases.items()
        }
        counts = {name: _count_for(batch, effort.batch_ns) for name, batch in batches.items()}
        best = dict.fromkeys(batches, inf)
        for _ in range(effort.rounds):
            for name, batch in batches.items():
                best[name] = min(best[name], batch(counts[name]) / counts[name])
    return best


@contextmanager
def one_processor() -> Iterator[bool]:
    """All threads of this process share one processor in the block; False where the system does not offer that."""
    if not hasattr(os, "sched_setaffinity"):
        yield False
        return
    allowed = os.sched_getaffinity(0)
    try:
        _place_threads({min(allowed)})
        yield True
    finally:
        _place_threads(allowed)


def _place_threads(processors: set[int]) -> None:
    for thread in os.listdir("/proc/self/task"):
        os.sched_setaffinity(int(thread), processors)


def import_ms(statements: Mapping[str, str], effort: Effort) -> dict[str, float]:
    """Milliseconds that each import statement takes in a fresh interpreter with warm bytecode."""
    best = dict.fromkeys(statements, inf)
    with TemporaryDirectory() as bytecode:
        for _ in range(1 + effort.imports):  # the first one only compiles
            for name, statement in statements.items():
                best[name] = min(best[name], _import_once_ms(statement, bytecode))
    return best


def machine(packages: Iterable[str]) -> dict[str, object]:
    """The facts that a reader needs to compare two runs; nothing that names the machine."""
    return {
        "cores": len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count(),
        "system": platform.system(),
        "architecture": platform.machine(),
        "python": f"{platform.python_implementation()} {platform.python_version()}",
        "packages": {package: version(package) for package in packages},
    }


def _plain(call: Call, raised: type[Exception] | None) -> Batch:
    def batch(count: int) -> int:
        started = process_time_ns()
        for _ in repeat(None, count):
            call(VALUE)
        return process_time_ns() - started

    def refused(count: int) -> int:
        started = process_time_ns()
        for _ in repeat(None, count):
            try:
                call(VALUE)
            except raised:
                continue
            raise AssertionError("a call was let through, so there is no refusal to measure")
        return process_time_ns() - started

    return batch if raised is None else refused


def _awaited(call: Callable[[int], Awaitable[Any]], runner: asyncio.Runner, raised: type[Exception] | None) -> Batch:
    async def inside(count: int) -> int:
        started = process_time_ns()
        for _ in repeat(None, count):
            await call(VALUE)
        return process_time_ns() - started

    async def refused(count: int) -> int:
        started = process_time_ns()
        for _ in repeat(None, count):
            try:
                await call(VALUE)
            except raised:
                continue
            raise AssertionError("a call was let through, so there is no refusal to measure")
        return process_time_ns() - started

    def batch(count: int) -> int:
        return runner.run(inside(count) if raised is None else refused(count))

    return batch


def _count_for(batch: Batch, batch_ns: int) -> int:
    """How many calls fill a batch; finding out also warms the case up."""
    batch(1)  # a first call may load modules and start threads, which says nothing of the others
    count = 1
    while (taken := batch(count)) * 2 < batch_ns:
        count *= 2
    return max(1, count * batch_ns // max(taken, 1))


@contextmanager
def _settled_memory() -> Iterator[None]:
    """Collection stays on, for garbage is part of the cost; what is alive already is left out of it."""
    gc.collect()
    gc.freeze()
    try:
        yield
    finally:
        gc.unfreeze()


def _import_once_ms(statement: str, bytecode: str) -> float:
    # The environment may forbid writing bytecode, and then only installed packages would have it.
    environment = {**os.environ, "PYTHONPYCACHEPREFIX": bytecode}
    environment.pop("PYTHONDONTWRITEBYTECODE", None)
    script = f"import sys; print({MARK!r}, file=sys.stderr, flush=True); {statement}"
    command = [sys.executable, "-X", "importtime", "-c", script]
    finished = subprocess.run(command, capture_output=True, text=True, check=False, env=environment)
    if finished.returncode:
        raise RuntimeError(f"{statement}: {finished.stderr.strip().splitlines()[-1]}")
    _, _, report = finished.stderr.partition(MARK)
    return sum(_outermost_us(line) for line in report.splitlines()) / 1_000


def _outermost_us(line: str) -> int:
    """The cumulative time of a module that no other import in the report includes, else nothing.

    The outermost ones are added up, because a package may load its parts only when their names are asked for.
    """
    _, colon, columns = line.partition("import time:")
    if not colon:
        return 0
    _, cumulative, name = columns.split("|")
    return int(cumulative) if not name.startswith("  ") else 0
