"""Whose jobs a worker runs: those of a module's handlers, or those of installed systems."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from holdfast.catalog import Failure
from holdfast.cli.assembly import Premises, built, merged_handlers, running
from holdfast.cli.exit_codes import ExitCode
from holdfast.cli.faults import HANDLERS_NOT_FOUND
from holdfast.cli.handlers import find_handlers
from holdfast.cli.output import explain, refuse
from holdfast.cli.state import data_folder, database_of, operators_token
from holdfast.cli.systems import chosen
from holdfast.cli.watched import alert_policy, alerts_of, notices_of, rules_of
from holdfast.store import Store
from holdfast.worker import Handlers

if TYPE_CHECKING:
    from holdfast.watch.alerts import Alerts


@dataclass(frozen=True, slots=True)
class Ready:
    """What a worker runs."""

    handlers: Handlers
    alerts: Alerts | None
    """What it evaluates; None where no policy file was given."""


class ModuleCrew:
    """The handlers that a module holds, and those that deliver notices of alerts to their recipients."""

    def __init__(self, where: str, data: Path, *, alerts: Path | None) -> None:
        self._where = where
        self._data = data
        self._alerts = alerts
        self._policy = alert_policy(alerts)

    def database(self, given: str | None) -> str:
        """The address that was given, or the embedded database in the data folder."""
        return database_of(self._data, given)

    def words(self) -> list[str]:
        """What tells a child process to run the same."""
        return [self._where, *_told(self._alerts)]

    @contextmanager
    def ready(self, store: Store) -> Iterator[Ready]:
        """The handlers, and the alerts by the core's rules."""
        theirs = _handlers(self._where)
        if self._alerts is None:
            yield Ready(theirs, None)
            return
        alerts = alerts_of(store, self._policy)
        handlers = Handlers()  # the module's own object stays as it is
        handlers.include(theirs)
        handlers.include(notices_of(alerts))
        yield Ready(handlers, alerts)


class SystemCrew:
    """The handlers of installed systems, and those that deliver notices of alerts to their recipients."""

    def __init__(
        self,
        names: list[str],
        data: Path,
        address: str,
        *,
        standins: bool,
        alerts: Path | None,
        parts: frozenset[str] | None = None,
    ) -> None:
        self._names = chosen(names)
        self._parts = parts
        self._data = data_folder(data)
        self._address = address.rstrip("/")
        self._standins = standins
        self._alerts = alerts

    def database(self, given: str | None) -> str:
        """The address that was given, or the embedded database in the data folder."""
        return database_of(self._data, given)

    def words(self) -> list[str]:
        """What tells a child process to run the same."""
        named = [word for name in self._names for word in ("--system", name)]
        standing = "--standins" if self._standins else "--no-standins"
        divided = [word for part in sorted(self._parts or ()) for word in ("--part", part)]
        return [*named, *divided, "--data", str(self._data), "--address", self._address, standing, *_told(self._alerts)]

    @contextmanager
    def ready(self, store: Store) -> Iterator[Ready]:
        """The handlers of the started systems, and the alerts by their rules, as `holdfast serve` has them."""
        premises = Premises(
            store=store,
            data=self._data,
            token=operators_token(self._data, os.environ)[0],
            address=self._address,
            standins=self._standins,
            alone=len(self._names) == 1,
            serves=False,
            parts=self._parts,
        )
        made = built(self._names, premises)
        handlers = merged_handlers(made)
        alerts = alerts_of(store, alert_policy(self._alerts, rules_of(made)))
        handlers.include(notices_of(alerts))
        if not len(handlers):
            raise refuse(f"{', '.join(self._names)} has no jobs to run")
        with running(made):
            yield Ready(handlers, None if self._alerts is None else alerts)


def _told(alerts: Path | None) -> list[str]:
    return [] if alerts is None else ["--alerts", str(alerts)]


def _handlers(where: str) -> Handlers:
    try:
        return find_handlers(where)
    except Failure as failure:
        # A wrong name will be wrong the next time too, and a parent need not try again; a module that fails may not.
        leave = explain(failure)
        raise typer.Exit(ExitCode.MISUSED) if failure.code == HANDLERS_NOT_FOUND.code else leave from None
