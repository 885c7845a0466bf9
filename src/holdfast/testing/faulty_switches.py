"""Which faults of a stand-in are switched on, and which of them the next request meets.

Always true: what is switched on was checked field by field, and every number has a bound.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields
from threading import Lock
from typing import Any

from holdfast.base import Json, world
from holdfast.catalog import Failure
from holdfast.http.faults import VALIDATION_ERROR

DELAY_S_MAX = 300.0
RETRY_AFTER_MAX = 86_400
TIMES_MAX = 1_000_000

ENDINGS = ("status", "hang", "reset", "garbage")
"""How a request can end; one of them at a time."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Switched:
    """The faults that are on. A delay alone comes before the true answer, and before any ending that is also on."""

    status: int | None = None
    """Answer with this status and do nothing."""
    rate: float | None = None
    """The share of requests that meet the faults; all of them when it is not given."""
    delay_s: float | None = None
    """Seconds to wait first."""
    hang: bool | None = None
    """Say nothing until the client goes."""
    reset: bool | None = None
    """Cut the connection with no reply."""
    garbage: bool | None = None
    """Answer 200 with bytes that mean nothing."""
    retry_after: int | None = None
    """Seconds in the Retry-After of `status`."""
    times: int | None = None
    """Number of requests that meet the faults, which then are off; when it is not given, they stay on for ever."""
    health: bool | None = None
    """False spares the health check, which otherwise fails like everything else."""

    def told(self) -> dict[str, Json]:
        """What was switched on, as it was sent."""
        values = {part.name: getattr(self, part.name) for part in fields(self)}
        return {name: value for name, value in values.items() if value is not None}


class Faults:
    """The switches of one stand-in. They may be moved from any thread."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._on: Switched | None = None
        self._left: int | None = None
        self.met = 0
        """Number of requests that have met a fault so far, health checks included."""

    def switch(self, /, **faults: Json) -> None:
        """Switch exactly these on: `faults.switch(status=503, times=3)`.

        Raises:
            Failure: VALIDATION_ERROR that names every bad field; nothing is changed then.
        """
        on = read(faults)
        with self._lock:
            self._on, self._left = on, on.times

    def clear(self) -> None:
        """Switch everything off."""
        with self._lock:
            self._on = self._left = None

    def told(self) -> dict[str, Json]:
        """What is on; `times` is how many requests are still to meet it. Empty when nothing is."""
        with self._lock:
            if self._on is None:
                return {}
            return {**self._on.told(), **({} if self._left is None else {"times": self._left})}

    def meet(self, *, health: bool = False) -> Switched | None:
        """What the request that has just come meets. A health check does not use `times` up: probes come uncounted."""
        with self._lock:
            on = self._on
            if on is None or (health and on.health is False):
                return None
            if on.rate is not None and world().dice() >= on.rate:
                return None
            self.met += 1
            if self._left is not None and not health:
                self._left -= 1
                if self._left == 0:
                    self._on = self._left = None
            return on


def read(body: Mapping[str, Json]) -> Switched:
    """The faults that a body asks for.

    Raises:
        Failure: VALIDATION_ERROR that names every bad field.
    """
    bad = [_entry(str(name)[:64], "unknown_field", "There is no such fault") for name in body if name not in _CHECKS]
    bad += [_entry(name, *why) for name, check in _CHECKS.items() if name in body and (why := check(body[name]))]
    if not bad:
        bad = _contradictions(body)
    if bad:
        raise _refused(bad)
    return Switched(**body)


def _contradictions(body: Mapping[str, Any]) -> list[dict[str, str]]:
    on = [name for name in ENDINGS if body.get(name)]
    if len(on) > 1:
        return [
            _entry(name, "conflict", f"A request can end in one way: leave {on[0]} or {name} out") for name in on[1:]
        ]
    if not on and "delay_s" not in body:
        return [_entry("", "required", f"Name a fault: delay_s, {', '.join(ENDINGS)}")]
    if "retry_after" in body and "status" not in body:
        return [_entry("retry_after", "conflict", "Only a reply with a status can carry it")]
    return []


_Check = Callable[[Any], tuple[str, str] | None]


def _whole(least: int, most: int) -> _Check:
    def check(value: Any) -> tuple[str, str] | None:
        if type(value) is not int:
            return "type", "This is a whole number"
        return None if least <= value <= most else ("range", f"From {least} to {most}")

    return check


def _number(most: float) -> _Check:
    def check(value: Any) -> tuple[str, str] | None:
        if type(value) not in {int, float}:
            return "type", "This is a number"
        return None if 0 < value <= most else ("range", f"More than 0, up to {most:g}")

    return check


def _flag(value: Any) -> tuple[str, str] | None:
    return None if isinstance(value, bool) else ("type", "This is true or false")


_CHECKS: dict[str, _Check] = {
    "status": _whole(400, 599),
    "rate": _number(1.0),
    "delay_s": _number(DELAY_S_MAX),
    "hang": _flag,
    "reset": _flag,
    "garbage": _flag,
    "retry_after": _whole(0, RETRY_AFTER_MAX),
    "times": _whole(1, TIMES_MAX),
    "health": _flag,
}


def _entry(field: str, constraint: str, message: str) -> dict[str, str]:
    return {"field": field, "constraint": constraint, "message": message}


def _refused(bad: list[dict[str, str]]) -> Failure:
    return VALIDATION_ERROR(errors=bad, total_errors=len(bad))
