"""What a system is to the process that serves it: the ground it is given, and what it puts there.

A system is a package with a module `main` that has a function `build(ground) -> System`. It can stand beside others
under a path of its own, or alone at `/`: links inside its pages are relative to `root_path`. Where its parts can be
served apart, `main` lists their names as `PARTS`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from holdfast.base import Secret
from holdfast.catalog import Catalog
from holdfast.http.asgi import Application
from holdfast.http.health import Check
from holdfast.store import Store
from holdfast.watch.rules import Rule
from holdfast.worker import Handlers


def nothing() -> None:
    """What a system does that has nothing to start or to stop."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Ground:
    """What a system stands on."""

    store: Store
    """Open, with the core's schema in place; a system migrates and loads its own."""
    folder: Path
    """For its own files; it exists, and nobody else writes there."""
    address: str
    """Where the system stands, such as `http://127.0.0.1:8080/conversion`; no slash at the end."""
    token: Secret
    """The operator's."""
    environment: Mapping[str, str]
    """Its settings, read from here and never from the process."""
    standins: bool = False
    """Whether stand-ins for outside services are wanted, and faults may be switched."""
    serves: bool = True
    """Whether it is this process that stands at the address; a worker only knows of it, and moves nothing there."""
    parts: frozenset[str] | None = None
    """The parts of the system that were asked for, out of its `PARTS`; None is all of them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class System:
    """What a system puts on its ground."""

    name: str
    title: str
    """What it does, in a few words."""
    catalogs: Sequence[Catalog] = ()
    parts: Mapping[str, Application] = field(default_factory=dict)
    """ASGI applications by the path below the system's own; `""` is the system itself. Each guards its own doors."""
    without_page: frozenset[str] = frozenset()
    """Parts that are for programs only: they are not among the places that a person is shown."""
    handlers: Handlers | None = None
    """Its jobs. Kinds and queues begin with the system's name."""
    rules: Sequence[Rule] = ()
    """Its alert rules; one with the name of a rule of the core replaces it."""
    standins: Mapping[str, Application] = field(default_factory=dict)
    """Served under `/standins/{name}`, on loopback only."""
    checks: Mapping[str, Check] = field(default_factory=dict)
    """What it needs, for the health report."""
    says: Sequence[str] = ()
    """Lines for the person who starts it, such as an address worth opening."""
    start: Callable[[], None] = nothing
    """Called once before the first request; may block."""
    closing: Callable[[], None] = nothing
    """Called when the server is about to stop: requests that would stay open, such as streams, end now."""
    stop: Callable[[], None] = nothing
    """Called once after the last request and the last job."""
