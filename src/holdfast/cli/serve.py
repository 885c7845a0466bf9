"""`holdfast serve`: the systems, their worker, the console and the site in one process, until it is told to stop.

Always true: an address that is printed answers, and Ctrl-C or SIGTERM ends with code 0.
"""

from __future__ import annotations

import os
import signal
import socket
import sys
import threading
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated

import typer

from holdfast.catalog import Catalog
from holdfast.cli.assembly import PartNames, Premises, built, merged_handlers, parts_of, running
from holdfast.cli.catalogs import find_catalog
from holdfast.cli.database import explained, opened
from holdfast.cli.exit_codes import ExitCode
from holdfast.cli.faults import WORKER_BROKEN
from holdfast.cli.keeping import Keep, retention_of
from holdfast.cli.listener import address_of, listening, on_loopback, refusal
from holdfast.cli.output import note, say
from holdfast.cli.protection import exposure, open_folder, protect_secrets
from holdfast.cli.serve_words import Told
from holdfast.cli.state import (
    ADDRESS_VARIABLE,
    DEFAULT_DATA,
    DatabaseInData,
    DataFolder,
    data_folder,
    database_of,
    operators_token,
)
from holdfast.cli.system_faults import SYSTEM_NOT_STARTED
from holdfast.cli.systems import chosen
from holdfast.cli.telemetry import LevelOption, Log, LogLevel, LogOption, logged, traced
from holdfast.cli.watched import AlertsFile, alert_policy, alerts_of, counted, judging, notices_of, rules_of
from holdfast.store import Store
from holdfast.worker import Retention, Worker
from holdfast.worker.signals import STOPPING
from holdfast.worker.worker import GRACE_S

if TYPE_CHECKING:
    from holdfast.cli.serve_layout import Layout
    from holdfast.console import Console
    from holdfast.http.system import System
    from holdfast.watch.alerts import Alerts
    from holdfast.watch.rules_file import AlertPolicy

EXAMPLES = (
    ("holdfast serve", "every system, with stand-ins for what is outside, on port 8080 of this machine only"),
    ("holdfast serve NAME", "one system alone, at /, without stand-ins"),
    ("holdfast serve NAME --part gateway", "one part of a system that can be divided, also at /"),
    ("holdfast serve --port 0", "on any free port; the address is printed"),
    ("holdfast serve NAME --database postgresql://app@db/shop --no-worker", "the jobs run on other machines"),
    ("holdfast serve NAME --catalog app.errors:errors", "the codes of your own code have pages too"),
    ("HOLDFAST_PORT=9000 HOLDFAST_DATA=/var/lib/holdfast holdfast serve", "settings from the environment"),
)
STRAGGLERS_S = 1.0
"""Maximum time that each thread that blocks may still take when everything else has ended."""

SystemNames = Annotated[
    list[str] | None,
    typer.Argument(
        metavar="SYSTEM", help="Which systems; without any, all. One alone stands at /, several each at /NAME."
    ),
]

OwnCatalogs = Annotated[
    list[str] | None,
    typer.Option(
        "--catalog",
        metavar="MODULE:NAME",
        envvar="HOLDFAST_CATALOG",
        help="A catalog of your own, such as app.errors:errors, whose codes get pages here; may be given again.",
        show_default=False,
    ),
]


def serve(
    systems: SystemNames = None,
    host: Annotated[
        str, typer.Option(help="The address to listen on; 0.0.0.0 is all of this machine.", envvar="HOLDFAST_HOST")
    ] = "127.0.0.1",
    port: Annotated[
        int,
        typer.Option(help="The port to listen on; 0 takes any free one.", envvar="HOLDFAST_PORT", min=0, max=65_535),
    ] = 8_080,
    part: PartNames = None,
    data: DataFolder = DEFAULT_DATA,
    address: Annotated[
        str | None,
        typer.Option(
            metavar="URL",
            envvar=ADDRESS_VARIABLE,
            help="Where others reach this, if a proxy stands before it; without it, where it listens.",
            show_default=False,
        ),
    ] = None,
    standins: Annotated[
        bool | None,
        typer.Option(
            "--standins/--no-standins",
            help="Stand-ins for outside services, for clients on this machine; without it, only where no system is "
            "named and nobody else can reach this.",
            show_default=False,
        ),
    ] = None,
    worker: Annotated[bool, typer.Option("--worker/--no-worker", help="Run the systems' jobs here too.")] = True,
    grace: Annotated[
        float, typer.Option(metavar="SECONDS", help="On stop, jobs have so long to finish.", min=0, max=86_400)
    ] = GRACE_S,
    keep: Keep = None,
    alerts: AlertsFile = None,
    catalog: OwnCatalogs = None,
    public_metrics: Annotated[
        bool | None,
        typer.Option(
            "--public-metrics/--no-public-metrics",
            envvar="HOLDFAST_PUBLIC_METRICS",
            help="Whether /metrics answers without the operator's token; without it, only where nobody but this "
            "machine can reach it.",
            show_default=False,
        ),
    ] = None,
    log: LogOption = None,
    log_level: LevelOption = LogLevel.WARNING,
    database: DatabaseInData = None,
) -> None:
    """Serve systems with their jobs, the console, a page for every fault, and the health check, until told to stop.

    State is kept under --data; the operator's token is HOLDFAST_TOKEN, or one that is made there and printed once.
    """
    import uvicorn  # noqa: F401 - an extra of its own: the message about it comes from `main`

    retention = retention_of(keep or [])
    parts = parts_of(part or [], systems or [])
    for number in STOPPING:
        signal.signal(number, _leave)
    try:
        listener = listening(host, port)
    except OSError as refused:
        note(f"holdfast: {refusal(refused, host, port)}")
        raise typer.Exit(ExitCode.FAILED) from None
    with listener, explained():
        names, own = chosen(systems or []), [find_catalog(where) for where in catalog or []]
        # Behind a proxy others reach it, too.
        closed = on_loopback(listener) and address is None
        token, shown = operators_token(data_folder(data), os.environ)
        warnings = [*exposure(listener, address), *open_folder(data)]
        with opened(database_of(data, database), create=True) as store:
            store.migrate()
            if worker or store.takes_writes():
                warnings += protect_secrets(store, os.environ)
            else:
                names, warnings = [], [*warnings, STANDBY]
            premises = Premises(
                store=store,
                data=data,
                token=token,
                address=(address or address_of(listener)).rstrip("/"),
                standins=not systems and closed if standins is None else standins,
                alone=len(set(systems or [])) == 1,
                parts=parts,
            )
            made = built(names, premises)
            wishes = _Wishes(
                policy=alert_policy(alerts, rules_of(made)),
                grace_s=grace if worker else None,
                retention=retention,
                catalogs=own,
                public_metrics=closed if public_metrics is None else public_metrics,
                log=Log(log, log_level),
            )
            _run(premises, made, listener, wishes, Told(token_shown=shown, warnings=tuple(warnings)))
    _end()


