"""Switches: two providers of the same thing, and which of them is used now. One truth for all processes.

```python
switch = Switch(store)
switch.declare("email-verifier", primary="records → millionverifier", fallback="records → zerobounce")
link = switch.choose("email-verifier", primary=millionverifier, fallback=zerobounce)
```

An alert with the action `switch_provider` whose cause is the primary link flips the switch, and flips it back when it
is over; so can a hand. An answer is at most `REMEMBERED_S` old. While the store cannot be reached the last answer
holds: a switch is there to keep calls going, not to fail them.
"""

from __future__ import annotations

import threading
from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum
from typing import TypeVar

from holdfast.base import bus, monotonic_s
from holdfast.catalog import Failure
from holdfast.catalog.core import BAD_REQUEST, NOT_FOUND
from holdfast.store import Store, Tx

T = TypeVar("T")

REMEMBERED_S = 1.0
SWITCHES_MAX = 1_000
NAME_CHARS_MAX = 120
"""As long as the label of a metric may be: an alert finds the switch by it."""
BY_HAND = "hand"
SUBJECT = "switch:"
"""What happens to a switch is in the journal under this and its name."""


class Side(StrEnum):
    """Which of its two links a switch uses."""

    PRIMARY = "primary"
    FALLBACK = "fallback"


@dataclass(frozen=True, slots=True, kw_only=True)
class SwitchStatus:
    """A switch as an operator sees it."""

    name: str
    primary_link: str
    fallback_link: str
    side: Side
    flipped_by: str | None
    flipped_us: int | None
    reason: str | None


class Switch:
    """The switches of a store. Threads may share it; a coroutine asks in a thread, because the store may be slow."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._reading = threading.Lock()
        self._known: tuple[float, dict[str, Side]] | None = None

    def declare(self, name: str, *, primary: str, fallback: str) -> None:
        """Say that a switch stands for these two links; it keeps its side unless the links are others than before.

        Raises:
            Failure: BAD_REQUEST when a name is empty or too long, or both links are the same.
        """
        for field, text in (("name", name), ("primary", primary), ("fallback", fallback)):
            if not 0 < len(text) <= NAME_CHARS_MAX:
                raise BAD_REQUEST("{field} is text of 1 to {most} characters.", field=field, most=NAME_CHARS_MAX)
        if primary == fallback:
            raise BAD_REQUEST("{field} is the primary link itself.", field="fallback")
        links = {"primary_link": primary, "fallback_link": fallback}
        self._store.atomic(lambda tx: tx.run("alert.declare_switch", name=name, **links), repeatable=True)
        self._known = None

    def active(self, name: str) -> Side:
        """Which side is used now; the primary one of a switch that nobody has flipped or declared."""
        return self._sides().get(name, Side.PRIMARY)

    def choose(self, name: str, *, primary: T, fallback: T) -> T:
        """The one of two that is used now: links, clients, functions."""
        return primary if self.active(name) is Side.PRIMARY else fallback

    def flip(self, name: str, to: Side, *, reason: str, by: str = BY_HAND) -> bool:
        """Use this side from now on; False when it is used already.

        Raises:
            Failure: NOT_FOUND when there is no such switch.
        """

        def phase(tx: Tx) -> bool:
            if tx.row("alert.flip_switch", name=name, side=to.value, by=by, reason=reason) is not None:
                _note(tx, [name], to, by=by, reason=reason)
                return True
            if not any(row[0] == name for row in tx.rows("alert.switches", most=SWITCHES_MAX)):
                raise NOT_FOUND("There is no switch {name}.", name=name)
            return False

        flipped = self._store.atomic(phase)
        self._known = None
        return flipped

    def list(self) -> list[SwitchStatus]:
        """Every switch, by name."""
        rows = self._store.atomic(lambda tx: tx.records("alert.switches", most=SWITCHES_MAX), write=False)
        return [SwitchStatus(**{**row, "side": Side(row["side"])}) for row in rows]

    def _sides(self) -> dict[str, Side]:
        known = self._known
        if known is not None and 0 <= monotonic_s() - known[0] < REMEMBERED_S:
            return known[1]
        # One thread asks; another one that comes meanwhile uses the last answer, if there is one.
        if not self._reading.acquire(blocking=known is None):
            return known[1] if known is not None else {}
        try:
            return self._read(known)
        finally:
            self._reading.release()

    def _read(self, known: tuple[float, dict[str, Side]] | None) -> dict[str, Side]:
        # Counted from before the question, so that an answer is never older than it claims.
        asked_s = monotonic_s()
        try:
            sides = {one.name: one.side for one in self.list()}
        except Failure:
            sides = {} if known is None else known[1]
        self._known = asked_s, sides
        return sides


def divert(tx: Tx, link: str, *, by: str, reason: str) -> list[str]:
    """Away from a link that fails, wherever it is the primary one; the switches that were flipped."""
    names = [row[0] for row in tx.rows("alert.divert", link=link, by=by, reason=reason)]
    _note(tx, names, Side.FALLBACK, by=by, reason=reason)
    return names


def restore(tx: Tx, link: str, *, by: str, reason: str) -> list[str]:
    """Back to a link, where it was the same one who flipped; the switches that were flipped."""
    names = [row[0] for row in tx.rows("alert.restore", link=link, by=by, reason=reason)]
    _note(tx, names, Side.PRIMARY, by=by, reason=reason)
    return names


def _note(tx: Tx, names: Iterable[str], side: Side, *, by: str, reason: str) -> None:
    for name in names:
        tx.run(
            "alert.journal", subject=SUBJECT + name, verb="flipped", code=None, reason=f"to {side} by {by}: {reason}"
        )
        tx.after_commit.append(lambda name=name: _tell(name, side, by, reason))  # type: ignore[misc]


def _tell(name: str, side: Side, by: str, reason: str) -> None:
    if bus.listeners:
        bus.tell("switch.flipped", name=name, side=side.value, by=by, reason=reason)
