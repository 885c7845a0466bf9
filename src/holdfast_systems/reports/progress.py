"""A run on a terminal: a table that follows it, or a line for each change where there is no terminal."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

from holdfast.base import now_us
from holdfast.base.formatting import clean, span
from holdfast.cli.output import note
from holdfast_systems.reports.model import StepState, each_step, state_of, time_us

if TYPE_CHECKING:
    from rich.live import Live
    from rich.table import Table

COLOURS = {
    StepState.PENDING: "dim",
    StepState.READY: "magenta",
    StepState.RUNNING: "blue",
    StepState.SUCCEEDED: "green",
    StepState.FAILED: "red",
}
REFRESH_PER_S = 8


class Progress:
    """Shows a run again and again, beside the answer; use it in a `with` block."""

    def __init__(self, *, quiet: bool = False) -> None:
        self._quiet = quiet
        self._live: Live | None = None
        self._told: dict[str, str] = {}

    def __enter__(self) -> Self:
        if not self._quiet and sys.stderr.isatty():
            from rich.console import Console
            from rich.live import Live

            self._live = Live(console=Console(stderr=True), refresh_per_second=REFRESH_PER_S, transient=True)
            self._live.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._live is not None:
            self._live.stop()

    def show(self, run: Mapping[str, Any]) -> None:
        """The run as it is now."""
        if self._live is not None:
            self._live.update(_table(run))
        elif not self._quiet:
            for step_id, step in each_step(run):
                state = str(step.get("state"))
                if self._told.get(step_id) != state:
                    self._told[step_id] = state
                    note(f"{step_id}  {_said(step)}")


def lines_of(run: Mapping[str, Any]) -> list[str]:
    """A run as lines of text."""
    usage = run.get("usage") or {}
    cost = f"{usage.get('costUsd', 0):.5f} USD, {usage.get('modelCalls', 0)} model calls"
    lines = [f"{run['runId']}  {run['status']}  {cost}"]
    if run.get("error"):
        lines.append(f"  {run['error']['code']}: {run['error']['message']}")
    width = max((len(step_id) for step_id, _ in each_step(run)), default=0)
    lines += [f"  {step_id.ljust(width)}  {_said(step)}" for step_id, step in each_step(run)]
    return [clean(line) for line in lines]


def _said(step: Mapping[str, Any]) -> str:
    parts = [str(step.get("state")), str(step.get("stepType"))]
    if step.get("startedAt"):
        parts.append(span(_seconds(step)))
    if (step.get("attempts") or 0) > 1:
        parts.append(f"attempt {step['attempts']}")
    if step.get("usage"):
        parts.append(f"{step['usage']['costUsd']:.5f} USD")
    if step.get("error"):
        parts.append(f"{step['error']['code']}: {step['error']['message']}")
    return "  ".join(parts)


def _table(run: Mapping[str, Any]) -> Table:
    from rich.progress_bar import ProgressBar
    from rich.spinner import Spinner
    from rich.table import Table
    from rich.text import Text

    steps = each_step(run)
    ended = sum(step.get("state") in (StepState.SUCCEEDED, StepState.FAILED) for _, step in steps)
    table = Table.grid(padding=(0, 2))
    table.add_row(
        Text(str(run["runId"]), style="bold"), ProgressBar(total=max(1, len(steps)), completed=ended, width=30)
    )
    for step_id, step in steps:
        colour = COLOURS[state_of(step)]
        running = step.get("state") == StepState.RUNNING
        name = Spinner("dots", Text(step_id)) if running else Text(f"  {step_id}")
        table.add_row(name, Text(clean(_said(step)), style=colour))
    return table


def _seconds(step: Mapping[str, Any]) -> float:
    began_us = time_us(step.get("startedAt")) or 0
    ended_us = time_us(step.get("finishedAt")) or now_us()
    return max(0, ended_us - began_us) / 1_000_000
