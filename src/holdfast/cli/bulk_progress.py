"""Work on many dead letters from the command line: count, ask, show how far it has come."""

from __future__ import annotations

from holdfast.base.formatting import plural
from holdfast.cli.actor import os_actor
from holdfast.cli.asking import agree
from holdfast.cli.output import note, say, say_json
from holdfast.operate import bulk
from holdfast.operate.bulk import Ended, Verb, Work
from holdfast.operate.dead_groups import count_blocked
from holdfast.store import Store
from holdfast.worker.dead import DeadLetters, Progress
from holdfast.worker.dead_filter import DeadFilter


def do_to_all(store: Store, verb: Verb, wanted: DeadFilter, reason: str | None, *, yes: bool, as_json: bool) -> None:
    """Say how many match, ask, and do it with a progress bar."""
    count = DeadLetters(store).count(wanted)
    if not count:
        _tell(verb, Ended(0, 0, 0, 0), as_json=as_json)
        return
    if not yes:
        _ask(store, verb, wanted, count)
    run_work(store, bulk.begin(store, verb, wanted, actor=os_actor(), reason=reason), as_json=as_json)


def run_work(store: Store, work: Work, *, as_json: bool) -> None:
    """Do the work and tell what came of it."""
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeRemainingColumn
    from rich.progress import Progress as Bar

    console = Console(stderr=True)
    bar = Bar(
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeRemainingColumn(),
        console=console,
        disable=not console.is_terminal,
    )
    with bar:
        task = bar.add_task(work.verb.past.capitalize(), total=None)

        def show(so_far: Progress) -> None:
            bar.update(task, total=max(so_far.total, 1), completed=so_far.done + so_far.refused)

        try:
            ended = bulk.run(store, work, progress=show)
        except BaseException:
            note(f"It stopped early; `holdfast dead resume {work.action.id}` does the rest.")
            raise
    _tell(work.verb, ended, as_json=as_json, action_id=work.action.id)


def _ask(store: Store, verb: Verb, wanted: DeadFilter, count: int) -> None:
    """Raises typer.Exit when the answer is no, or nobody is there to answer."""
    letters = plural(count, "dead letter")
    lost = store.atomic(lambda tx: count_blocked(tx, wanted), write=False) if verb is Verb.REVIVE else 0
    if lost:
        note(f"Of these, {lost:,} will be left as they are: their endpoint is disabled or removed.")
    agree(f"{verb.capitalize()} {letters}?", f"{verb} {letters}")


def _tell(verb: Verb, ended: Ended, *, as_json: bool, action_id: str | None = None) -> None:
    if as_json:
        counts = {"matching": ended.total, verb.past: ended.done, "refused": ended.refused, "blocked": ended.blocked}
        say_json({**counts, "audit_id": action_id})
        return
    if not ended.total:
        say("No dead letter matches.")
        return
    say(f"{verb.past.capitalize()} {plural(ended.done, 'dead letter')} of {ended.total} that matched.")
    twins = ended.refused - ended.blocked
    if twins:
        say(f"Left {twins} as they were: newer jobs with their dedupe keys do the work.")
    if ended.blocked:
        say(f"Left {ended.blocked} as they were: their endpoint is disabled or removed.")
