"""`holdfast worker`: claim and run jobs until told to stop, in this process or in several."""

from __future__ import annotations

import os
import sys
from dataclasses import replace
from typing import Annotated

import typer

from holdfast.cli.assembly import PartNames, parts_of
from holdfast.cli.database import AsJson, DatabaseUrl, explained, opened
from holdfast.cli.faults import WORKER_BROKEN
from holdfast.cli.keeping import Keep, keep_words, retention_of
from holdfast.cli.output import note, refuse, say, say_json
from holdfast.cli.state import ADDRESS_VARIABLE, DEFAULT_DATA, DataFolder
from holdfast.cli.telemetry import LevelOption, Log, LogForm, LogLevel, LogOption, logged, traced
from holdfast.cli.watched import AlertsFile, counted, judging
from holdfast.cli.worker_crew import ModuleCrew, Ready, SystemCrew
from holdfast.policy import PolicyInvalid
from holdfast.store import Store
from holdfast.store.address import ENVIRONMENT_VARIABLE
from holdfast.worker import QueueSettings, Worker
from holdfast.worker.attend import Ended, attend
from holdfast.worker.lifeline import Lifeline
from holdfast.worker.processes import PROCESSES_MAX, Processes
from holdfast.worker.worker import GRACE_S, LEASE_S

EXAMPLES = (
    ("holdfast worker app.jobs:handlers", "the queue 'default', ten jobs at once"),
    ("holdfast worker app.jobs:handlers --queue mail:20 --queue reports:2", "two queues, each with its own room"),
    ("holdfast worker app.jobs:handlers --processes 4", "four processes; one that dies is started again"),
    ("holdfast worker app.jobs:handlers --keep finished=1d --keep failed=90d", "prunes sooner, and dead letters too"),
    ("holdfast worker --system NAME --database postgresql://app@db/shop", "the jobs of an installed system"),
)
ENDS = {
    Ended.STOPPED: "has stopped",
    Ended.LEFT: "has given back what it held and leaves",
    Ended.BROKEN: "has ended by itself",
}
UNJUDGED = "; without --alerts FILE it does not evaluate alerts"
"""Two processes with different rules would contradict each other, so the rules are never guessed here."""

Where = Annotated[
    str | None,
    typer.Argument(
        metavar="MODULE:HANDLERS", help="The Handlers object, such as app.jobs:handlers.", show_default=False
    ),
]
SystemNames = Annotated[
    list[str] | None,
    typer.Option(
        "--system",
        metavar="NAME",
        help="A system whose jobs to run, in place of MODULE:HANDLERS; may be given again.",
        show_default=False,
    ),
]
Address = Annotated[
    str,
    typer.Option(
        metavar="URL",
        envvar=ADDRESS_VARIABLE,
        help="Where the systems are served: one at this very address, several below it, each at /NAME.",
    ),
]
QueueWords = Annotated[
    list[str] | None,
    typer.Option(
        "--queue",
        metavar="NAME[:CONCURRENCY]",
        help="A queue to serve; may be given again. Without it, what the handlers declare, or default:10.",
        show_default=False,
    ),
]


def worker(
    where: Where = None,
    system: SystemNames = None,
    part: PartNames = None,
    queue: QueueWords = None,
    processes: Annotated[int, typer.Option(help="Run so many processes.", min=1, max=PROCESSES_MAX)] = 1,
    lease: Annotated[
        float,
        typer.Option(metavar="SECONDS", help="Jobs of a worker that dies come back after this.", min=1, max=3_600),
    ] = LEASE_S,
    grace: Annotated[
        float, typer.Option(metavar="SECONDS", help="On stop, what runs has so long to finish.", min=0, max=86_400)
    ] = GRACE_S,
    migrate: Annotated[bool, typer.Option("--migrate/--no-migrate", help="Bring the tables up to date first.")] = True,
    data: DataFolder = DEFAULT_DATA,
    address: Address = "http://127.0.0.1:8080",
    standins: Annotated[
        bool, typer.Option("--standins/--no-standins", help="The systems call the stand-ins at that address.")
    ] = False,
    keep: Keep = None,
    alerts: AlertsFile = None,
    log: LogOption = None,
    log_level: LevelOption = LogLevel.WARNING,
    lifeline: Annotated[int | None, typer.Option(hidden=True)] = None,
    database: DatabaseUrl = None,
    as_json: AsJson = False,
) -> None:
    """Run jobs until SIGTERM or Ctrl-C; what runs is finished first. A second signal gives it back and ends at once.

    The jobs are those of your own handlers, or of installed systems: the same ones that `holdfast serve` runs.
    """
    if (where is None) == (not system):
        raise refuse("name what to run: either MODULE:HANDLERS, or systems with --system")
    parts = parts_of(part or [], system or [])
    settings = _settings(queue or [])
    retention = retention_of(keep or [])
    with explained():
        crew = (
            ModuleCrew(where, data, alerts=alerts)
            if where is not None
            else SystemCrew(system or [], data, address, standins=standins, alerts=alerts, parts=parts)
        )
        database = crew.database(database)
    if migrate:
        with opened(database, create=True) as store:
            store.migrate()
    lines = Log(LogForm.JSON if log is None and as_json else log, log_level)
    if processes > 1:
        kept = keep_words(keep or [])
        words = [*crew.words(), *kept, *lines.words(), *_words(settings, lease, grace, as_json=as_json)]
        raise typer.Exit(_keep(words, processes, grace, database))
    with opened(database, create=True) as store, logged(lines), crew.ready(store) as ready:
        served = _served(ready, settings)
        here = Worker(store, ready.handlers, queues=served, lease_s=lease, grace_s=grace, retention=retention)
        queues = ", ".join(f"{one.name}:{one.concurrency}" for one in served)
        works = f"process {os.getpid()} works on {queues} at {store.address}"
        if ready.alerts is None:
            works += UNJUDGED
        with traced(os.environ), counted(store), judging(ready.alerts):
            _attend(store, here, works, _line(lifeline), as_json=as_json)