STANDBY = "the database takes no writes: the console shows what it holds, and no system is served"


@dataclass(frozen=True, slots=True, kw_only=True)
class _Wishes:
    """What was asked for beside the systems."""

    policy: AlertPolicy
    grace_s: float | None
    """None means that no worker runs."""
    retention: Retention
    catalogs: Sequence[Catalog]
    """Of the user's own code; their faults have pages too."""
    public_metrics: bool
    log: Log


def _run(premises: Premises, made: Sequence[System], listener: socket.socket, wishes: _Wishes, told: Told) -> None:
    from holdfast.cli.serve_run import Ended, Serving
    from holdfast.cli.serve_words import announce
    from holdfast.http.lifespan import StartFailed

    console, layout = _laid_out(premises, made, wishes)
    alerts = alerts_of(premises.store, wishes.policy)
    with logged(wishes.log), running(made), traced(os.environ), counted(premises.store), judging(alerts):
        here = _worker(premises.store, made, alerts, wishes)
        serving = Serving(
            front=layout.front,
            health=layout.health,
            listener=listener,
            store=premises.store,
            worker=here,
            ready=lambda: announce(premises, made, layout, told, works=here is not None, console_link=console.link),
            closing=lambda: _close([console.close, *(system.closing for system in made)]),
        )
        try:
            ended = serving.run()
        except StartFailed as failed:
            raise SYSTEM_NOT_STARTED(name=failed.name, problem=failed.reason) from None
        for number in STOPPING:
            signal.signal(number, lambda *_: os._exit(0))
        if ended is Ended.LEFT:
            # Handlers that were left behind must not keep the process, nor have their connections closed under them.
            say("Left at once; what ran was given back.")
            sys.stdout.flush()
            os._exit(0)
        if ended is Ended.BROKEN:
            raise WORKER_BROKEN()
    say("Stopped.")


def _close(streams: Iterable[Callable[[], None]]) -> None:
    for close in streams:
        close()


def _laid_out(premises: Premises, made: Sequence[System], wishes: _Wishes) -> tuple[Console, Layout]:
    from holdfast.cli.serve_layout import CONSOLE, METRICS, catalogs_of, laid_out
    from holdfast.console import console
    from holdfast.http.operator import OperatorOnly
    from holdfast.watch import metrics_app

    catalogs = catalogs_of(made, wishes.catalogs)
    page = console(
        premises.store,
        premises.token,
        catalogs,
        address=premises.address + CONSOLE,
        rules=wishes.policy.rules,
    )
    numbers = metrics_app(premises.store)
    own = {CONSOLE: page.app, METRICS: numbers if wishes.public_metrics else OperatorOnly(numbers, premises.token)}
    return page, laid_out(
        premises.store, made, alone=premises.alone, standins=premises.standins, own=own, catalogs=catalogs
    )


def _worker(store: Store, made: Sequence[System], alerts: Alerts, wishes: _Wishes) -> Worker | None:
    """A worker for the systems' jobs and the alerts' notices; None when there are none, or it was not asked for."""
    if wishes.grace_s is None:
        return None
    handlers = merged_handlers(made)
    handlers.include(notices_of(alerts))
    if not len(handlers):
        return None
    return Worker(store, handlers, grace_s=wishes.grace_s, retention=wishes.retention)


def _leave(*_: object) -> None:
    """Before anything runs, a signal ends it in order."""
    raise SystemExit(0)


def _end() -> None:
    """A thread that blocks, such as a handler that a client waits for no longer, must not keep the process."""
    others = [one for one in threading.enumerate() if one is not threading.current_thread() and not one.daemon]
    for one in others:
        one.join(STRAGGLERS_S)
    if any(one.is_alive() for one in others):
        sys.stdout.flush()
        os._exit(0)
