"""A process that is watched: what happens in it is counted, and alerts are judged and told."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from holdfast.cli.output import refuse
from holdfast.policy.overlay import OverlayInvalid
from holdfast.store import Store
from holdfast.worker import Handlers

if TYPE_CHECKING:  # loaded by the command that needs it: every other one would wait for it
    from holdfast.http.system import System
    from holdfast.watch.alerts import Alerts
    from holdfast.watch.rules import Rule
    from holdfast.watch.rules_file import AlertPolicy

AlertsFile = Annotated[
    Path | None,
    typer.Option(
        "--alerts",
        metavar="FILE",
        envvar="HOLDFAST_ALERTS",
        help="A policy file for alerts in TOML: other thresholds, and who is told.",
        show_default=False,
    ),
]


def rules_of(made: Sequence[System]) -> tuple[Rule, ...]:
    """The rules of the core and of the systems; a system's rule replaces the core's of the same name."""
    from holdfast.watch.rules_builtin import RULES

    theirs = [rule for system in made for rule in system.rules]
    return tuple({rule.name: rule for rule in (*RULES, *theirs)}.values())


def alert_policy(file: Path | None, rules: Sequence[Rule] = ()) -> AlertPolicy:
    """The rules in force and who is told.

    Args:
        rules: those that the file may change; without any, the core's own.

    Raises:
        typer.Exit: the file cannot be used; what is wrong was said.
    """
    from holdfast.watch.rules_builtin import RULES
    from holdfast.watch.rules_file import AlertPolicy, load_alerts

    known = tuple(rules) or RULES
    try:
        return AlertPolicy(known) if file is None else load_alerts(file, known)
    except OverlayInvalid as invalid:
        raise refuse(str(invalid)) from None


def alerts_of(store: Store, policy: AlertPolicy) -> Alerts:
    """The alerts of a store, judged by nobody yet."""
    from holdfast.watch.alerts import Alerts
    from holdfast.watch.series import StoreSeries

    return Alerts(store, StoreSeries(store), rules=policy.rules, sinks=policy.sinks)


def notices_of(alerts: Alerts) -> Handlers:
    """The handlers that deliver the notices to their recipients; none when there are no recipients."""
    handlers = Handlers()
    if alerts.sinks:
        from holdfast.http import ANYWHERE, WebhookSender

        handlers.serve(alerts.queue())
        # The operator's own file names the addresses: they may well be inside.
        alerts.handlers(WebhookSender(reach=ANYWHERE), handlers)
    return handlers


@contextmanager
def counted(store: Store) -> Iterator[None]:
    """What happens in this process within the block is counted, for every process to see."""
    from holdfast.watch import start

    watching = start(store)
    try:
        yield
    finally:
        watching.stop()


@contextmanager
def judging(alerts: Alerts | None) -> Iterator[None]:
    """The alerts are judged within the block, if there are any."""
    if alerts is None:
        yield
        return
    alerts.start()
    try:
        yield
    finally:
        alerts.stop()