def _attend(store: Store, here: Worker, works: str, line: Lifeline | None, *, as_json: bool) -> None:
    ended = attend(store, here, line, started=lambda: _log("started", works, as_json=as_json))
    _log(ended.value, f"process {os.getpid()} {ENDS[ended]}", as_json=as_json)
    if ended is Ended.LEFT:
        # Handlers that were left behind must not keep the process, nor have their jobs' connections closed
        # under them.
        sys.stdout.flush()
        os._exit(0)
    if ended is Ended.BROKEN:
        raise WORKER_BROKEN()


def _keep(words: list[str], processes: int, grace_s: float, database: str) -> int:
    """Be the parent. The address goes through the environment: everybody can read the words of a process."""
    command = [sys.executable, "-m", "holdfast.cli", "worker", *words]
    environment = {ENVIRONMENT_VARIABLE: database}
    parent = Processes(
        command, processes, grace_s=grace_s, say=lambda line: note(f"holdfast worker: {line}"), environment=environment
    )
    return parent.run()


def _words(settings: list[QueueSettings], lease_s: float, grace_s: float, *, as_json: bool) -> list[str]:
    """What a child is told; the number of its lifeline comes last."""
    queues = [word for one in settings for word in ("--queue", f"{one.name}:{one.concurrency}")]
    rest = ["--lease", str(lease_s), "--grace", str(grace_s), "--no-migrate", *(["--json"] if as_json else [])]
    return [*queues, *rest, "--lifeline"]


def _settings(words: list[str]) -> list[QueueSettings]:
    settings = []
    for word in words:
        name, colon, count = word.rpartition(":")
        named = bool(colon and name and count.isascii() and count.isdigit())
        if colon and not named:
            raise refuse(
                f"--queue {word}: after the colon stands how many run at once; write --queue {name or 'mail'}:10"
            )
        try:
            settings.append(QueueSettings(name, concurrency=int(count)) if named else QueueSettings(word))
        except PolicyInvalid as invalid:
            raise refuse(f"--queue {word}: {invalid}") from None
        if [one.name for one in settings].count(settings[-1].name) > 1:
            raise refuse(f"--queue {settings[-1].name} is given twice")
    return settings


def _served(ready: Ready, settings: list[QueueSettings]) -> list[QueueSettings]:
    """The queues asked for, or those of the handlers; a breaker that the handlers declare for a queue stays on it.

    Who evaluates alerts sends their notices too, whatever was asked for: nobody else may serve that queue.
    """
    declared = {one.name: one for one in ready.handlers.queues}
    if not settings:
        return list(declared.values())
    asked = {one.name: replace(declared.get(one.name, one), concurrency=one.concurrency) for one in settings}
    if ready.alerts is not None and ready.alerts.sinks:
        notices = ready.alerts.queue()
        asked.setdefault(notices.name, notices)
    return list(asked.values())


def _line(descriptor: int | None) -> Lifeline | None:
    if descriptor is None:
        return None
    try:
        return Lifeline.of_descriptor(descriptor)
    except OSError:
        raise refuse(f"--lifeline {descriptor} is not an open line; it is for the parent of worker processes") from None


def _log(event: str, text: str, *, as_json: bool) -> None:
    if as_json:
        say_json({"event": f"worker.{event}", "process": os.getpid(), "text": text})
    else:
        say(f"holdfast worker: {text}")
    sys.stdout.flush()
