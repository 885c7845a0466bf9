"""Whose jobs a worker runs: those of a module's handlers, or those of installed systems."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import typer

from holdfast.catalog import Failure
from holdfast.cli.assembly import Premises, built, merged_handlers, running
from holdfast.cli.exit_codes import ExitCode
from holdfast.cli.faults import HANDLERS_NOT_FOUND
from holdfast.cli.handlers import find_handlers
from holdfast.cli.output import explain, refuse
from holdfast.cli.state import data_folder, database_of, operators_token
from holdfast.cli.systems import chosen
from holdfast.cli.watched import alert_policy, alerts_of, notices_of
from holdfast.store import Store
from holdfast.worker import Handlers


class ModuleCrew:
    """The handlers that a module holds."""

    def __init__(self, where: str, data: Path) -> None:
        self._where = where
        self._data = data

    def database(self, given: str | None) -> str:
        """The address that was given, or the embedded database in the data folder."""
        return database_of(self._data, given)

    def words(self) -> list[str]:
        """What tells a child process to run the same."""
        return [self._where]

    @contextmanager
    def ready(self, store: Store) -> Iterator[Handlers]:  # noqa: ARG002 - systems need it
        """The handlers."""
        yield _handlers(self._where)


class SystemCrew:
    """The handlers of installed systems, and what takes notices of alerts to whoever is told."""

    def __init__(self, names: list[str], data: Path, address: str, *, standins: bool, alerts: Path | None) -> None:
        self._names = chosen(names)
        self._data = data_folder(data)
        self._address = address.rstrip("/")
        self._standins = standins
        self._alerts = alerts
        self._policy = alert_policy(alerts)

    def database(self, given: str | None) -> str:
        """The address that was given, or the embedded database in the data folder."""
        return database_of(self._data, given)

    def words(self) -> list[str]:
        """What tells a child process to run the same."""
        named = [word for name in self._names for word in ("--system", name)]
        standing = "--standins" if self._standins else "--no-standins"
        told = [] if self._alerts is None else ["--alerts", str(self._alerts)]
        return [*named, "--data", str(self._data), "--address", self._address, standing, *told]

    @contextmanager
    def ready(self, store: Store) -> Iterator[Handlers]:
        """The handlers of the started systems."""
        premises = Premises(
            store=store,
            data=self._data,
            token=operators_token(self._data, os.environ)[0],
            address=self._address,
            standins=self._standins,
            alone=len(self._names) == 1,
            serves=False,
        )
        made = built(self._names, premises)
        handlers = merged_handlers(made)
        handlers.include(notices_of(alerts_of(store, self._policy)))
        if not len(handlers):
            raise refuse(f"{', '.join(self._names)} has no jobs to run")
        with running(made):
            yield handlers


def _handlers(where: str) -> Handlers:
    try:
        return find_handlers(where)
    except Failure as failure:
        # A wrong name will be wrong the next time too, and a parent need not try again; a module that fails may not.
        leave = explain(failure)
        raise typer.Exit(ExitCode.MISUSED) if failure.code == HANDLERS_NOT_FOUND.code else leave from None
