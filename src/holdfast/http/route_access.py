"""Who may ask for what: the declared access of every route, and the routes that applications really have.

A system declares its rules in a module `access` of its own, as `ROUTES`. A test builds everything that is mounted,
finds its routes, and asks each of them without a token, with a wrong one, as another tenant and with a lower scope.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from types import FunctionType, MethodType
from typing import Any

from holdfast.http.route_table import RouteTable

DEPTH_MAX = 12
REFUSED = 401
IMPLIED = frozenset({"HEAD"})
"""Methods that a framework adds to others."""


@dataclass(frozen=True, slots=True)
class RouteAccess:
    """The statuses with which a route refuses; None is a caller that is let in, or that there is none of."""

    route: str
    """Its method and path, such as `GET /v1/events/{event_id}`, below its part."""
    nobody: int | None = REFUSED
    """Without credentials."""
    wrong_token: int | None = REFUSED
    """With credentials that are not ours."""
    other: int | None = None
    """With the credentials of another tenant, account or session, for what belongs to the first."""
    lower: int | None = None
    """With credentials of the right tenant and a lower scope than the route needs."""
    part: str = ""
    """Of the system, where it has several applications."""
    why: str = ""
    """Why nobody is refused; needed where that is so."""
    shared: str = ""
    """Why a route with an id has no object of another tenant; needed where `other` is None."""
    elsewhere: str = ""
    """The test, as `test_file.py::test_name` of the system, that asks for another tenant's objects over a network."""

    def __post_init__(self) -> None:
        if self.nobody is None and not self.why:
            raise ValueError(f"{self.route} lets everybody in: say why")

    @property
    def parameters(self) -> tuple[str, ...]:
        """The ids in its path, by name."""
        return tuple(re.findall(r"\{(\w+)", self.path))

    @property
    def method(self) -> str:
        return self.route.partition(" ")[0]

    @property
    def path(self) -> str:
        return self.route.partition(" ")[2]


def public(route: str, why: str, *, part: str = "") -> RouteAccess:
    """A route that lets everybody in."""
    return RouteAccess(route, nobody=None, wrong_token=None, part=part, why=why)


def routes_of(application: Any) -> set[str]:
    """The routes of every Starlette or FastAPI application inside, as `GET /path`, and those of every `RouteTable`."""
    return {route for found in _applications(application, set(), 0) for route in _routes(found)}


def _routes(found: Any) -> Iterator[str]:
    if isinstance(found, RouteTable):
        yield from (route.written for route in found.routes)
        return
    for path, methods in _paths(found.routes, ""):
        yield from (f"{method} {path}" for method in sorted(methods - IMPLIED))


def _applications(place: Any, seen: set[int], depth: int) -> Iterator[Any]:
    """Applications and route tables inside middleware, methods and functions, wherever they are kept."""
    if id(place) in seen or depth > DEPTH_MAX:
        return
    seen.add(id(place))
    if isinstance(place, RouteTable) or (hasattr(place, "routes") and hasattr(place, "router")):
        yield place
        return
    for inner in _inside(place):
        if callable(inner) or isinstance(inner, RouteTable):
            yield from _applications(inner, seen, depth + 1)


def _inside(place: Any) -> list[Any]:
    if isinstance(place, MethodType):
        return [place.__self__]
    if isinstance(place, FunctionType):
        return [cell.cell_contents for cell in place.__closure__ or ()]
    if not type(place).__module__.startswith("holdfast"):
        return []
    slots = [getattr(place, name, None) for kind in type(place).__mro__ for name in getattr(kind, "__slots__", ())]
    held = [*slots, *getattr(place, "__dict__", {}).values()]
    return held + [item for one in held if isinstance(one, dict) for item in one.values()]


def _paths(routes: Any, prefix: str) -> Iterator[tuple[str, set[str]]]:
    for route in routes:
        included = getattr(route, "original_router", None)
        if included is not None:
            yield from _paths(included.routes, prefix + route.include_context.prefix)
        elif getattr(route, "routes", None):
            yield from _paths(route.routes, prefix + route.path)
        elif getattr(route, "path", None) is not None:
            yield prefix + route.path, set(getattr(route, "methods", None) or {"*"})
