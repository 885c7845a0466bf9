"""Where everything stands that one process serves: the systems, their stand-ins, and what is the core's own."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from holdfast.catalog import Catalog
from holdfast.cli.assembly import core_catalogs
from holdfast.cli.system_faults import SYSTEM_BROKEN
from holdfast.http.asgi import Application
from holdfast.http.front import Front, Mount
from holdfast.http.health import Check, Health, store_check
from holdfast.http.pages import Place
from holdfast.http.site import PATHS, site
from holdfast.http.system import System
from holdfast.store import Store

CONSOLE, METRICS, STANDINS = "/console", "/metrics", "/standins"
RESERVED = (*PATHS, CONSOLE, METRICS, STANDINS)
"""Never a system's, also where one stands alone at `/`."""
SAYS = {CONSOLE: "the operator's page", METRICS: "numbers for Prometheus"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Layout:
    """Everything that is served, and what to tell of it."""

    front: Front
    health: Health
    places: Sequence[Place]


def catalogs_of(made: Sequence[System], own: Sequence[Catalog] = ()) -> list[Catalog]:
    """The core's catalogs, the systems' and the user's own, each once."""
    from holdfast.console.faults import CONSOLE as OF_CONSOLE
    from holdfast.operate.faults import OPERATE

    theirs = [catalog for system in made for catalog in system.catalogs]
    every = [*core_catalogs(), OPERATE, OF_CONSOLE, *theirs, *own]
    return list({id(catalog): catalog for catalog in every}.values())


def laid_out(
    store: Store,
    made: Sequence[System],
    *,
    alone: bool,
    standins: bool,
    own: Mapping[str, Application],
    catalogs: Sequence[Catalog],
) -> Layout:
    """Every application at its path.

    Args:
        own: the core's applications beside the site, by path: the console, the metrics.
        catalogs: whose faults have a page on the site.

    Raises:
        Failure: SYSTEM_BROKEN when two things want to stand at one place.
    """
    parts = [mount for system in made for mount in _parts(system, alone=alone)]
    helpers = [mount for system in made for mount in _standins(system)] if standins else []
    # Scrapers ask for the very path of the metrics, without a slash.
    mounts = [Mount(path=path, app=app, name=path, rooted=path != METRICS) for path, app in own.items()]
    taken: dict[str, str] = {mount.path: "the core" for mount in mounts}
    for system, mount in [*parts, *helpers]:
        if mount.path in taken:
            problem = f"{mount.path or '/'} is taken by {taken[mount.path]}"
            raise SYSTEM_BROKEN(name=system.name, problem=problem)
        taken[mount.path] = system.name
        mounts.append(mount)
    places = [Place(path if path == METRICS else f"{path}/", SAYS[path]) for path in own]
    places += [
        Place(f"{mount.path}/", _says(system, mount))
        for system, mount in parts
        if mount.path.rpartition("/")[2] not in system.without_page
    ]
    places += [Place(f"{mount.path}/", f"stand-in, for {system.name}") for system, mount in helpers]
    health = Health(checks=_checks(store, made))
    shown = site(catalogs, places=[place for place in places if place.path != "/"], health=health)
    # The site has its own places, and whatever nobody else has taken.
    free = [path for path in (*RESERVED, "") if path not in taken]
    mounts += [Mount(path=path, app=shown, name="the site", rooted=False) for path in free]
    return Layout(front=Front(mounts), health=health, places=places)


def _parts(system: System, *, alone: bool) -> list[tuple[System, Mount]]:
    root = "" if alone else f"/{system.name}"
    found = []
    for part, app in system.parts.items():
        path = f"{root}/{part.strip('/')}" if part.strip("/") else root
        if any(f"{path}/".startswith(f"{reserved}/") for reserved in RESERVED):
            raise SYSTEM_BROKEN(name=system.name, problem=f"{path} is reserved for the core")
        found.append((system, Mount(path=path, app=app, name=f"{system.name} at {path or '/'}")))
    return found


def _standins(system: System) -> list[tuple[System, Mount]]:
    return [
        (system, Mount(path=f"{STANDINS}/{name}", app=app, name=f"the stand-in {name}", loopback=True))
        for name, app in system.standins.items()
    ]


def _says(system: System, mount: Mount) -> str:
    return system.title if mount.path in ("", f"/{system.name}") else f"{system.title}: {mount.path.rpartition('/')[2]}"


def _checks(store: Store, made: Sequence[System]) -> dict[str, Check]:
    theirs = {f"{system.name}.{name}": check for system in made for name, check in system.checks.items()}
    return {"store": store_check(store), **theirs}
