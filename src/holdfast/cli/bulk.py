"""Work on many dead letters at once: count, ask, show how far it has come."""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import dataclass

import typer

from holdfast.cli.output import note, refuse, say, say_json
from holdfast.worker.dead import DeadLetters
from holdfast.worker.dead import Progress as Done
from holdfast.worker.dead_filter import DeadFilter


@dataclass(frozen=True, slots=True)
class Bulk:
    """What is done to all that match."""

    verb: str
    past: str
    act: Callable[..., Done]
    """A method of `DeadLetters`."""


def in_bulk(dead: DeadLetters, wanted: DeadFilter, bulk: Bulk, reason: str | None, *, yes: bool, as_json: bool) -> None:
    """Say how many match, ask, and do it with a progress bar."""
    count = dead.count(wanted)
    if count and not yes:
        _ask(bulk, count)
    done = _run(dead, bulk, wanted, reason, count) if count else Done(0)
    if as_json:
        say_json({"matching": count, bulk.past: done.done, "refused": done.refused})
        return
    say(
        f"{bulk.past.capitalize()} {_letters(done.done)} of {count} that matched."
        if count
        else "No dead letter matches."
    )
    if done.refused:
        say(f"Left {done.refused} as they were: newer jobs with their dedupe keys do the work.")


def _ask(bulk: Bulk, count: int) -> None:
    """Raises typer.Exit when the answer is no, or nobody is there to answer."""
    if not sys.stdin.isatty():
        raise refuse(f"this would {bulk.verb} {_letters(count)}; give --yes, since nobody is here to be asked")
    if not typer.confirm(f"{bulk.verb.capitalize()} {_letters(count)}?", err=True):
        note("Nothing was done.")
        raise typer.Exit(1)


def _run(dead: DeadLetters, bulk: Bulk, wanted: DeadFilter, reason: str | None, count: int) -> Done:
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    console = Console(stderr=True)
    bar = Progress(
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeRemainingColumn(),
        console=console,
        disable=not console.is_terminal,
    )
    with bar:
        task = bar.add_task(bulk.past.capitalize(), total=count)

        def show(so_far: Done) -> None:
            bar.update(task, total=max(so_far.total, 1), completed=so_far.done + so_far.refused)

        done = bulk.act(dead, wanted, reason=reason, progress=show)
        show(done)
    return done


def _letters(count: int) -> str:
    return f"{count:,} dead letter{'' if count == 1 else 's'}"
