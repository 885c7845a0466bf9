"""What one protected call costs: `Link` beside a bare loop and four retry libraries.

Each contender does the same work with the same argument. Figures are CPU time per call, nothing subtracted.
"""

from __future__ import annotations

import asyncio
from contextlib import suppress

from bench.guard_link import link, link_rows, timeout_rows
from bench.guard_peers import ATTEMPTS, PEERS, WORKS, Decorator, loop, loop_async, sleepless
from bench.measure import FULL, QUICK, VALUE, Effort, call_ns, import_ms
from bench.table import Asked, Row

TITLE = "guard: one protected call"
PACKAGES = ("holdfast", *PEERS)

LOOP, OURS = "bare loop", "holdfast"
LOOP_TIMES_MAX = {
    ("success", "sync"): 4,
    ("success", "async"): 3,
    ("one retry", "sync"): 6,
    ("one retry", "async"): 6,
}
OUTDONE = ("redress", "tenacity", "stamina")
OUTDONE_TIMES_MIN = 10
IMPORT_MS_MAX = 50


def run(quick: bool) -> list[Row]:
    """All figures of the suite."""
    effort = QUICK if quick else FULL
    rows: list[Row] = []
    with sleepless():
        for path, colour in LOOP_TIMES_MAX:
            rows += _beside_peers(path, colour, effort)
        for colour in ("sync", "async"):
            rows += link_rows(colour, effort)
        rows += timeout_rows(effort)
    return rows + _import_rows(effort)


def _beside_peers(path: str, colour: str, effort: Effort) -> list[Row]:
    # Every other call fails here, which is more than the usual budget pays for; the peers have none.
    ours = link() if path == "success" else link(budget=None)
    contenders: dict[str, Decorator] = {LOOP: loop if colour == "sync" else loop_async, OURS: ours, **PEERS}
    for name, decorate in contenders.items():
        _check(name, decorate, colour)
    # Each contender has a work of its own: the one that fails every other time remembers whose turn it is.
    cases = {name: decorate(WORKS[path, colour]()) for name, decorate in contenders.items()}
    figures = call_ns(cases, effort, awaited=colour == "async")
    return [_row(name, path, colour, figures) for name in figures]


def _row(name: str, path: str, colour: str, figures: dict[str, float]) -> Row:
    of_loop, of_ours = figures[name] / figures[LOOP], figures[name] / figures[OURS]
    asked = None
    if name == OURS:
        asked = Asked(bound=LOOP_TIMES_MAX[path, colour], reached=of_loop, unit="× loop")
    elif name in OUTDONE:
        asked = Asked(bound=OUTDONE_TIMES_MIN, reached=of_ours, unit="× holdfast", at_most=False)
    return Row(
        group=f"{path}, {colour}",
        name=name,
        figure=figures[name],
        unit="ns",
        ratios={"× loop": of_loop, "× holdfast": of_ours},
        asked=asked,
    )


def _check(name: str, decorate: Decorator, colour: str) -> None:
    """A contender that does less than the others would win unfairly: all make three attempts, then raise."""
    attempts = 0

    def work(value: int) -> int:
        nonlocal attempts
        attempts += 1
        raise ConnectionError("refused")

    async def work_async(value: int) -> int:
        return work(value)

    async def awaited() -> None:
        await decorate(work_async)(VALUE)

    raised = True
    with suppress(ConnectionError):
        if colour == "sync":
            decorate(work)(VALUE)
        else:
            asyncio.run(awaited())
        raised = False
    if attempts != ATTEMPTS or not raised:
        raise AssertionError(f"{name} made {attempts} attempts, raised: {raised}; {ATTEMPTS} and a raise are compared")


def _import_rows(effort: Effort) -> list[Row]:
    statements = ["import holdfast", "from holdfast import Link, Catalog, Retry", *(f"import {peer}" for peer in PEERS)]
    figures = import_ms({statement: statement for statement in statements}, effort)
    ours = figures["import holdfast"]
    return [
        Row(
            group="import, wall time",
            name=statement,
            figure=taken,
            unit="ms",
            ratios={"× holdfast": taken / ours},
            asked=Asked(bound=IMPORT_MS_MAX, reached=taken, unit="ms") if "holdfast" in statement else None,
        )
        for statement, taken in figures.items()
    ]
