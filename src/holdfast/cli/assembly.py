"""Systems put together: built on their ground, their jobs in one worker, started and stopped in order.

The same for the process that serves them and for a worker on another machine.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from holdfast.base import Secret
from holdfast.base.bus import report
from holdfast.catalog import CORE, Catalog, Failure
from holdfast.cli import systems as installed
from holdfast.cli.output import refuse
from holdfast.cli.state import data_folder
from holdfast.cli.system_faults import SYSTEM_BROKEN, SYSTEM_NOT_STARTED
from holdfast.store import Store
from holdfast.worker import Handlers

if TYPE_CHECKING:
    from holdfast.http.system import System


PartNames = Annotated[
    list[str] | None,
    typer.Option(
        "--part",
        metavar="PART",
        help="A part of the one system that is named; may be given again. Without it, all of its parts.",
        show_default=False,
    ),
]


@dataclass(frozen=True, slots=True, kw_only=True)
class Premises:
    """What the grounds of all systems have in common."""

    store: Store
    data: Path
    token: Secret
    address: str
    """Where they are served from, without a slash at the end."""
    standins: bool
    alone: bool
    """One system alone stands at the address itself; several stand below it, each under its name."""
    serves: bool = True
    """Whether it is this process that stands there."""
    parts: frozenset[str] | None = None
    """The parts of the one system that were asked for; None is all."""


def parts_of(parts: Sequence[str], names: Sequence[str]) -> frozenset[str] | None:
    """The parts that were asked for; None without any.

    Raises:
        typer.Exit: they cannot belong to one system; the reason has been told.
    """
    if parts and len(set(names)) != 1:
        raise refuse("--part divides one system: name exactly one")
    return frozenset(parts) or None


def core_catalogs() -> list[Catalog]:
    """What can go wrong whatever systems there are."""
    from holdfast.artifact.faults import ARTIFACT_FAULTS
    from holdfast.delivery.faults import DELIVERY
    from holdfast.http.faults import EDGE_FAULTS

    return [CORE, EDGE_FAULTS, DELIVERY, ARTIFACT_FAULTS]


def built(names: Sequence[str], premises: Premises) -> list[System]:
    """The systems on their ground, which has the core's schema.

    Raises:
        Failure: SYSTEM_BROKEN, DATA_UNUSABLE; or what a system itself raises.
    """
    from holdfast.http.system import Ground

    made = []
    for name in names:
        ground = Ground(
            store=premises.store,
            folder=data_folder(premises.data / name),
            address=premises.address if premises.alone else f"{premises.address}/{name}",
            token=premises.token,
            environment=os.environ,
            standins=premises.standins,
            serves=premises.serves,
            parts=premises.parts,
        )
        made.append(installed.build(name, ground))
    return made


def merged_handlers(made: Sequence[System]) -> Handlers:
    """The jobs of all systems, for one worker.

    Raises:
        Failure: SYSTEM_BROKEN when two systems want the same kind, queue or schedule.
    """
    merged = Handlers()
    for system in made:
        if system.handlers is not None:
            try:
                merged.include(system.handlers)
            except ValueError as clash:
                raise SYSTEM_BROKEN(name=system.name, problem=str(clash)) from None
    return merged


@contextmanager
def running(made: Sequence[System]) -> Iterator[None]:
    """Every system is started within the block, and stopped after it in reverse.

    Raises:
        Failure: SYSTEM_NOT_STARTED; those that were started before are stopped again.
    """
    started: list[System] = []
    try:
        for system in made:
            _start(system)
            started.append(system)
        yield
    finally:
        for system in reversed(started):
            try:
                system.stop()
            except Exception as broken:  # noqa: BLE001 - the others have to be stopped too
                report(broken, f"the system {system.name} did not stop in order", system.stop)


def _start(system: System) -> None:
    try:
        system.start()
    except Failure:
        raise
    except Exception as error:  # noqa: BLE001 - starting runs the system's code, which may raise anything
        raise SYSTEM_NOT_STARTED(name=system.name, problem=installed.told(error)) from None
