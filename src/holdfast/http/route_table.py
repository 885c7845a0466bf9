"""Routes as a table that dispatches and can be listed: what answers here is what a test of access asks.

A path is written as `/jobs/{job_id}`; a name in braces stands for one segment that is not empty, and at the end
`{job_id:path}` for all that is left. A route with no name in it comes before one that has names, whatever the order of
the table.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Generic, TypeVar

T_co = TypeVar("T_co", covariant=True)
REST = ":path}"


@dataclass(frozen=True, slots=True)
class Route(Generic[T_co]):
    """One method of one path, written as `GET /jobs`, and what answers it. HEAD is answered where GET is."""

    written: str
    answer: T_co

    @property
    def method(self) -> str:
        return self.written.partition(" ")[0]

    @property
    def path(self) -> str:
        return self.written.partition(" ")[2]


@dataclass(frozen=True, slots=True)
class Found(Generic[T_co]):
    """What answers a request, and the values of the names in its path."""

    answer: T_co
    names: Mapping[str, str]


class RouteTable(Generic[T_co]):
    """The routes of one application."""

    def __init__(self, routes: Iterable[Route[T_co]]) -> None:
        """
        Raises:
            ValueError: a method of a path is there twice.
        """
        self.routes = tuple(sorted(routes, key=lambda route: "{" in route.path))
        listed = [route.written for route in self.routes]
        twice = {one for one in listed if listed.count(one) > 1}
        if twice:
            raise ValueError(f"more than one route is {', '.join(sorted(twice))}")

    def find(self, method: str, path: str) -> Found[T_co] | None:
        """What answers; None when nothing does."""
        wanted = "GET" if method == "HEAD" else method
        for route in self.routes:
            names = _names(route.path, path)
            if names is not None and route.method == wanted:
                return Found(route.answer, names)
        return None

    def methods(self, path: str) -> list[str]:
        """The methods that a path answers; none for a path that is not there."""
        found = {route.method for route in self.routes if _names(route.path, path) is not None}
        return sorted(found | ({"HEAD"} if "GET" in found else set()))


def _names(pattern: str, path: str) -> dict[str, str] | None:
    """The values of the names in a pattern; None when the path does not fit it."""
    wanted = pattern.split("/")
    given = path.split("/", len(wanted) - 1) if pattern.endswith(REST) else path.split("/")
    if len(wanted) != len(given):
        return None
    names = {}
    for part, value in zip(wanted, given, strict=True):
        if part.startswith("{") and value:
            names[part[1:-1].partition(":")[0]] = value
        elif part != value:
            return None
    return names
